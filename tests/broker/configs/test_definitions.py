"""A line of kafka.configs, and the definition that it states."""

from __future__ import annotations

import pytest

from ottla.broker.configs.definitions import (
    ConfigType,
    Definition,
    Synonym,
    UpdateMode,
    parse_definition,
)


@pytest.mark.parametrize(
    ("line", "definition"),
    [
        ("a.b int 5", Definition("a.b", ConfigType.INT, "5")),
        ("a long null", Definition("a", ConfigType.LONG, None)),
        ("a string required", Definition("a", ConfigType.STRING, None)),
        ('a list ""', Definition("a", ConfigType.LIST, "")),
        ("a int 1 min=-1 max=9", Definition("a", ConfigType.INT, "1", minimum=-1, maximum=9)),
        ("a double 0.5 min=0.0 max=1", Definition("a", ConfigType.DOUBLE, "0.5", minimum=0.0, maximum=1)),
        ("a string b in=b,c", Definition("a", ConfigType.STRING, "b", choices=("b", "c"))),
        (
            "a string b anycase=b,c",
            Definition("a", ConfigType.STRING, "b", choices=("b", "c"), any_case=True),
        ),
        (
            "a list b nonempty rule=names internal",
            Definition("a", ConfigType.LIST, "b", nonempty=True, rule="names", internal=True),
        ),
        (
            "a int 1 cluster-wide",
            Definition("a", ConfigType.INT, "1", update_mode=UpdateMode.CLUSTER_WIDE),
        ),
        (
            "a password null per-broker per-listener",
            Definition("a", ConfigType.PASSWORD, None, update_mode=UpdateMode.PER_BROKER, per_listener=True),
        ),
        (
            "a long 1 synonyms=log.a,log.a.hours*3600000 | How long. | Or not.",
            Definition(
                "a",
                ConfigType.LONG,
                "1",
                synonyms=(Synonym("log.a"), Synonym("log.a.hours", 3_600_000)),
                documentation="How long. | Or not.",
            ),
        ),
    ],
)
def test_a_line_states_a_definition(line: str, definition: Definition) -> None:
    assert parse_definition(line) == definition


def test_a_bound_without_a_point_is_an_int() -> None:
    parsed = parse_definition("a double 1 min=0 max=1.0")
    assert (type(parsed.minimum), type(parsed.maximum)) == (int, float)


def test_a_type_that_kafka_does_not_have_is_refused() -> None:
    with pytest.raises(KeyError):
        parse_definition("a number 1")


def test_passwords_are_sensitive_and_nothing_else_is() -> None:
    assert parse_definition("a password null").is_sensitive
    assert not parse_definition("a string null").is_sensitive
