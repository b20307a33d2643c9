"""The default partitioner: what Kafka's own client does since KIP-794."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.partitioners import ColumnsMode, DefaultPartitioner, murmur2_partition
from ottla.client.partitioners.default import partition_by_load
from ottla.runtime import Random
from tests.client.partitioners.support import BATCH_SIZE, Buffers, FixedLoad, choices, idle, topic_of, unkeyed


class Numbers(Random):
    """Gives the numbers it is told to, and remembers below what they were wanted."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)
        self.bounds: list[int] = []

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        self.bounds.append(start)
        return self.numbers.pop(0)


def test_keys_go_where_kafka_sends_them() -> None:
    topic = topic_of(DefaultPartitioner())
    for key in (b"", b"a", b"order-42", bytes(1000)):
        assert topic.choose(key, None, 100, idle(12)) == murmur2_partition(key, 12)


def test_keys_count_all_partitions_with_or_without_a_leader() -> None:
    topic = topic_of(DefaultPartitioner())
    for number in range(50):
        key = b"%d" % number
        assert topic.choose(key, None, 100, FixedLoad(12, available=(3,))) == murmur2_partition(key, 12)


def test_records_with_a_key_are_no_part_of_a_run() -> None:
    topic, load = topic_of(DefaultPartitioner()), idle(100)
    first = unkeyed(topic, load)
    for number in range(100):
        topic.choose(b"%d" % number, None, BATCH_SIZE, load)
    assert unkeyed(topic, load) == first


def test_ignored_keys_make_no_difference() -> None:
    topic, load = topic_of(DefaultPartitioner(ignore_keys=True)), idle(100)
    assert len({topic.choose(b"%d" % number, None, 10, load) for number in range(50)}) == 1


def test_queues_of_0_3_and_1_batches_weigh_4_1_and_3() -> None:
    """The example in Kafka's own code."""
    load = FixedLoad(3, (0, 1, 2), waiting=[0, 3 * BATCH_SIZE, BATCH_SIZE])
    random = Numbers(*range(8))
    chosen = [partition_by_load(load, BATCH_SIZE, random) for _ in range(8)]
    assert chosen == [0, 0, 0, 0, 1, 2, 2, 2]
    assert random.bounds == [8] * 8


def test_a_batch_that_is_not_full_is_one_batch() -> None:
    load = FixedLoad(3, (0, 1, 2), waiting=[1, BATCH_SIZE, BATCH_SIZE + 1])
    random = Numbers(*range(5))
    assert [partition_by_load(load, BATCH_SIZE, random) for _ in range(5)] == [0, 0, 1, 1, 2]


def test_partitions_without_a_leader_are_not_in_the_table() -> None:
    load = FixedLoad(4, (1, 3), waiting=[0, 0, 0, BATCH_SIZE])
    random = Numbers(*range(3))
    assert [partition_by_load(load, BATCH_SIZE, random) for _ in range(3)] == [1, 1, 3]
    assert random.bounds == [3] * 3


@settings(deadline=None, max_examples=50)
@given(
    queues=st.lists(st.integers(0, 20), min_size=1, max_size=8),
    seed=st.integers(0, 2**32),
)
def test_choices_follow_the_weights(queues: list[int], seed: int) -> None:
    load = FixedLoad(len(queues), tuple(range(len(queues))), waiting=[queue * BATCH_SIZE for queue in queues])
    weights = [max(queues) + 1 - queue for queue in queues]
    count = 4000
    seen = choices(topic_of(DefaultPartitioner(), seed), load, count)
    for partition, weight in enumerate(weights):
        chance = weight / sum(weights)
        deviation = (count * chance * (1 - chance)) ** 0.5
        assert abs(seen[partition] - count * chance) <= 6 * deviation + 1


def test_equal_queues_are_used_equally() -> None:
    load = FixedLoad(4, (0, 1, 2, 3), waiting=[5 * BATCH_SIZE] * 4)
    assert all(900 < count < 1100 for count in choices(topic_of(DefaultPartitioner()), load, 4000).values())


def test_not_adaptive_is_uniform_whatever_waits() -> None:
    load = FixedLoad(4, (0, 1, 2, 3), slow=(1,), waiting=[0, 99 * BATCH_SIZE, 0, BATCH_SIZE])
    seen = choices(topic_of(DefaultPartitioner(adaptive=False)), load, 4000)
    assert sorted(seen) == [0, 1, 2, 3]
    assert all(900 < count < 1100 for count in seen.values())


def test_a_slow_leader_gets_nothing_while_another_is_not() -> None:
    load = FixedLoad(3, (0, 1, 2), slow=(0, 2), waiting=[1, 9 * BATCH_SIZE, 1])
    assert sorted(choices(topic_of(DefaultPartitioner()), load, 100)) == [1]


def test_a_slow_leader_for_which_nothing_waits_is_tried_again() -> None:
    load = FixedLoad(3, (0, 1, 2), slow=(0, 2), waiting=[1, 1, 0])
    assert sorted(choices(topic_of(DefaultPartitioner()), load, 100)) == [1, 2]


def test_when_all_leaders_are_slow_any_of_them_will_do() -> None:
    load = FixedLoad(4, (0, 1, 3), slow=(0, 1, 3), waiting=[1, 9 * BATCH_SIZE, 0, 1])
    assert sorted(choices(topic_of(DefaultPartitioner()), load, 300)) == [0, 1, 3]


def test_a_slow_partition_gets_less_in_the_long_run() -> None:
    """One of four is sent to ten times less often: its queue stays bounded, and the others get the rest."""
    buffers = Buffers(topic_of(DefaultPartitioner()), partitions=4)
    received = [0] * 4
    for step in range(20_000):
        received[buffers.append(100)] += 100
        if step % 20 == 0:
            for partition in (0, 1, 2):
                buffers.send(partition)
        if step % 200 == 0:
            buffers.send(3)
    assert received[3] < min(received[:3]) / 1.2
    assert max(received[:3]) < 1.2 * min(received[:3])


@pytest.mark.parametrize(("ignore_keys", "mode"), [(False, ColumnsMode.BY_KEY), (True, ColumnsMode.ONE)])
def test_columns_are_placed_by_key_unless_keys_are_ignored(ignore_keys: bool, mode: ColumnsMode) -> None:
    assert DefaultPartitioner(ignore_keys=ignore_keys).columns_mode() is mode
