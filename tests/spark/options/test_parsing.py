"""Names and texts of options: as Spark and the JVM connector write them, and what is logged about unknown ones."""

from __future__ import annotations

import logging

import pytest

from ottla.spark.options import parsing
from ottla.spark.options.connector import SinkOptions, SourceOptions

SUBSCRIBED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}


@pytest.fixture(autouse=True)
def nothing_logged_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_logged", set())


def batch(**options: str) -> SourceOptions:
    return SourceOptions.parse({**SUBSCRIBED, **options}, streaming=False)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5", 0.005), (" 15M ", 900.0), ("3min", 180.0), ("1h", 3600.0), ("250us", 0.00025)]
)
def test_durations_are_written_as_everywhere_in_spark(text: str, seconds: float) -> None:
    assert parsing.seconds("maxTriggerDelay", text) == pytest.approx(seconds)


def test_a_misspelt_option_is_logged_once_with_what_was_meant(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        batch(startingOffset="earliest")
    assert [record.getMessage() for record in caplog.records] == [
        "option startingoffset has no effect: did you mean startingOffsets?"
    ]
    assert caplog.records[0].levelno == logging.WARNING


def test_options_that_spark_reads_itself_or_the_other_side_has_are_not_remarked_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    batch(path="x", topic="t")
    SinkOptions.parse({**SUBSCRIBED, "checkpointLocation": "/c", "startingOffsets": "earliest"})
    assert caplog.records == []
