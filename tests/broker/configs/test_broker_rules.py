"""What no broker could start with; more sentences are on record (kafka_answers.jsonl). And what is accepted."""

from __future__ import annotations

import pytest

from ottla.broker.configs import BrokerConfigs
from ottla.broker.configs.broker_changes import check_change
from ottla.broker.configs.values import ConfigError

BROKER = BrokerConfigs(node_id=1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("listeners", "PLAINTEXT://:9093"),
        ("listeners", "PLAINTEXT://127.0.0.1:9093,SSL://[::1]:9094"),
        ("listeners", "plaintext://a:0,ssl://a:0"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT, OTHER:SSL"),
        ("max.connections.per.ip.overrides", "127.0.0.1:5, localhost:7"),
        ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter"),
        ("ssl.engine.factory.class", "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory"),
    ],
)
def test_what_kafka_can_read_is_accepted(name: str, text: str) -> None:
    check_change(BROKER, {name: text}, for_all=False)


def test_listeners_need_ports_of_their_own() -> None:
    with pytest.raises(ConfigError, match="Each listener must have a different port"):
        check_change(BROKER, {"listeners": "PLAINTEXT://a:1,SSL://b:1"}, for_all=False)


def test_listeners_that_stay_need_their_protocols() -> None:
    with pytest.raises(ConfigError, match="No security protocol defined for listener PLAINTEXT"):
        check_change(BROKER, {"listener.security.protocol.map": "SSL:SSL"}, for_all=False)


@pytest.mark.parametrize(
    ("static", "sentence"),
    [
        ({"log.roll.ms": 0}, "requirement failed: log.roll.ms must be greater than or equal to 1"),
        (
            {"log.retention.hours": 0},
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        (
            {"replica.fetch.wait.max.ms": 40_000},
            "requirement failed: replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to "
            "prevent unnecessary socket timeouts",
        ),
        (
            {"replica.lag.time.max.ms": 400},
            "requirement failed: replica.fetch.wait.max.ms should always be less than or equal to "
            "replica.lag.time.max.ms to prevent frequent changes in ISR",
        ),
        (
            {"queued.max.request.bytes": 5},
            "requirement failed: queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        ),
        (
            {"connections.max.idle.ms": 50},
            "requirement failed: connection.failed.authentication.delay.ms=100 should always be less than "
            "connections.max.idle.ms=50 to prevent failed authentication responses from timing out",
        ),
        (
            {"group.consumer.session.timeout.ms": 1000},
            "group.consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms",
        ),
        (
            {"group.share.max.session.timeout.ms": 1},
            "group.share.max.session.timeout.ms must be greater than or equal to group.share.min.session.timeout.ms",
        ),
        (
            {"group.streams.min.session.timeout.ms": 1, "group.streams.session.timeout.ms": 5000},
            "group.streams.heartbeat.interval.ms must be less than group.streams.session.timeout.ms",
        ),
        (
            {"group.share.max.size": 1000, "group.share.max.share.sessions": 5},
            "group.share.max.share.sessions must be greater than or equal to group.share.max.size",
        ),
        (
            {"group.share.assignors": "a,b"},
            "group.share.assignors must contain exactly one assignor, but found 2",
        ),
    ],
)
def test_configs_that_contradict_each_other_are_refused(static: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfigs(static, node_id=1)
    assert str(refused.value) == sentence
