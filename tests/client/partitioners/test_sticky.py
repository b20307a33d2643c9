"""When a run of records without a key ends, and where it goes on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.partitioners import (
    ConsistentRandomPartitioner,
    DefaultPartitioner,
    HashPartitioner,
    LeastBackupPartitioner,
    Partitioner,
)
from ottla.client.partitioners.sticky import another_partition
from ottla.runtime import Random
from ottla.wire.batch_header import BATCH_OVERHEAD
from tests.client.partitioners.support import BATCH_SIZE, Buffers, FixedLoad, idle, topic_of, unkeyed

STICKY: list[Partitioner] = [
    DefaultPartitioner(),
    DefaultPartitioner(adaptive=False),
    DefaultPartitioner(ignore_keys=True),
    HashPartitioner(),
    ConsistentRandomPartitioner(),
    LeastBackupPartitioner(),
]
every_sticky_one = pytest.mark.parametrize("partitioner", STICKY, ids=repr)


class InTurn(Random):
    """Never the same partition twice, as long as there are enough."""

    def __init__(self) -> None:
        self.count = 0

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        self.count += 1
        return self.count % start


@every_sticky_one
def test_records_stay_together_until_a_batch_is_full(partitioner: Partitioner) -> None:
    topic, load = topic_of(partitioner), idle(50)
    room = BATCH_SIZE - BATCH_OVERHEAD
    assert len({unkeyed(topic, load, size=room // 9) for _ in range(9)}) == 1


@every_sticky_one
def test_every_partition_gets_its_turn(partitioner: Partitioner) -> None:
    buffers = Buffers(topic_of(partitioner), partitions=20)
    used = set()
    for _ in range(3000):
        used.add(buffers.append(100))
        buffers.send(min(buffers.batches))
    assert used == set(range(20))


@every_sticky_one
def test_without_news_of_batches_a_run_ends_by_its_bytes(partitioner: Partitioner) -> None:
    topic, load = topic_of(partitioner), idle(100)
    run = [unkeyed(topic, load) for _ in range(2 * BATCH_SIZE // 100)]
    assert unkeyed(topic, load) != run[0]


@every_sticky_one
def test_no_batch_is_left_behind_nearly_empty(partitioner: Partitioner) -> None:
    buffers = Buffers(topic_of(partitioner), partitions=7)
    for _ in range(1000):
        buffers.append(90)
    all_batches = sorted(size for batches in buffers.batches.values() for size in batches)
    last = all_batches.pop(0)
    assert last <= BATCH_SIZE
    assert all(size + 90 > BATCH_SIZE for size in all_batches)


@given(sizes=st.lists(st.integers(1, 1500), min_size=1, max_size=200), sends=st.sets(st.integers(0, 199)))
def test_a_run_of_the_default_has_one_to_two_batches_of_bytes(sizes: list[int], sends: set[int]) -> None:
    """However its batches are cut by sends in between: that is what KIP-794 is about."""
    topic = DefaultPartitioner(adaptive=False).for_topic("orders", batch_size=BATCH_SIZE, random=InTurn())
    buffers = Buffers(topic, partitions=1000)
    runs: dict[int, list[int]] = {}
    for number, size in enumerate(sizes):
        partition = buffers.append(size)
        runs.setdefault(partition, []).append(size)
        if number in sends:
            buffers.send(partition)
    for run, following in pairwise(runs.values()):
        # What would have been too much counts: with it the batch, header included, is full.
        assert BATCH_OVERHEAD + sum(run) + following[0] >= BATCH_SIZE
    assert all(sum(run[:-1]) < 2 * BATCH_SIZE for run in runs.values())


def test_a_run_of_the_default_that_fills_a_batch_ends_with_it() -> None:
    """By a hair: the record that does not fit is no larger than the header of the batch."""
    topic = DefaultPartitioner(adaptive=False).for_topic("orders", batch_size=BATCH_SIZE, random=InTurn())
    buffers = Buffers(topic, partitions=100)
    for _ in range(10 * (BATCH_SIZE - BATCH_OVERHEAD)):
        buffers.append(1)
    assert [len(batches) for batches in buffers.batches.values()] == [1] * 10


def test_a_run_of_the_default_does_not_end_amid_a_batch_before_twice_its_bytes() -> None:
    topic = DefaultPartitioner(adaptive=False).for_topic("orders", batch_size=BATCH_SIZE, random=InTurn())
    load = idle(100)
    run = [unkeyed(topic, load, size=1) for _ in range(2 * BATCH_SIZE)]
    assert run.index(run[-1]) == 2 * BATCH_SIZE - BATCH_OVERHEAD


def test_a_batch_that_leaves_early_ends_no_run_of_the_default() -> None:
    """With lingering, batches of 400 bytes leave: the run goes on until a batch's worth has gone there."""
    buffers = Buffers(topic_of(DefaultPartitioner()), partitions=100)
    first = buffers.append(100)
    for _ in range(3):
        buffers.send(first)
        assert buffers.append(100) == first
        assert buffers.append(200) == first
    buffers.send(first)
    assert buffers.append(100) != first


def test_a_batch_that_leaves_early_ends_the_run_of_the_others() -> None:
    for partitioner in (HashPartitioner(), LeastBackupPartitioner()):
        buffers = Buffers(topic_of(partitioner), partitions=100)
        first = buffers.append(100)
        buffers.send(first)
        assert buffers.append(100) != first


def test_a_record_with_a_key_ends_no_run_on_another_partition() -> None:
    topic, load = topic_of(HashPartitioner()), idle(10)
    first = unkeyed(topic, load)
    assert not topic.on_new_batch((first + 1) % 10)
    assert unkeyed(topic, load) == first


@every_sticky_one
def test_a_run_leaves_a_partition_that_loses_its_leader(partitioner: Partitioner) -> None:
    topic, load = topic_of(partitioner), idle(3)
    first = unkeyed(topic, load)
    others = tuple(partition for partition in range(3) if partition != first)
    assert unkeyed(topic, replace(load, available=others)) in others


@every_sticky_one
def test_a_run_goes_on_when_another_partition_loses_its_leader(partitioner: Partitioner) -> None:
    topic, load = topic_of(partitioner), idle(50)
    first = unkeyed(topic, load)
    assert unkeyed(topic, replace(load, available=(first,))) == first
    assert unkeyed(topic, replace(load, available=tuple(range(50)))) == first


@every_sticky_one
def test_a_run_leaves_a_partition_that_is_gone(partitioner: Partitioner) -> None:
    for seed in range(20):
        topic = topic_of(partitioner, seed)
        unkeyed(topic, FixedLoad(100))
        assert unkeyed(topic, FixedLoad(2)) in (0, 1)


@every_sticky_one
@settings(deadline=None, max_examples=50)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_only_partitions_with_a_leader_are_chosen_while_there_are_any(
    partitioner: Partitioner, data: st.DataObject, seed: int
) -> None:
    topic = topic_of(partitioner, seed)
    for _ in range(data.draw(st.integers(1, 10))):
        partitions = data.draw(st.integers(1, 12))
        available = tuple(sorted(data.draw(st.sets(st.integers(0, partitions - 1)))))
        slow = data.draw(st.sets(st.integers(0, partitions - 1)))
        waiting = data.draw(
            st.lists(st.integers(0, 10 * BATCH_SIZE), min_size=partitions, max_size=partitions)
        )
        load = FixedLoad(partitions, available, slow, waiting)
        for size in data.draw(st.lists(st.integers(1, 3 * BATCH_SIZE), max_size=10)):
            partition = unkeyed(topic, load, size)
            if data.draw(st.booleans()) and topic.on_new_batch(partition):
                partition = unkeyed(topic, load, size)
            assert partition in (available or range(partitions))


@every_sticky_one
def test_without_any_leader_all_partitions_are_used(partitioner: Partitioner) -> None:
    topic = topic_of(partitioner)
    assert {unkeyed(topic, FixedLoad(5), 10 * BATCH_SIZE) for _ in range(200)} == set(range(5))


@every_sticky_one
def test_one_partition_is_always_the_one(partitioner: Partitioner) -> None:
    buffers = Buffers(topic_of(partitioner), partitions=1)
    assert {buffers.append(size) for size in range(1, 300)} == {0}


@every_sticky_one
def test_the_same_seed_makes_the_same_choices(partitioner: Partitioner) -> None:
    first, again, other = (Buffers(topic_of(partitioner, seed), partitions=50) for seed in (7, 7, 8))
    history = [first.append(100) for _ in range(500)]
    assert history == [again.append(100) for _ in range(500)]
    assert history != [other.append(100) for _ in range(500)]


def test_another_partition_is_any_other_with_equal_chances() -> None:
    random = Random(3)
    load = FixedLoad(10, available=(1, 4, 5, 9))
    seen = Counter(another_partition(load, 5, random) for _ in range(3000))
    assert sorted(seen) == [1, 4, 9]
    assert all(900 < count < 1100 for count in seen.values())


def test_another_partition_than_one_without_leader_is_any() -> None:
    random = Random(3)
    load = FixedLoad(10, available=(1, 4, 9))
    for last in (-1, 0, 5, 12):
        assert {another_partition(load, last, random) for _ in range(100)} == {1, 4, 9}
