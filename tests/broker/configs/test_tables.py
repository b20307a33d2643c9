"""The tables hold together: every line of kafka.configs is sound, and refers only to what is there."""

from __future__ import annotations

import pytest

from ottla.broker.configs.definitions import ConfigType, UpdateMode
from ottla.broker.configs.tables import BROKER, CLIENT_METRICS, GROUP, TOPIC, ConfigTable

TABLES = pytest.mark.parametrize(
    "table", [TOPIC, BROKER, GROUP, CLIENT_METRICS], ids=["topic", "broker", "group", "client metrics"]
)


@TABLES
def test_every_line_is_a_definition_whose_default_is_allowed(table: ConfigTable) -> None:
    for name, definition in table.items():
        assert definition.name == name
        assert definition.type is not ConfigType.UNKNOWN
        table.default(name)


@TABLES
def test_names_are_sorted_and_unique(table: ConfigTable) -> None:
    names = table.names()
    assert list(names) == sorted(set(names))


@TABLES
def test_every_synonym_is_a_broker_config_of_the_same_type(table: ConfigTable) -> None:
    for definition in table.values():
        for synonym in definition.synonyms:
            same = BROKER[synonym.name].type
            assert same == definition.type or (same, definition.type) == (ConfigType.INT, ConfigType.LONG)


def test_a_topic_has_the_default_of_its_broker() -> None:
    for name, definition in TOPIC.items():
        values = (
            value * synonym.scale if isinstance(value, int) and synonym.scale > 1 else value
            for synonym in definition.synonyms
            if (value := BROKER.default(synonym.name)) is not None
        )
        assert next(values, TOPIC.default(name)) == TOPIC.default(name)


def test_every_config_that_does_something_to_a_topic_or_group_is_described() -> None:
    for table in (TOPIC, GROUP, CLIENT_METRICS):
        assert all(definition.documentation for definition in table.values())


def test_facts_of_a_definition_are_read_from_its_line() -> None:
    retention = TOPIC["retention.ms"]
    assert (retention.type, retention.default, retention.minimum) == (ConfigType.LONG, "604800000", -1)
    assert [(synonym.name, synonym.scale) for synonym in retention.synonyms] == [
        ("log.retention.ms", 1),
        ("log.retention.minutes", 60_000),
        ("log.retention.hours", 3_600_000),
    ]
    keystore = BROKER["ssl.keystore.password"]
    assert keystore.is_sensitive
    assert keystore.per_listener
    assert keystore.update_mode is UpdateMode.PER_BROKER
    assert BROKER["log.cleanup.policy"].choices == ("compact", "delete")
    assert TOPIC["internal.segment.bytes"].internal


def test_an_unknown_name_is_a_key_error() -> None:
    assert "no.such.config" not in TOPIC
    with pytest.raises(KeyError):
        TOPIC["no.such.config"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("mesage.max.bytes", "message.max.bytes"), ("num.partition", "num.partitions"), ("zz", None)],
)
def test_the_nearest_name_is_found(typed: str, meant: str | None) -> None:
    assert BROKER.nearest(typed) == meant
