"""What a micro-batch takes and reads, also when partitions came, went, or are not what they were.

The shares of at_most are the JVM connector's rateLimit, worked out by hand.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.topic_partition import TopicPartition
from ottla.errors import DataLossError
from ottla.spark.options.topics import Topics
from ottla.spark.source.checkpoint import PartitionOffsets
from ottla.spark.source.micro_batches import BatchDelay, Rest, at_most, planned
from ottla.spark.source.ranges import OffsetRange

A, B, C = (TopicPartition("t", number) for number in range(3))
TOPICS = Topics(subscribe=("t",))


@pytest.mark.parametrize(
    ("limit", "start", "latest", "expected"),
    [
        (10, {A: 0, B: 0}, {A: 100, B: 100}, {A: 5, B: 5}),
        (10, {A: 0, B: 0}, {A: 300, B: 100}, {A: 7, B: 2}),  # 7.5 and 2.5: both down
        (10, {A: 0, B: 0}, {A: 1000, B: 1}, {A: 9, B: 1}),  # 0.009 of a record is still one
        (10, {A: 50, B: 7}, {A: 50, B: 107}, {A: 50, B: 17}),  # nothing new in A
        (10, {A: 0, B: 0}, {A: 3, B: 4}, {A: 3, B: 4}),  # less than the limit
        (10, {A: 5}, {A: 5}, {A: 5}),
        (10, {A: 9, B: 0}, {A: 4, B: 100}, {A: 4, B: 10}),  # A was cut off: for the plan to report
        (10, {B: 0}, {A: 40, B: 100}, {A: 40, B: 10}),  # A has vanished again: for the plan to report
        (10, {}, {}, {}),
        (1, {A: 0, B: 0, C: 0}, {A: 5, B: 5, C: 5}, {A: 1, B: 1, C: 1}),
    ],
)
def test_partitions_share_the_limit_as_in_the_jvm_connector(
    limit: int, start: PartitionOffsets, latest: PartitionOffsets, expected: PartitionOffsets
) -> None:
    assert at_most(limit, start, latest) == expected


_offsets = st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 10**6))


@given(st.integers(1, 10**7), _offsets, _offsets)
def test_a_limited_batch_goes_forward_and_never_beyond_what_there_is(
    limit: int, start: PartitionOffsets, latest: PartitionOffsets
) -> None:
    end = at_most(limit, start, latest)
    assert end.keys() == latest.keys()
    ahead = {tp for tp in latest.keys() & start.keys() if latest[tp] > start[tp]}
    assert all(start[tp] < end[tp] <= latest[tp] for tp in ahead)
    assert all(end[tp] == latest[tp] for tp in latest.keys() - ahead)
    # One more for each partition that would get less than a record.
    assert sum(end[tp] - start[tp] for tp in ahead) <= limit + len(ahead)


def test_a_batch_waits_for_enough_records() -> None:
    delay = BatchDelay(least=10, longest=60.0)
    assert not delay.holds({A: 0}, {A: 0}, now=0.0), "the first one never waits"
    assert delay.holds({A: 0}, {A: 9}, now=1.0)
    assert not delay.holds({A: 0}, {A: 10}, now=2.0)


def test_a_batch_waits_no_longer_than_the_longest_delay() -> None:
    delay = BatchDelay(least=10, longest=60.0)
    assert not delay.holds({A: 0}, {A: 20}, now=100.0)
    assert delay.holds({A: 20}, {A: 21}, now=159.9)
    assert not delay.holds({A: 20}, {A: 21}, now=160.0)
    assert delay.holds({A: 21}, {A: 22}, now=161.0), "and then the time counts anew"


def test_new_partitions_count_with_all_their_records() -> None:
    delay = BatchDelay(least=10, longest=60.0)
    assert not delay.holds({A: 0}, {A: 0}, now=0.0)
    assert not delay.holds({A: 5}, {A: 6, B: 9}, now=1.0)


def test_a_rest_is_over_after_its_time_and_for_any_other_offset() -> None:
    rest = Rest(0.05)
    assert rest.left({"t": {"0": 1}}, now=0.0) == 0.0
    rest.begin({"t": {"0": 1}}, now=5.0)
    rest.begin({"t": {"0": 1}}, now=10.0)
    assert rest.left({"t": {"0": 1}}, now=10.02) == pytest.approx(0.03)
    assert rest.left({"t": {"0": 2}}, now=10.02) == 0.0
    assert rest.left({"t": {"0": 1}}, now=10.05) == 0.0


def test_a_rest_grows_with_the_time_for_which_nothing_has_come() -> None:
    rest = Rest(0.05)
    now, requests = 10.0, []
    while now < 12.0:
        now += rest.left({"t": {"0": 1}}, now)
        requests.append(now)
        rest.begin({"t": {"0": 1}}, now)
        now += 0.011  # until Spark calls again
    pauses = [later - earlier for earlier, later in pairwise(requests)]
    assert pauses[0] == pytest.approx(0.011), "at once"
    assert pauses == sorted(pauses)
    assert pauses[-1] == pytest.approx(0.05)
    assert len([each for each in requests if 11.0 <= each < 12.0]) <= 20
    rest.begin({"t": {"0": 2}}, now)
    assert rest.left({"t": {"0": 2}}, now) == 0.0, "the stream is not idle any more"


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
    # The last case has two losses; the first one is reported.
    assert text in str(caught.value) or "instead of 0" in str(caught.value)


@pytest.mark.parametrize(("start", "end", "there", "text", "ranges"), LOSSES)
def test_lost_data_is_logged_and_the_query_goes_on_where_it_may(
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
