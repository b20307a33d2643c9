"""Asks Apache Kafka about configs and writes its answers down: `python -m tests.broker.configs.record`.

Needs Java, as the tests marked `kafka` do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ottla.wire.messages import (
    AlterConfigsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.resources import ConfigResourceType, ConfigSource
from tests.broker.configs.cases import (
    DELETE,
    DYNAMIC,
    DYNAMIC_DEFAULT,
    GROUP_OVERRIDES,
    METRICS_OVERRIDES,
    NODE_ID,
    SET,
    STATIC,
    TOPIC_OVERRIDES,
    Case,
    Change,
    all_cases,
)
from tests.broker.configs.recorded import ANSWERS, DESCRIBED, Line, answer_to_line, save
from tests.interop import jars
from tests.interop.apache import ApacheKafka
from tests.interop.plain import Connection

_OWN: Final = {
    ConfigResourceType.TOPIC: ConfigSource.TOPIC,
    ConfigResourceType.BROKER: ConfigSource.DYNAMIC_BROKER,
    ConfigResourceType.CLIENT_METRICS: ConfigSource.CLIENT_METRICS,
    ConfigResourceType.GROUP: ConfigSource.GROUP,
}
# How long a broker may take to hear of a change from its controller; nobody knows whether there is one.
_SETTLE_S: Final = 1.0

# Paths and ports that differ from run to run.
_OF_ONE_RUN: Final = ("listeners", "log.dirs", "controller.quorum.bootstrap.servers")


class Kafka:
    """One connection to a broker, and the few requests that are asked over it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._names = 0

    def fresh_name(self) -> str:
        self._names += 1
        return f"case-{self._names}"

    def describe(self, kind: int, name: str) -> list[Any]:
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        answer = self._connection.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)
        assert isinstance(answer, DescribeConfigsResponse)
        return sorted(answer.results[0].configs, key=lambda config: config.name)

    def overrides(self, kind: int, name: str) -> dict[str, str | None]:
        own: int | None = _OWN.get(ConfigResourceType(kind))
        if kind == ConfigResourceType.BROKER and not name:
            own = ConfigSource.DYNAMIC_DEFAULT_BROKER
        return {
            config.name: config.value for config in self.describe(kind, name) if config.config_source == own
        }

    def create(self, name: str, changes: tuple[Change, ...]) -> Any:
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, _, value in changes
            ],
        )
        answer: Any = self._connection.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        return answer.topics[0]

    def replace(self, kind: int, name: str, changes: tuple[Change, ...]) -> Any:
        configs = [AlterConfigsRequest.AlterableConfig(name=key, value=value) for key, _, value in changes]
        resource = AlterConfigsRequest.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=configs
        )
        answer: Any = self._connection.ask(AlterConfigsRequest(resources=[resource]), 2)
        return answer.responses[0]

    def alter(self, kind: int, name: str, *changes: Change) -> Any:
        configs = [
            IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ]
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=configs
        )
        answer: Any = self._connection.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        return answer.responses[0]

    def set_all(self, kind: int, name: str, overrides: dict[str, str]) -> None:
        answer = self.alter(kind, name, *((key, SET, value) for key, value in overrides.items()))
        assert answer.error_code == 0, answer


@contextmanager
def _kafka(properties: dict[str, str] | None = None) -> Iterator[Kafka]:
    with ApacheKafka(properties=properties) as cluster, Connection(cluster.bootstrap) as connection:
        yield Kafka(connection)


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + _SETTLE_S
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)


def _play(kafka: Kafka, case: Case) -> Line:
    name = kafka.fresh_name() if case.name is None else case.name
    if case.create:
        answer = kafka.create(name, case.changes)
        return answer_to_line(case, answer.error_code, answer.error_message, {})
    if case.kind == ConfigResourceType.TOPIC and case.name is None:
        assert kafka.create(name, tuple((key, SET, value) for key, value in case.before)).error_code == 0
        _until(lambda: len(kafka.overrides(case.kind, name)) == len(case.before))
    known = case.kind in _OWN and (case.name is None or case.kind == ConfigResourceType.BROKER)
    before = kafka.overrides(case.kind, name) if known else {}
    alter = kafka.replace(case.kind, name, case.changes) if case.whole else None
    answer = alter or kafka.alter(case.kind, name, *case.changes)
    if not known or answer.error_code:
        return answer_to_line(case, answer.error_code, answer.error_message, {})
    _until(lambda: kafka.overrides(case.kind, name) != before)
    after = kafka.overrides(case.kind, name)
    if case.kind == ConfigResourceType.BROKER:
        _undo(kafka, name, before, after)
    return answer_to_line(case, answer.error_code, answer.error_message, after)


def _undo(kafka: Kafka, name: str, before: dict[str, str | None], after: dict[str, str | None]) -> None:
    changes = [(key, SET, value) if (value := before.get(key)) else (key, DELETE, None) for key in after]
    if changes:
        kafka.alter(ConfigResourceType.BROKER, name, *changes)
    _until(lambda: kafka.overrides(ConfigResourceType.BROKER, name) == before)


def _described(kafka: Kafka, what: str, kind: int, name: str) -> Iterator[Line]:
    for config in kafka.describe(kind, name):
        if config.name in _OF_ONE_RUN:
            continue
        yield {
            "of": what,
            "name": config.name,
            "value": config.value,
            "read_only": config.read_only,
            "source": config.config_source,
            "sensitive": config.is_sensitive,
            "type": config.config_type,
            "synonyms": [[synonym.name, synonym.value, synonym.source] for synonym in config.synonyms],
        }


def _describe_all(kafka: Kafka) -> Iterator[Line]:
    broker = str(NODE_ID)
    assert kafka.create("orders", ()).error_code == 0
    kafka.set_all(ConfigResourceType.BROKER, broker, DYNAMIC)
    kafka.set_all(ConfigResourceType.BROKER, "", DYNAMIC_DEFAULT)
    kafka.set_all(ConfigResourceType.TOPIC, "orders", TOPIC_OVERRIDES)
    kafka.set_all(ConfigResourceType.GROUP, "readers", GROUP_OVERRIDES)
    kafka.set_all(ConfigResourceType.CLIENT_METRICS, "subscription", METRICS_OVERRIDES)
    time.sleep(_SETTLE_S)
    yield from _described(kafka, "topic", ConfigResourceType.TOPIC, "orders")
    yield from _described(kafka, "broker", ConfigResourceType.BROKER, broker)
    yield from _described(kafka, "broker defaults", ConfigResourceType.BROKER, "")
    yield from _described(kafka, "group", ConfigResourceType.GROUP, "readers")
    yield from _described(kafka, "client metrics", ConfigResourceType.CLIENT_METRICS, "subscription")
    created = kafka.create("made", (("retention.bytes", SET, " 7"),))
    for config in created.configs:
        yield {"of": "created", "name": config.name, "value": config.value, "source": config.config_source}


def _without_of(line: Line) -> Line:
    return {key: value for key, value in line.items() if key != "of"}


def main() -> None:
    jars.ensure()
    with _kafka() as kafka:
        save(ANSWERS, [_play(kafka, case) for case in all_cases()])
        assert kafka.create("plain", ()).error_code == 0
        plain = [
            *_described(kafka, "plain topic", ConfigResourceType.TOPIC, "plain"),
            *_described(kafka, "plain broker", ConfigResourceType.BROKER, str(NODE_ID)),
            *_described(kafka, "plain group", ConfigResourceType.GROUP, "plain"),
            *_described(kafka, "plain client metrics", ConfigResourceType.CLIENT_METRICS, "plain"),
        ]
    known = [_without_of(line) for line in plain]
    with _kafka(STATIC) as kafka:
        special = [line for line in _describe_all(kafka) if _without_of(line) not in known]
    save(DESCRIBED, [*plain, *special])


if __name__ == "__main__":
    main()
