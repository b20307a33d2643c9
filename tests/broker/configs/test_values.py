"""Texts become values and values texts, as in Java; what cannot be a value is told in Kafka's words."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ottla.broker.configs import ConfigError
from ottla.broker.configs.definitions import ConfigType, Definition, Value
from ottla.broker.configs.tables import BROKER, GROUP, TOPIC
from ottla.broker.configs.values import parse, to_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (False, "false"),
        (-7, "-7"),
        ("x", "x"),
        ((), ""),
        (("a", "b"), "a,b"),
        (0.0, "0.0"),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (-0.25, "-0.25"),
        (0.001, "0.001"),
        (0.0009, "9.0E-4"),
        (1e-5, "1.0E-5"),
        (-1.25e-7, "-1.25E-7"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.125, "1.23456789125E8"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_a_value_is_written_as_java_writes_it(value: Value, text: str | None) -> None:
    assert to_text(value) == text


@pytest.mark.parametrize("text", ["0.5", "5e-1", ".5", "0.5f", "0.5D", " 0.5 ", "+0.5"])
def test_a_double_is_read_as_java_reads_it(text: str) -> None:
    assert TOPIC.parse("min.cleanable.dirty.ratio", text) == 0.5


@pytest.mark.parametrize("text", ["0_1", "0x1p3", "1,5", "inf", "nan", "f", "1ff"])
def test_what_is_no_double_in_java_is_none_here(text: str) -> None:
    with pytest.raises(ConfigError, match="Not a number of type DOUBLE"):
        TOPIC.parse("min.cleanable.dirty.ratio", text)


@pytest.mark.parametrize(
    ("kind", "bits"), [(ConfigType.SHORT, 16), (ConfigType.INT, 32), (ConfigType.LONG, 64)]
)
def test_a_whole_number_has_the_range_of_its_type(kind: ConfigType, bits: int) -> None:
    definition = Definition("x", kind, None)
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    assert parse(definition, str(low)) == low
    assert parse(definition, str(high)) == high
    for outside in (low - 1, high + 1):
        with pytest.raises(ConfigError) as refused:
            parse(definition, str(outside))
        assert str(refused.value) == (
            f"Invalid value {outside} for configuration x: Not a number of type {kind.name}"
        )


def test_a_number_of_ten_thousand_digits_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="Not a number of type LONG"):
        TOPIC.parse("retention.ms", "1" * 10_000)


def test_a_long_value_is_shown_as_it_is() -> None:
    with pytest.raises(ConfigError) as refused:
        TOPIC.parse("retention.ms", "x" * 2_000)
    assert f"Invalid value {'x' * 2_000} for configuration retention.ms" in str(refused.value)


def test_a_list_loses_duplicates_and_space() -> None:
    assert TOPIC.parse("cleanup.policy", " compact ,delete, compact ") == ("compact", "delete")


def test_a_list_that_may_not_be_empty_says_what_it_may_be() -> None:
    with pytest.raises(ConfigError) as anything:
        BROKER.parse("group.consumer.assignors", "")
    assert str(anything.value) == (
        "Configuration 'group.consumer.assignors' must not be empty. Valid values include: any non-empty value"
    )
    with pytest.raises(ConfigError) as choice:
        BROKER.parse("process.roles", " ")
    assert str(choice.value) == (
        "Configuration 'process.roles' must not be empty. Valid values include: [broker, controller]"
    )


def test_a_text_that_may_not_be_empty_is_refused_if_it_is() -> None:
    with pytest.raises(ConfigError, match="String must be non-empty"):
        BROKER.parse("remote.log.storage.manager.impl.prefix", "")


def test_a_choice_without_regard_to_case_keeps_the_case_it_was_given_in() -> None:
    assert BROKER.parse("group.consumer.migration.policy", "Upgrade") == "Upgrade"
    with pytest.raises(ConfigError) as refused:
        BROKER.parse("group.consumer.migration.policy", "sideways")
    assert str(refused.value).endswith(
        "String must be one of (case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL"
    )


def test_a_bound_may_be_a_fraction() -> None:
    with pytest.raises(ConfigError, match=r"Value must be no more than 0\.5"):
        BROKER.parse("remote.log.manager.task.retry.jitter", "0.6")


def test_a_value_is_called_by_the_name_it_was_given_under() -> None:
    with pytest.raises(ConfigError, match=r"for configuration listener\.name\.a\.max\.connections"):
        parse(BROKER["max.connections"], "x", "listener.name.a.max.connections")


@pytest.mark.parametrize("table", [TOPIC, BROKER, GROUP], ids=["topic", "broker", "group"])
def test_what_is_written_is_read_back_as_the_same(table: object) -> None:
    assert isinstance(table, type(TOPIC))
    for name in table:
        value = table.default(name)
        text = to_text(value)
        if text is not None:
            assert parse(replace(table[name], default=None), text) == value
