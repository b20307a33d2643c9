"""What a micro-batch reads when partitions came, went, or are not what they were."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

import pytest

from ottla.client.topic_partition import TopicPartition
from ottla.errors import DataLossError
from ottla.spark.offsets import PartitionOffsets
from ottla.spark.options import Topics
from ottla.spark.ranges import OffsetRange
from ottla.spark.stream_plan import planned

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
TOPICS = Topics(subscribe=("t",))


def _earliest(there: PartitionOffsets) -> Callable[[Collection[TopicPartition]], PartitionOffsets]:
    return lambda partitions: {tp: there[tp] for tp in partitions if tp in there}


def test_ranges_go_from_start_to_end_in_order() -> None:
    ranges = planned({B: 3, A: 1}, {B: 4, A: 2}, _earliest({}), topics=TOPICS, fail_on_data_loss=True)
    assert ranges == [OffsetRange("t", 0, 1, 2), OffsetRange("t", 1, 3, 4)]


def test_a_new_partition_is_read_from_its_first_record() -> None:
    ranges = planned({A: 1}, {A: 2, B: 7}, _earliest({A: 0, B: 0}), topics=TOPICS, fail_on_data_loss=True)
    assert ranges == [OffsetRange("t", 0, 1, 2), OffsetRange("t", 1, 0, 7)]


LOSSES = [
    ({A: 1}, {A: 2, B: 7}, {B: 4}, "Added partition t-1 starts from 4 instead of 0", [(0, 1, 2), (1, 4, 7)]),
    ({A: 1}, {A: 2, B: 7}, {}, "Cannot find initial offsets for partitions t-1", [(0, 1, 2)]),
    ({A: 1, B: 5}, {A: 2}, {}, "Partitions t-1 have been deleted", [(0, 1, 2)]),
    ({A: 9}, {A: 2}, {}, "Partition t-0 offset was changed from 9 to 2", [(0, 9, 2)]),
    ({}, {A: 2}, {A: 5}, "Partition t-0 offset was changed from 5 to 2", [(0, 5, 2)]),
]


@pytest.mark.parametrize(("start", "end", "there", "text", "ranges"), LOSSES)
def test_lost_data_fails_the_query_and_names_the_option(
    start: PartitionOffsets, end: PartitionOffsets, there: PartitionOffsets, text: str, ranges: object
) -> None:
    with pytest.raises(DataLossError, match="set the source option failOnDataLoss to false") as caught:
        planned(start, end, _earliest(there), topics=TOPICS, fail_on_data_loss=True)
    # The last case has two losses; the first one is told.
    assert text in str(caught.value) or "instead of 0" in str(caught.value)


@pytest.mark.parametrize(("start", "end", "there", "text", "ranges"), LOSSES)
def test_lost_data_is_logged_and_the_query_goes_on_when_it_is_told_to(
    start: PartitionOffsets,
    end: PartitionOffsets,
    there: PartitionOffsets,
    text: str,
    ranges: list[tuple[int, int, int]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        found = planned(start, end, _earliest(there), topics=TOPICS, fail_on_data_loss=False)
    assert found == [OffsetRange("t", *triple) for triple in ranges]
    assert text in caplog.text
