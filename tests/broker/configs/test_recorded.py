"""Our answers are those that Apache Kafka gave: to every case on record, and about every config that there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pytest

from ottla.broker.configs import (
    BrokerConfigs,
    BrokerLoggers,
    TopicConfigs,
    alter,
    describe_created,
    incremental_alter,
    preprocess,
    validate_topic,
)
from ottla.broker.configs.describe import (
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from ottla.broker.configs.group import GroupConfigs
from ottla.broker.configs.tables import BROKER, TOPIC
from ottla.errors import BrokerError
from ottla.wire.messages import AlterConfigsRequest, IncrementalAlterConfigsRequest
from ottla.wire.resources import ConfigResourceType, ConfigSource
from tests.broker.configs import cases
from tests.broker.configs.recorded import ANSWERS, DESCRIBED, Line, load

CLUSTER_MIN_ISR = {"min.insync.replicas": "1"}
"""With eligible leader replicas a new cluster sets it for all brokers."""


@cache
def entries_of(what: str) -> list[Line]:
    return [line for line in load(DESCRIBED) if line["of"] == what]


@cache
def plain_static() -> dict[str, str]:
    """What the recorded broker was started with."""
    static = ConfigSource.STATIC_BROKER
    return {
        name: value
        for line in entries_of("plain broker")
        for name, value, source in line["synonyms"]
        if source == static
    }


def plain_broker() -> BrokerConfigs:
    broker = BrokerConfigs(plain_static(), node_id=cases.NODE_ID)
    broker.set_dynamic({}, CLUSTER_MIN_ISR)
    return broker


def special_broker() -> BrokerConfigs:
    broker = BrokerConfigs({**plain_static(), **cases.STATIC}, node_id=cases.NODE_ID)
    broker.set_dynamic(cases.DYNAMIC, cases.DYNAMIC_DEFAULT)
    return broker


# Altering


def case_name(line: Line) -> str:
    changes = ",".join(f"{name} {operation} {str(value)[:20]}" for name, operation, value in line["changes"])
    kind, name = line["kind"], line["name"]
    return f"{line['how']} {kind} {'-' if name is None else name[:9]} {changes[:60]}"


@pytest.mark.parametrize("line", load(ANSWERS), ids=case_name)
def test_an_alteration_is_answered_as_kafka_answers_it(line: Line) -> None:
    if line["code"] == 0:
        assert play(line) == line["after"]
        return
    with pytest.raises(BrokerError) as refused:
        play(line)
    assert (refused.value.code, refused.value.message) == (line["code"], line["message"])


def play(line: Line) -> Mapping[str, str | None]:
    """The overrides that a resource has afterwards, as DescribeConfigs shows them."""
    broker = plain_broker()
    kind, name = line["kind"], "case" if line["name"] is None else line["name"]
    if line["how"] == "create":
        validate_topic({key: value for key, _, value in line["changes"]}, broker)
        return {}
    current = CLUSTER_MIN_ISR if kind == ConfigResourceType.BROKER and not name else line["before"]
    resource: Any
    if line["how"] == "whole":
        resource = AlterConfigsRequest.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                AlterConfigsRequest.AlterableConfig(name=key, value=value)
                for key, _, value in line["changes"]
            ],
        )
    else:
        resource = incremental(kind, name, line["changes"])
    (error,) = preprocess([resource], broker, BrokerLoggers())
    if error is not None:
        raise error
    if kind == ConfigResourceType.BROKER_LOGGER:
        return {}
    change = alter if line["how"] == "whole" else incremental_alter
    after = change(resource, current, broker, elr=True)
    return dict(own(kind, name, after, broker))


def incremental(
    kind: int, name: str, changes: Sequence[tuple[str, int, str | None]]
) -> IncrementalAlterConfigsRequest.AlterConfigsResource:
    return IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )


def own(
    kind: int, name: str, overrides: Mapping[str, str], broker: BrokerConfigs
) -> Iterator[tuple[str, str | None]]:
    match kind:
        case ConfigResourceType.TOPIC:
            entries = describe_topic(TopicConfigs(overrides, broker))
        case ConfigResourceType.GROUP:
            entries = describe_group(GroupConfigs(overrides, broker))
        case ConfigResourceType.CLIENT_METRICS:
            entries = describe_client_metrics(overrides)
        case _ if name:
            entries = describe_broker(broker.with_dynamic(overrides, CLUSTER_MIN_ISR))
        case _:
            entries = describe_broker_defaults(broker.with_dynamic({}, overrides))
    return ((entry.name, entry.value) for entry in entries if entry.name in overrides)


# Describing


def plainly(entries: Sequence[Any]) -> dict[str, Line]:
    return {
        entry.name: {
            "name": entry.name,
            "value": entry.value,
            "read_only": entry.read_only,
            "source": entry.config_source,
            "sensitive": entry.is_sensitive,
            "type": entry.config_type,
            "synonyms": [[each.name, each.value, each.source] for each in entry.synonyms],
        }
        for entry in entries
    }


@pytest.mark.parametrize(
    ("what", "ours"),
    [
        ("topic", lambda: describe_topic(TopicConfigs({}, plain_broker()))),
        ("broker", lambda: describe_broker(plain_broker())),
        ("group", lambda: describe_group(GroupConfigs({}, plain_broker()))),
        ("client metrics", lambda: describe_client_metrics({})),
    ],
)
def test_a_resource_without_configs_is_described_as_kafka_describes_it(what: str, ours: Any) -> None:
    described = plainly(ours())
    recorded = entries_of(f"plain {what}")
    assert {line["name"] for line in recorded} ^ described.keys() <= {
        # These have a port or a path of the run that was recorded.
        "listeners",
        "log.dirs",
        "controller.quorum.bootstrap.servers",
    }
    for line in recorded:
        assert {"of": f"plain {what}", **described[line["name"]]} == line


@pytest.mark.parametrize(
    ("what", "ours"),
    [
        ("topic", lambda: describe_topic(TopicConfigs(cases.TOPIC_OVERRIDES, special_broker()))),
        ("broker", lambda: describe_broker(special_broker())),
        ("broker defaults", lambda: describe_broker_defaults(special_broker())),
        ("group", lambda: describe_group(GroupConfigs(cases.GROUP_OVERRIDES, special_broker()))),
        ("client metrics", lambda: describe_client_metrics(cases.METRICS_OVERRIDES)),
    ],
)
def test_a_resource_with_configs_is_described_as_kafka_describes_it(what: str, ours: Any) -> None:
    described = plainly(ours())
    for line in entries_of(what):
        assert {"of": what, **described[line["name"]]} == line


def test_a_new_topic_is_described_as_kafka_describes_it() -> None:
    ours = describe_created({"retention.bytes": " 7"}, special_broker())
    assert [
        {"of": "created", "name": entry.name, "value": entry.value, "source": entry.config_source}
        for entry in ours
    ] == entries_of("created")


def test_every_config_on_record_is_in_a_table() -> None:
    assert {line["name"] for line in entries_of("plain topic")} < set(TOPIC)
    assert {line["name"] for line in entries_of("plain broker")} < set(BROKER)
