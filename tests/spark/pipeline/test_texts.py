"""Topics, names, intervals and triggers: what Kafka and Spark take passes, and of the rest it is said why."""

from __future__ import annotations

import pytest

from ottla.spark.pipeline.texts import (
    alternatives,
    did_you_mean,
    interval_mistake,
    pipeline_mistake,
    topic_mistake,
    trigger_mistake,
    view_mistake,
)


@pytest.mark.parametrize("topic", ["orders", "a.b_c-D9", "_", "x" * 249])
def test_topics_by_kafkas_rules_pass(topic: str) -> None:
    assert topic_mistake(topic) is None


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "a/b", "é", "x" * 250, "a\n"])
def test_other_topics_are_refused(topic: str) -> None:
    assert topic_mistake(topic) is not None


# Each was given to Spark 4.3, as the delay of a watermark and as a trigger.
@pytest.mark.parametrize(
    "text",
    [
        "10 seconds",
        "10 second",
        "1 week",
        "1.5 seconds",
        "1 hour 30 minutes",
        "1 HOUR",
        "interval 5 minutes",
        "+5 seconds",
        "0 seconds",
        "5 MilliSeconds",
        "500 microseconds",
        "  2   days ",
    ],
)
def test_intervals_that_spark_takes_pass(text: str) -> None:
    assert interval_mistake(text) is None
    assert trigger_mistake(text) is None


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("10seconds", "write '10 seconds'"),
        ("10s", "write '10 seconds'"),
        ("1h 30min", "write '1 hours 30 minutes'"),
        ("1 minute1 second", "write '1 minute 1 second'"),
        ("1.5 hours", "has a fraction"),
        ("1.5 milliseconds", "has a fraction"),
        ("-5 seconds", "is negative"),
        ("5", "without a unit"),
        ("1 month", "no fixed length"),
        ("2 years", "no fixed length"),
        ("5 minuets", "did you mean minutes?"),
        ("5 parsecs", "write seconds, minutes, hours or days"),
        ("", "write numbers and units"),
        ("soon", "write numbers and units"),
        ("5 seconds!", "write numbers and units"),
    ],
)
def test_intervals_that_spark_does_not_take_are_refused(text: str, advice: str) -> None:
    assert advice in str(interval_mistake(text))
    assert advice in str(trigger_mistake(text))


def test_the_trigger_that_ends_passes() -> None:
    assert trigger_mistake("available-now") is None
    assert interval_mistake("available-now") is not None


@pytest.mark.parametrize("name", ["orders", "_o", "Orders2"])
def test_names_that_are_names_of_views_pass(name: str) -> None:
    assert view_mistake(name) is None


@pytest.mark.parametrize("name", ["", "2nd", "a-b", "a.b", "é", "spark", "Spark"])
def test_other_names_of_sources_are_refused(name: str) -> None:
    assert view_mistake(name) is not None


@pytest.mark.parametrize(("name", "passes"), [("a-b.c_1", True), ("-a", False), ("a b", False), ("", False)])
def test_the_name_of_a_pipeline_begins_names_in_kafka(name: str, passes: bool) -> None:
    assert (pipeline_mistake(name) is None) is passes


def test_advice_names_what_is_near() -> None:
    assert (
        did_you_mean("maxoffsetpertrigger", ["maxOffsetsPerTrigger"]) == " did you mean maxOffsetsPerTrigger?"
    )
    assert did_you_mean("x", ["maxOffsetsPerTrigger"]) == ""
    assert alternatives(["a"]) == "a"
