"""A broker's configs: what a user may give, and which layer wins."""

from __future__ import annotations

import pytest

from ottla.broker.configs import BrokerConfigs, ConfigError
from ottla.broker.configs.broker import base_name
from ottla.wire.resources import ConfigSource


def broker(**static: object) -> BrokerConfigs:
    return BrokerConfigs({name.replace("_", "."): value for name, value in static.items()}, node_id=1)


def test_values_of_python_are_taken_as_they_are() -> None:
    configs = BrokerConfigs(
        {
            "message.max.bytes": 2000,
            "auto.create.topics.enable": False,
            "log.cleanup.policy": ["compact", "delete"],
            "log.cleaner.min.cleanable.ratio": 0.25,
            "broker.rack": "a",
            "num.partitions": "3",
            "log.retention.ms": None,
        },
        node_id=7,
    )
    assert configs.value("message.max.bytes") == 2000
    assert configs.value("auto.create.topics.enable") is False
    assert configs.value("log.cleanup.policy") == ("compact", "delete")
    assert configs.value("log.cleaner.min.cleanable.ratio") == 0.25
    assert configs.value("broker.rack") == "a"
    assert configs.value("num.partitions") == 3
    assert configs.value("log.retention.ms") is None
    assert configs.value("node.id") == configs.value("broker.id") == 7


def test_what_is_not_given_has_kafkas_default() -> None:
    configs = broker()
    assert configs.value("num.partitions") == 1
    assert configs.value("log.retention.minutes") is None
    assert configs.value("ssl.enabled.protocols") == ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mesage.max.bytes", "unknown broker config 'mesage.max.bytes'; did you mean 'message.max.bytes'?"),
        ("zz", "unknown broker config 'zz'"),
        (
            "retention.ms",
            "'retention.ms' is a config of a topic, not of a broker; for all brokers it is 'log.retention.ms'",
        ),
        ("remote.storage.enable", "'remote.storage.enable' is a config of a topic, not of a broker"),
        (
            "share.session.timeout.ms",
            "'share.session.timeout.ms' is a config of a group, not of a broker; "
            "for all brokers it is 'group.share.session.timeout.ms'",
        ),
    ],
)
def test_an_unknown_name_is_a_value_error_that_helps(name: str, sentence: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 (the whole sentence is compared)
        BrokerConfigs({name: 1}, node_id=1)
    assert str(refused.value) == sentence


def test_a_wrong_value_is_told_in_kafkas_words() -> None:
    with pytest.raises(
        ConfigError, match=r"Invalid value true for configuration num\.partitions: Not a number"
    ):
        broker(num_partitions=True)


def test_a_node_cannot_have_the_id_of_another() -> None:
    assert broker(node_id=1).value("node.id") == 1
    with pytest.raises(ConfigError, match=r"node\.id is 2, but this is node 1"):
        broker(node_id=2)


def test_a_brokers_own_config_wins_over_that_of_all_brokers_and_that_over_the_static_one() -> None:
    configs = broker(message_max_bytes=1)
    assert configs.value("message.max.bytes") == 1
    configs.set_dynamic({}, {"message.max.bytes": "2"})
    assert configs.value("message.max.bytes") == 2
    configs.set_dynamic({"message.max.bytes": "3"}, {"message.max.bytes": "2"})
    assert configs.value("message.max.bytes") == 3
    configs.set_dynamic({}, {})
    assert configs.value("message.max.bytes") == 1


def test_a_change_can_be_tried_on_another() -> None:
    configs = broker(message_max_bytes=1)
    assert configs.with_dynamic({"message.max.bytes": "3"}, {}).value("message.max.bytes") == 3
    assert configs.value("message.max.bytes") == 1


def test_a_unit_that_is_set_later_replaces_the_other_units() -> None:
    configs = broker(log_retention_hours=1)
    configs.set_dynamic({"log.retention.ms": "5"}, {})
    assert configs.value("log.retention.ms") == 5
    assert configs.value("log.retention.hours") == 168


def test_synonyms_come_in_the_order_of_precedence() -> None:
    configs = broker(log_retention_hours=1)
    assert configs.synonyms("log.retention.ms") == []
    assert [tuple(found) for found in configs.synonyms("log.retention.hours")] == [
        ("log.retention.hours", "1", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]
    configs.set_dynamic({}, {"log.retention.ms": "5"})
    assert [(found.name, found.source) for found in configs.synonyms("log.retention.ms")] == [
        ("log.retention.ms", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.hours", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", ConfigSource.DEFAULT),
    ]


def test_a_config_may_be_for_one_listener() -> None:
    configs = BrokerConfigs({"listener.name.internal.max.connections": 5}, node_id=1)
    assert configs.value("listener.name.internal.max.connections") == 5
    assert configs.value("listener.name.external.max.connections") == configs.value("max.connections")
    with pytest.raises(ConfigError, match=r"unknown broker config 'listener\.name\.internal\.no\.such'"):
        BrokerConfigs({"listener.name.internal.no.such": 5}, node_id=1)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("num.partitions", "num.partitions"),
        ("listener.name.a.ssl.key.password", "ssl.key.password"),
        ("listener.name.a.plain.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.a", "listener.name.a"),
    ],
)
def test_the_base_of_a_listeners_config_is_found(name: str, base: str) -> None:
    assert base_name(name) == base


def test_an_unknown_name_is_a_key_error_when_it_is_asked_for() -> None:
    with pytest.raises(KeyError):
        broker().value("no.such.config")
