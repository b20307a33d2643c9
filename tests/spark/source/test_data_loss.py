"""Lost data reaches the user: as an error, or as a warning where the query is to go on."""

from __future__ import annotations

import logging

import pytest

from ottla import TopicPartition
from ottla.errors import DataLossError
from ottla.spark.source.data_loss import names, report, report_dropped


def test_lost_data_is_an_error_that_names_the_option() -> None:
    with pytest.raises(
        DataLossError, match=r"Some data may have been lost .*: t-0 is gone\..* failOnDataLoss to false"
    ):
        report(True, "t-0 is gone")


def test_lost_data_is_a_warning_for_those_who_go_on(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        report(False, "t-0 is gone")
    assert "t-0 is gone" in caplog.text


def test_what_an_option_no_longer_covers_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(DataLossError) as caught:
        report_dropped(True, "subscribe", [TopicPartition("b", 1), TopicPartition("a", 0)])
    assert str(caught.value) == (
        "The query's option subscribe no longer covers topics a, b (a-0, b-1) of its checkpoint: what it has not read"
        " of that yet would be skipped. Name it in subscribe again, start the query with a new checkpoint, or set the"
        " source option failOnDataLoss to false to go on without it"
    )


def test_what_an_option_no_longer_covers_is_a_warning_for_those_who_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        report_dropped(False, "assign", [TopicPartition("a", 0)])
    assert "option assign no longer covers topic a (a-0)" in caplog.text


def test_partitions_are_named_in_order() -> None:
    assert (
        names([TopicPartition("t", 10), TopicPartition("t", 9), TopicPartition("a", 1)]) == "a-1, t-9, t-10"
    )
