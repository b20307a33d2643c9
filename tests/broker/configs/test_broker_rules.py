"""The sentences are on record (kafka_answers.jsonl); here is what is accepted."""

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
