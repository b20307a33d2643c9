"""Offsets keep what they hold on their way through a checkpoint, and have one text for one meaning."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.topic_partition import TopicPartition
from ottla.spark.source.checkpoint import (
    INITIAL,
    OffsetFormatError,
    PartitionOffsets,
    end_offset,
    from_json,
    is_initial,
    plan_in,
    start_in,
    to_json,
)
from ottla.spark.source.packing import Split

_counts = st.integers(1, 2**31 - 1)
_plans = st.builds(
    Split,
    target_partitions=_counts,
    min_partitions=st.none() | _counts,
    max_records_per_partition=st.none() | _counts,
    least_offsets=_counts,
    most_offsets=_counts,
)
_offsets = st.dictionaries(
    st.builds(
        TopicPartition, st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 2**31 - 1)
    ),
    st.integers(0, 2**63 - 1),
)


@given(_offsets)
def test_offsets_come_back_from_their_json(offsets: PartitionOffsets) -> None:
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


@given(_offsets, st.randoms())
def test_the_text_does_not_depend_on_the_order_in_which_offsets_were_found(
    offsets: PartitionOffsets, random: Any
) -> None:
    shuffled = list(offsets.items())
    random.shuffle(shuffled)
    assert json.dumps(to_json(dict(shuffled))) == json.dumps(to_json(offsets))


@given(_offsets, _offsets)
def test_the_first_end_offset_carries_the_start(end: PartitionOffsets, start: PartitionOffsets) -> None:
    offset = json.loads(json.dumps(end_offset(end, start=start)))
    assert from_json(offset) == end
    assert start_in(offset) == start


def test_partitions_are_in_the_order_of_their_numbers() -> None:
    offsets = {TopicPartition("t", number): number for number in (10, 9, 100)}
    assert json.dumps(to_json(offsets)) == '{"t": {"9": 9, "10": 10, "100": 100}}'


def test_an_offset_of_the_jvm_connector_is_read() -> None:
    assert from_json(json.loads('{"t":{"1":0,"0":10}}')) == {
        TopicPartition("t", 0): 10,
        TopicPartition("t", 1): 0,
    }
    assert start_in(json.loads('{"t":{"0":10}}')) is None


def test_a_stream_that_has_begun_is_not_taken_for_one_that_has_not() -> None:
    assert is_initial(INITIAL)
    for begun in (end_offset({}), end_offset({}, start={}), end_offset({TopicPartition("t", 0): 0})):
        assert not is_initial(begun)
    assert from_json(end_offset({})) == {}


@pytest.mark.parametrize(
    "offset",
    [
        {"t": 3},
        {"t": [1]},
        {"t": {"0": "7"}},
        {"t": {"0": None}},
        {"t": {"0": True}},
        {"t": {"0": -1}},
        {"t": {"zero": 1}},
        {"t": {"-1": 1}},
        {"t": {"1_0": 1}},
        {"t": {"\N{SUPERSCRIPT TWO}": 1}},
        {"logOffset": 4},
    ],
)
def test_an_offset_of_another_source_is_refused_with_a_hint(offset: dict[str, Any]) -> None:
    with pytest.raises(OffsetFormatError, match="checkpointLocation"):
        from_json(offset)


def test_a_start_that_is_not_one_is_refused() -> None:
    with pytest.raises(OffsetFormatError, match="checkpointLocation"):
        start_in({":start": 5})


# The plan


@given(_offsets, _offsets, _plans)
def test_an_end_offset_carries_how_its_batch_is_split(
    end: PartitionOffsets, start: PartitionOffsets, plan: Split
) -> None:
    offset = json.loads(json.dumps(end_offset(end, start=start, plan=plan)))
    assert from_json(offset) == end
    assert start_in(offset) == start
    assert plan_in(offset) == plan


def test_a_plan_has_one_text() -> None:
    plan = Split(target_partitions=8, max_records_per_partition=500, least_offsets=10, most_offsets=1000)
    offset = end_offset({TopicPartition("t", 0): 7}, start={TopicPartition("t", 0): 0}, plan=plan)
    assert json.dumps(offset) == (
        '{":plan": {"version": 1, "targetPartitions": 8, "maxRecordsPerPartition": 500, "leastOffsets": 10,'
        ' "mostOffsets": 1000}, ":start": {"t": {"0": 0}}, "t": {"0": 7}}'
    )


def test_an_offset_without_a_plan_has_none() -> None:
    assert plan_in(json.loads('{"t":{"0":10}}')) is None
    assert plan_in(end_offset({}, start={})) is None


@pytest.mark.parametrize(
    "plan",
    [
        5,
        {},
        {"version": 2, "targetPartitions": 8},
        {"version": 1, "targetPartitions": 0},
        {"version": 1, "targetPartitions": True},
        {"version": 1, "targetPartitions": "8"},
        {"version": 1, "something": 8},
    ],
)
def test_a_plan_that_is_not_understood_is_refused(plan: object) -> None:
    with pytest.raises(OffsetFormatError, match=":plan"):
        plan_in({":plan": plan})
