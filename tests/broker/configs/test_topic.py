"""A topic's configs: its own, else its broker's; and the rules between them."""

from __future__ import annotations

from dataclasses import fields

import pytest

from ottla.broker.configs import BrokerConfigs, TopicConfigs, log_config, validate_topic
from ottla.broker.configs.tables import TOPIC
from ottla.broker.log.config import LogConfig
from ottla.errors import InvalidConfigError

TIERED = BrokerConfigs({"remote.log.storage.system.enable": True}, node_id=1)
PLAIN = BrokerConfigs(node_id=1)


def on(*, static: dict[str, object] | None = None, **overrides: str) -> TopicConfigs:
    named = {name.replace("_", "."): value for name, value in overrides.items()}
    return TopicConfigs(named, BrokerConfigs(static, node_id=1))


def test_a_topics_own_config_wins_over_its_brokers() -> None:
    assert on(static={"message.max.bytes": 2000}).value("max.message.bytes") == 2000
    assert on(static={"message.max.bytes": 2000}, max_message_bytes="5").value("max.message.bytes") == 5


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": 1}, 3_600_000),
        ({"log.retention.hours": 1, "log.retention.minutes": 2}, 120_000),
        ({"log.retention.hours": 1, "log.retention.minutes": 2, "log.retention.ms": 3}, 3),
        ({"log.retention.hours": -1}, -1),
        ({"log.retention.ms": -5}, -1),
    ],
)
def test_the_finest_unit_that_the_broker_sets_counts(static: dict[str, object], retention_ms: int) -> None:
    assert on(static=static).value("retention.ms") == retention_ms


def test_the_flush_interval_falls_back_to_that_of_the_scheduler() -> None:
    assert on(static={"log.flush.scheduler.interval.ms": 7}).value("flush.ms") == 7


def test_a_log_has_its_topics_settings_and_how_long_to_remember_producers() -> None:
    settings = log_config(
        on(static={"producer.id.expiration.ms": 9}, cleanup_policy="compact", retention_ms="5")
    )
    assert (settings.compact, settings.delete) == (True, False)
    assert settings.segment_bytes == 1 << 30
    assert settings.retention_ms == 5
    assert settings.producer_id_expiration_ms == 9


def test_a_log_knows_kafkas_defaults() -> None:
    assert log_config(on()) == LogConfig()


def test_every_setting_of_a_log_is_a_config_of_its_topic() -> None:
    names = {field.name.replace("_", ".") for field in fields(LogConfig)}
    of_brokers = {"producer.id.expiration.ms", "transaction.partition.verification.enable"}
    assert names - set(TOPIC) == {"compact", "delete"} | of_brokers


def test_a_test_may_have_smaller_segments_than_kafka_allows() -> None:
    assert log_config(on(internal_segment_bytes="100")).segment_bytes == 100


def test_a_topic_may_contradict_its_broker() -> None:
    broker = BrokerConfigs({"log.cleaner.max.compaction.lag.ms": 50}, node_id=1)
    with pytest.raises(InvalidConfigError) as refused:
        validate_topic({"min.compaction.lag.ms": "100"}, broker)
    assert refused.value.message == (
        "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (50)"
    )


def test_a_topic_may_be_in_remote_storage_if_the_cluster_has_any() -> None:
    validate_topic({"remote.storage.enable": "true"}, TIERED)
    validate_topic({"remote.storage.enable": "true", "cleanup.policy": ""}, TIERED)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            {"cleanup.policy": "compact"},
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty "
            "list.",
        ),
        (
            {"retention.ms": "100", "local.retention.ms": "101"},
            "Invalid value 101 for configuration local.retention.ms: "
            "Value must not be more than retention.ms property value: 100",
        ),
        (
            {"retention.bytes": "100", "local.retention.bytes": "-1"},
            "Invalid value -1 for configuration local.retention.bytes: "
            "Value must not be -1 as retention.bytes value is set as 100.",
        ),
        (
            {"remote.log.copy.disable": "true", "retention.ms": "100", "local.retention.ms": "50"},
            "When `remote.log.copy.disable` is set to true, the `local.retention.ms` and `retention.ms` must be set "
            "to the identical value because there will be no more logs copied to the remote storage.",
        ),
    ],
)
def test_remote_storage_has_rules_of_its_own(overrides: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        validate_topic({"remote.storage.enable": "true", **overrides}, TIERED)
    assert refused.value.message == sentence


def test_remote_storage_is_not_left_behind() -> None:
    existing = {"remote.storage.enable": "true"}
    with pytest.raises(InvalidConfigError, match="invalid to disable remote storage without deleting"):
        validate_topic({}, TIERED, existing)
    validate_topic({"remote.log.delete.on.disable": "true"}, TIERED, existing)
    validate_topic({}, PLAIN)


def test_an_unknown_name_is_a_key_error_when_it_is_asked_for() -> None:
    with pytest.raises(KeyError):
        on().value("no.such.config")
