"""Changes of several configs and several resources at once: which mistake is told, and of whom."""

from __future__ import annotations

from ottla.wire.messages import AlterConfigsRequest, IncrementalAlterConfigsRequest
from tests.interop.comparison.requests import given, just
from tests.interop.comparison.script import Build, Step, ask, section
from tests.interop.comparison.steps.config_changes import (
    APPEND,
    BROKERS,
    DELETE,
    GROUPS,
    LOGGERS,
    METRICS,
    SET,
    SUBTRACT,
    TOPICS,
    Change,
    changed,
    incremental,
    whole,
)

TOPIC, OTHER = "orders-a", "orders-b"
REPLACED, BESIDE = "orders-c", "orders-d"
NAMES = {TOPICS: TOPIC, BROKERS: "1", LOGGERS: "1", METRICS: "orders", GROUPS: "orders"}
KINDS = {TOPICS: "topic", BROKERS: "broker", LOGGERS: "logger", METRICS: "metrics", GROUPS: "group"}
UNKNOWN_OPERATION = 9
# A broker knows what to say about an operation that does not exist, and changes the levels of its loggers itself. Of
# the other kinds Kafka's controller is the judge, which gives up its office over one and takes seconds to be elected
# again: there it is asked as rarely as can be.
_REFUSE_OPERATIONS = (BROKERS, LOGGERS)

# A config of each kind, with a value that it may have.
GOOD: dict[int, tuple[str, str]] = {
    TOPICS: ("retention.ms", "1000"),
    BROKERS: ("log.retention.bytes", "1000"),
    LOGGERS: ("root", "INFO"),
    METRICS: ("interval.ms", "1000"),
    GROUPS: ("consumer.session.timeout.ms", "50000"),
}


def several(
    *resources: IncrementalAlterConfigsRequest.AlterConfigsResource, validate_only: bool = False
) -> Build:
    return just(IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only))


def replacing(
    name: str, *configs: tuple[str, str | None], kind: int = TOPICS
) -> AlterConfigsRequest.AlterConfigsResource:
    return AlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterConfigsRequest.AlterableConfig(name=key, value=value) for key, value in configs],
    )


def several_replaced(
    *resources: AlterConfigsRequest.AlterConfigsResource, validate_only: bool = False
) -> Build:
    return just(AlterConfigsRequest(resources=list(resources), validate_only=validate_only))


def _mistakes(kind: int) -> dict[str, Change]:
    """Every mistake that one change can be, for one kind of resource."""
    name, value = GOOD[kind]
    return {
        "a bad value": (name, SET, "?"),
        "an empty value": (name, SET, ""),
        "a null value": (name, SET, None),
        "an unknown operation": (name, UNKNOWN_OPERATION, value),
        "an unknown operation without a value": (name, UNKNOWN_OPERATION, None),
        "appended to no list": (name, APPEND, value),
        "subtracted from no list": (name, SUBTRACT, value),
        "appended nothing": (name, APPEND, None),
        "subtracted nothing": (name, SUBTRACT, None),
        "an unknown config": ("no.such.config", SET, "1"),
        "an unknown config without a value": ("no.such.config", SET, None),
        "an unknown config appended to": ("no.such.config", APPEND, "1"),
        "an unknown config deleted": ("no.such.config", DELETE, None),
        "an unknown config with an unknown operation": ("no.such.config", UNKNOWN_OPERATION, "1"),
        "a config without a name": ("", SET, "1"),
        "deleted with a value": (name, DELETE, value),
        "a value that no message has room for": (name, SET, "x" * 32767),
    }


def _one_mistake(kind: int) -> list[Step]:
    return [
        step
        for label, change in _mistakes(kind).items()
        for step in ask(
            f"{KINDS[kind]}: {label}", incremental(NAMES[kind], change, kind=kind, validate_only=True), 1
        )
    ]


def _two_mistakes(kind: int) -> list[Step]:
    """Each pair of mistakes under two names, in both orders."""
    name, _ = GOOD[kind]
    second = {TOPICS: "segment.ms", BROKERS: "message.max.bytes", METRICS: "metrics", LOGGERS: "kafka"}.get(
        kind, "consumer.heartbeat.interval.ms"
    )
    wrong: dict[str, Change] = {
        "a bad value": (second, SET, "?"),
        "a null": (second, SET, None),
        "an unknown operation": (second, UNKNOWN_OPERATION, "1"),
        "appended": (second, APPEND, "1"),
        "an unknown config": ("no.such.config", SET, "1"),
        "a duplicate": (name, SET, "7"),
    }
    first: dict[str, Change] = {
        "bad value": (name, SET, "?"),
        "null": (name, SET, None),
        "unknown operation": (name, UNKNOWN_OPERATION, "1"),
        "appended": (name, APPEND, "1"),
        "unknown config": ("no.such.other", SET, "1"),
    }
    if kind not in _REFUSE_OPERATIONS:
        del first["unknown operation"]
    if kind not in (*_REFUSE_OPERATIONS, METRICS):
        del wrong["an unknown operation"]
    return [
        step
        for label, change in first.items()
        for also, other in wrong.items()
        for how, pair in (("then", (change, other)), ("after", (other, change)))
        for step in ask(
            f"{KINDS[kind]}: {label} {how} {also}",
            incremental(NAMES[kind], *pair, kind=kind, validate_only=True),
            1,
        )
    ]


def _names() -> list[Step]:
    """Resources that are not there, with a change that is wrong as well."""
    names = {
        TOPICS: ("orders-none", "", "a b", ".", "x" * 250),
        BROKERS: ("99", "x", "-1", "1 ", " 1", "+1", "01", "1.0", "99999999999", "2147483648", "-2147483649"),
        LOGGERS: ("99", "x", "", "-1", "+1", "01"),
        METRICS: ("",),
        GROUPS: ("",),
        0: ("", "x"),
        1: ("", "x"),
        3: ("x",),
        -1: ("x",),
        64: ("x",),
        127: ("x",),
    }
    changes: dict[str, Change | None] = {
        "good": None,
        "nothing": None,
        "a bad value": ("retention.ms", SET, "?"),
        "a null": ("retention.ms", SET, None),
        "an unknown operation": ("retention.ms", UNKNOWN_OPERATION, "1"),
        "appended": ("retention.ms", APPEND, "1"),
        "unknown": ("no.such.config", SET, "1"),
    }
    steps = []
    for kind, each in names.items():
        for name in each:
            for label, change in changes.items():
                if label == "an unknown operation" and (
                    kind in (METRICS, GROUPS) or name in ("a b", ".", "x" * 250)
                ):
                    continue
                if label == "good":
                    key, value = GOOD.get(kind, ("a", "b"))
                    made: tuple[Change, ...] = ((key, SET, value),)
                else:
                    made = () if change is None else (change,)
                steps += ask(
                    f"{KINDS.get(kind, kind)} {name[:12]!r}: {label}",
                    incremental(name, *made, kind=kind, validate_only=True),
                    1,
                )
    return steps


def _whole_names() -> list[Step]:
    steps = []
    for kind, names in {
        TOPICS: (REPLACED, "orders-none", "", "a b"),
        BROKERS: ("1", "", "99", "x", "+1", "01"),
        LOGGERS: ("1", "", "99"),
        METRICS: ("orders", ""),
        GROUPS: ("orders", ""),
        0: ("x",),
        3: ("x",),
        -1: ("x",),
    }.items():
        for name in names:
            key, value = GOOD.get(kind, ("a", "b"))
            changes: dict[str, dict[str, str | None]] = {
                "good": {key: value},
                "nothing": {},
                "a bad value": {key: "?"},
                "a null": {key: None},
                "unknown": {"no.such.config": "1"},
                "a null, then unknown": {key: None, "no.such.config": "1"},
                "unknown, then a bad value": {"no.such.config": "1", key: "?"},
            }
            for label, configs in changes.items():
                steps += ask(
                    f"{KINDS.get(kind, kind)} {name!r}: {label}",
                    whole(name, configs, kind=kind, validate_only=True),
                    2,
                )
    return steps


def _set(kind: int, value: str | None = None) -> Change:
    name, good = GOOD[kind]
    return (name, SET, good if value is None else value)


def _several() -> list[Step]:
    good_topic = changed(TOPIC, _set(TOPICS))
    good_other = changed(OTHER, _set(TOPICS))
    bad_topic = changed(TOPIC, _set(TOPICS, "?"))
    null_topic = changed(TOPIC, ("retention.ms", SET, None))
    appended_topic = changed(TOPIC, ("retention.ms", APPEND, "1"))
    twice_topic = changed(TOPIC, _set(TOPICS), _set(TOPICS, "7"))
    no_topic = changed("orders-none", _set(TOPICS))
    odd_kind = changed("x", ("a", SET, "b"), kind=77)
    kind_zero = changed("x", ("a", SET, "b"), kind=0)
    odd_no_topic = changed("orders-none", ("retention.ms", UNKNOWN_OPERATION, "1"))
    good_broker = changed("1", _set(BROKERS), kind=BROKERS)
    bad_broker = changed("1", _set(BROKERS, "?"), kind=BROKERS)
    odd_broker = changed("1", ("log.retention.bytes", UNKNOWN_OPERATION, "1"), kind=BROKERS)
    all_brokers = changed("", _set(BROKERS), kind=BROKERS)
    other_broker = changed("99", _set(BROKERS), kind=BROKERS)
    text_broker = changed("x", _set(BROKERS), kind=BROKERS)
    good_logger = changed("1", _set(LOGGERS), kind=LOGGERS)
    bad_logger = changed("1", ("root", SET, "?"), kind=LOGGERS)
    odd_logger = changed("1", ("root", UNKNOWN_OPERATION, "INFO"), kind=LOGGERS)
    text_logger = changed("x", _set(LOGGERS), kind=LOGGERS)
    good_metrics = changed("orders-m", _set(METRICS), kind=METRICS)
    odd_metrics = changed("orders-m", ("interval.ms", UNKNOWN_OPERATION, "1"), kind=METRICS)
    good_group = changed("orders-g", _set(GROUPS), kind=GROUPS)
    wrong = {
        "a bad value": bad_topic,
        "a null": null_topic,
        "appended": appended_topic,
        "a config twice": twice_topic,
        "an unknown topic": no_topic,
        "an unknown kind": odd_kind,
        "kind zero": kind_zero,
        "a bad broker": bad_broker,
        "an unknown operation for a broker": odd_broker,
        "another broker": other_broker,
        "a broker that is no number": text_broker,
        "a bad logger": bad_logger,
        "an unknown operation for a logger": odd_logger,
        "a logger that is no number": text_logger,
        "a good broker": good_broker,
        "all brokers": all_brokers,
        "a good logger": good_logger,
        "good metrics": good_metrics,
        "a good group": good_group,
    }
    unexpected = {
        "an unknown operation for an unknown topic": odd_no_topic,
        "an unknown operation for metrics": odd_metrics,
    }
    steps = []
    for label, resource in wrong.items():
        steps += ask(f"a good topic, {label}", several(good_other, resource, validate_only=True), 1)
        steps += ask(f"{label}, a good topic", several(resource, good_other, validate_only=True), 1)
        steps += ask(f"{label} twice", several(resource, resource, validate_only=True), 1)
        steps += ask(
            f"{label} twice and a good topic", several(resource, resource, good_other, validate_only=True), 1
        )
    for label, resource in unexpected.items():
        for also in ("a bad value", "an unknown topic", "a bad broker", "a logger that is no number"):
            steps += ask(f"{label}, {also}", several(resource, wrong[also], validate_only=True), 1)
        steps += ask(f"{label} twice", several(resource, resource, validate_only=True), 1)
    steps += ask("a topic thrice", several(good_topic, good_topic, bad_topic, validate_only=True), 1)
    steps += ask(
        "a good topic thrice and another", several(good_topic, good_topic, good_topic, good_other), 1
    )
    return steps


def _several_replaced() -> list[Step]:
    good = replacing(BESIDE, ("retention.ms", "1000"))
    wrong = {
        "a bad value": replacing(REPLACED, ("retention.ms", "?")),
        "a null": replacing(REPLACED, ("retention.ms", None)),
        "a config twice": replacing(REPLACED, ("retention.ms", "1"), ("retention.ms", "2")),
        "a null twice": replacing(REPLACED, ("retention.ms", None), ("retention.ms", None)),
        "an unknown topic": replacing("orders-none", ("retention.ms", "1")),
        "an unknown kind": replacing("x", ("a", "b"), kind=77),
        "kind zero": replacing("x", ("a", "b"), kind=0),
        "a good broker": replacing("1", ("log.retention.bytes", "1000"), kind=BROKERS),
        "a bad broker": replacing("1", ("log.retention.bytes", "?"), kind=BROKERS),
        "another broker": replacing("99", ("log.retention.bytes", "1000"), kind=BROKERS),
        "a logger": replacing("1", ("root", "INFO"), kind=LOGGERS),
        "a bad logger": replacing("1", ("root", "?"), kind=LOGGERS),
        "metrics": replacing("orders-m", ("interval.ms", "1000"), kind=METRICS),
        "bad metrics": replacing("orders-m", ("interval.ms", "?"), kind=METRICS),
        "a group": replacing("orders-g", ("consumer.session.timeout.ms", "50000"), kind=GROUPS),
    }
    steps = []
    for label, resource in wrong.items():
        steps += ask(f"a good topic, {label}", several_replaced(good, resource, validate_only=True), 2)
        steps += ask(f"{label}, a good topic", several_replaced(resource, good, validate_only=True), 2)
    return steps


INCREMENTAL = section(
    "several incremental changes",
    given(TOPIC, OTHER),
    *(_one_mistake(kind) for kind in KINDS),
    *(_two_mistakes(kind) for kind in KINDS),
    _names(),
    _several(),
)

WHOLE = section(
    "several whole changes",
    given(REPLACED, BESIDE),
    _whole_names(),
    _several_replaced(),
    ask(
        "a topic twice",
        several_replaced(*[replacing(REPLACED, ("retention.ms", "1"))] * 2, validate_only=True),
        2,
        within=2.0,
    ),
)
