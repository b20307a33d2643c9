"""How small an ISR may be: a new cluster says it once for all brokers, and no broker may differ (KIP-966)."""

from __future__ import annotations

from tests.interop.comparison.requests import configs_of, creatable, create, given
from tests.interop.comparison.script import Step, ask, section
from tests.interop.comparison.steps.config_changes import (
    APPEND,
    BROKERS,
    DELETE,
    SET,
    TOPICS,
    incremental,
    value_is,
    whole,
)

NAME = "min.insync.replicas"
TOPIC, OTHER = "isr-a", "isr-b"


def _described(when: str, value: str) -> list[Step]:
    return [
        *ask(f"of the broker {when}", configs_of(BROKERS, "1", [NAME]), 4, until=value_is(NAME, value)),
        *ask(f"of all brokers {when}", configs_of(BROKERS, "", [NAME]), 1, 4),
        *ask(f"everything of all brokers {when}", configs_of(BROKERS, ""), 4),
        *ask(f"of a topic {when}", configs_of(TOPICS, TOPIC, [NAME]), 1, 4),
        *ask(f"of a topic with its own {when}", configs_of(TOPICS, OTHER, [NAME]), 4),
        *ask(f"of a new topic {when}", create(creatable("isr-new"), validate_only=True), 7),
    ]


SECTION = section(
    "min insync replicas",
    given(TOPIC),
    given(OTHER, config={NAME: "3"}),
    _described("at first", "1"),
    ask("for one broker", incremental("1", (NAME, SET, "1"), kind=BROKERS), 1),
    ask(
        "for one broker, only validated",
        incremental("1", (NAME, SET, "1"), kind=BROKERS, validate_only=True),
        1,
    ),
    ask("deleted for one broker", incremental("1", (NAME, DELETE, None), kind=BROKERS), 1),
    ask("appended for one broker", incremental("1", (NAME, APPEND, "2"), kind=BROKERS), 1),
    ask("a bad value for one broker", incremental("1", (NAME, SET, "?"), kind=BROKERS), 1),
    ask("zero for one broker", incremental("1", (NAME, SET, "0"), kind=BROKERS), 1),
    ask(
        "for one broker, with another config",
        incremental("1", ("log.retention.bytes", SET, "7"), (NAME, SET, "1"), kind=BROKERS),
        1,
    ),
    ask("whole, for one broker", whole("1", {NAME: "1"}, kind=BROKERS), 2),
    ask("deleted for all", incremental("", (NAME, DELETE, None), kind=BROKERS), 1),
    ask("appended for all", incremental("", (NAME, APPEND, "2"), kind=BROKERS), 1),
    ask("a bad value for all", incremental("", (NAME, SET, "?"), kind=BROKERS), 1),
    ask("zero for all", incremental("", (NAME, SET, "0"), kind=BROKERS), 1),
    ask("an empty value for all", incremental("", (NAME, SET, ""), kind=BROKERS), 1),
    ask("whole, without it, for all", whole("", {"log.retention.bytes": "7"}, kind=BROKERS), 2),
    ask("whole, empty, for all", whole("", {}, kind=BROKERS), 0, 2),
    ask("whole, empty, for all, only validated", whole("", {}, kind=BROKERS, validate_only=True), 2),
    ask(
        "two for all, only validated", incremental("", (NAME, SET, "2"), kind=BROKERS, validate_only=True), 1
    ),
    ask("two for all", incremental("", (NAME, SET, " 2"), kind=BROKERS), 1),
    _described("with two", "2"),
    ask("whole, one for all", whole("", {NAME: "1"}, kind=BROKERS), 2),
    _described("in the end", "1"),
    ask("deleted for a topic", incremental(OTHER, (NAME, DELETE, None)), 1),
    ask("after that", configs_of(TOPICS, OTHER, [NAME]), 4, until=value_is(NAME, "1")),
)
