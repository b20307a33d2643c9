"""AlterConfigs and IncrementalAlterConfigs, and what DescribeConfigs says afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.wire.messages import AlterConfigsRequest, IncrementalAlterConfigsRequest
from tests.interop.comparison.requests import configs_of, given, just
from tests.interop.comparison.script import Build, Step, ask, section

TOPIC, OTHER = "alter-a", "alter-b"
TOPICS, BROKERS, LOGGERS, METRICS, GROUPS = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
ALTERED = [
    "cleanup.policy",
    "retention.ms",
    "segment.bytes",
    "max.message.bytes",
    "leader.replication.throttled.replicas",
]

Change = tuple[str, int, str | None]


def incremental(name: str, *changes: Change, kind: int = TOPICS, validate_only: bool = False) -> Build:
    return just(
        IncrementalAlterConfigsRequest(
            resources=[changed(name, *changes, kind=kind)], validate_only=validate_only
        )
    )


def changed(
    name: str, *changes: Change, kind: int = TOPICS
) -> IncrementalAlterConfigsRequest.AlterConfigsResource:
    return IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )


def whole(
    name: str, config: dict[str, str | None], *, kind: int = TOPICS, validate_only: bool = False
) -> Build:
    configs = [AlterConfigsRequest.AlterableConfig(name=key, value=value) for key, value in config.items()]
    resource = AlterConfigsRequest.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=configs
    )
    return just(AlterConfigsRequest(resources=[resource], validate_only=validate_only))


def value_is(name: str, value: str) -> Callable[[Any], bool]:
    """Until a broker has heard of a change."""
    return lambda answer: any(
        config.name == name and config.value == value for config in answer.results[0].configs
    )


def seen(label: str, name: str, value: str, *, kind: int = TOPICS, of: str = TOPIC) -> list[Step]:
    keys = ALTERED if kind == TOPICS else [name]
    return ask(f"described after {label}", configs_of(kind, of, keys), 4, until=value_is(name, value))


INCREMENTAL = section(
    "incremental alter configs",
    given(TOPIC, OTHER),
    ask("set", incremental(TOPIC, ("retention.ms", SET, "1000")), 0),
    seen("set", "retention.ms", "1000"),
    ask("set another", incremental(TOPIC, ("segment.bytes", SET, "2000000")), 1),
    seen("set another", "segment.bytes", "2000000"),
    ask("only validated", incremental(TOPIC, ("retention.ms", SET, "7"), validate_only=True), 0, 1),
    ask("append", incremental(TOPIC, ("cleanup.policy", APPEND, "compact")), 1),
    seen("append", "cleanup.policy", "delete,compact"),
    ask("append what is there", incremental(TOPIC, ("cleanup.policy", APPEND, "compact")), 1),
    ask("subtract", incremental(TOPIC, ("cleanup.policy", SUBTRACT, "delete")), 1),
    seen("subtract", "cleanup.policy", "compact"),
    ask("subtract what is not there", incremental(TOPIC, ("cleanup.policy", SUBTRACT, "delete")), 1),
    ask("delete", incremental(TOPIC, ("retention.ms", DELETE, None)), 1),
    ask("delete what is not set", incremental(TOPIC, ("flush.ms", DELETE, None)), 1),
    ask("delete with a value", incremental(TOPIC, ("cleanup.policy", DELETE, "x")), 1),
    seen("delete", "cleanup.policy", "delete"),
    ask("append to what is no list", incremental(TOPIC, ("retention.ms", APPEND, "1")), 1),
    ask("subtract from what is no list", incremental(TOPIC, ("retention.ms", SUBTRACT, "1")), 1),
    ask("an unknown operation", incremental(TOPIC, ("retention.ms", 9, "1")), 1),
    ask("set to null", incremental(TOPIC, ("retention.ms", SET, None)), 1),
    ask("append null", incremental(TOPIC, ("cleanup.policy", APPEND, None)), 1),
    ask("set to what is no number", incremental(TOPIC, ("retention.ms", SET, "never")), 0, 1),
    ask("set to what is not allowed", incremental(TOPIC, ("cleanup.policy", SET, "sometimes")), 1),
    ask("append what is not allowed", incremental(TOPIC, ("cleanup.policy", APPEND, "sometimes")), 1),
    ask("an unknown config", incremental(TOPIC, ("no.such.config", SET, "1")), 0, 1),
    ask("delete an unknown config", incremental(TOPIC, ("no.such.config", DELETE, None)), 1),
    ask("an empty config name", incremental(TOPIC, ("", SET, "1")), 1),
    ask("one config twice", incremental(TOPIC, ("retention.ms", SET, "1"), ("retention.ms", SET, "2")), 1),
    ask("no configs", incremental(TOPIC), 1),
    ask("an unknown topic", incremental("alter-none", ("retention.ms", SET, "1")), 0, 1),
    ask("a topic without a name", incremental("", ("retention.ms", SET, "1")), 1),
    ask(
        "a good and a bad topic",
        just(
            IncrementalAlterConfigsRequest(
                resources=[
                    changed(OTHER, ("retention.ms", SET, "99")),
                    changed("alter-none", ("retention.ms", SET, "99")),
                ]
            )
        ),
        1,
    ),
    ask(
        "one topic twice",
        just(
            IncrementalAlterConfigsRequest(
                resources=[
                    changed(OTHER, ("retention.ms", SET, "98")),
                    changed(OTHER, ("segment.ms", SET, "98")),
                ]
            )
        ),
        1,
    ),
    ask("an unknown kind", incremental("x", ("a", SET, "b"), kind=77), 1),
    ask("kind zero", incremental("x", ("a", SET, "b"), kind=0), 1),
    ask("of a group", incremental("group", ("consumer.session.timeout.ms", SET, "50000"), kind=GROUPS), 1),
    ask("of a metrics subscription", incremental("metrics", ("interval.ms", SET, "1000"), kind=METRICS), 1),
    ask("of nothing", just(IncrementalAlterConfigsRequest(resources=[])), 0, 1),
)

OF_BROKERS = section(
    "alter broker configs",
    ask("set for one", incremental("1", ("log.segment.bytes", SET, "3000000"), kind=BROKERS), 1),
    seen("set for one", "log.segment.bytes", "3000000", kind=BROKERS, of="1"),
    ask("set for all", incremental("", ("log.retention.bytes", SET, "4000000"), kind=BROKERS), 1),
    seen("set for all", "log.retention.bytes", "4000000", kind=BROKERS, of="1"),
    ask("described for all", configs_of(BROKERS, "", ["log.retention.bytes"]), 4),
    ask(
        "described of a topic after that",
        configs_of(TOPICS, OTHER, ["segment.bytes", "retention.bytes"]),
        4,
    ),
    ask("set for one and for all", incremental("1", ("log.retention.bytes", SET, "5"), kind=BROKERS), 1),
    seen("set for one and for all", "log.retention.bytes", "5", kind=BROKERS, of="1"),
    ask(
        "delete for one",
        incremental(
            "1", ("log.segment.bytes", DELETE, None), ("log.retention.bytes", DELETE, None), kind=BROKERS
        ),
        1,
    ),
    ask("delete for all", incremental("", ("log.retention.bytes", DELETE, None), kind=BROKERS), 1),
    seen("delete for all", "log.retention.bytes", "-1", kind=BROKERS, of="1"),
    ask("one that is read only", incremental("1", ("node.id", SET, "7"), kind=BROKERS), 1),
    ask("one that is read only, for all", incremental("", ("broker.rack", SET, "r"), kind=BROKERS), 1),
    ask("one that each broker has", incremental("", ("listeners", SET, "a"), kind=BROKERS), 1),
    ask("a wrong value", incremental("1", ("log.segment.bytes", SET, "x"), kind=BROKERS), 1),
    ask("an unknown config", incremental("1", ("no.such.config", SET, "1"), kind=BROKERS), 1),
    ask("an unknown broker", incremental("99", ("log.segment.bytes", SET, "3000000"), kind=BROKERS), 1),
    ask(
        "a broker that is no number",
        incremental("one", ("log.segment.bytes", SET, "3000000"), kind=BROKERS),
        1,
    ),
    ask("a logger that is not there", incremental("1", ("no.such.logger", SET, "INFO"), kind=LOGGERS), 1),
)

WHOLE = section(
    "alter configs",
    given("alter-whole", config={"retention.ms": "1"}),
    ask("replaced", whole("alter-whole", {"segment.bytes": "2000000"}), 0),
    seen("replaced", "segment.bytes", "2000000", of="alter-whole"),
    ask("replaced again", whole("alter-whole", {"max.message.bytes": "7777", "retention.ms": "9"}), 1, 2),
    seen("replaced again", "retention.ms", "9", of="alter-whole"),
    ask("only validated", whole("alter-whole", {"retention.ms": "5"}, validate_only=True), 0, 2),
    ask("emptied", whole("alter-whole", {}), 2),
    seen("emptied", "max.message.bytes", "1048588", of="alter-whole"),
    ask("a null value", whole("alter-whole", {"retention.ms": None}), 2),
    ask("a wrong value", whole("alter-whole", {"retention.ms": "x"}), 0, 2),
    ask("an unknown config", whole("alter-whole", {"no.such.config": "1"}), 2),
    ask("an unknown topic", whole("alter-none", {"retention.ms": "1"}), 0, 2),
    ask("a broker", whole("1", {"log.segment.bytes": "3000000"}, kind=BROKERS, validate_only=True), 2),
    ask("an unknown broker", whole("99", {"log.segment.bytes": "3000000"}, kind=BROKERS), 2),
    ask("a broker that is no number", whole("one", {"log.segment.bytes": "3000000"}, kind=BROKERS), 2),
    ask("an unknown kind", whole("x", {"a": "b"}, kind=77), 2),
    ask("of nothing", just(AlterConfigsRequest(resources=[])), 0, 2),
)
