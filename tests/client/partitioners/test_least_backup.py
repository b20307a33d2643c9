"""Least backup: records go where the fewest bytes wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.partitioners import ColumnsMode, LeastBackupPartitioner
from tests.client.partitioners.support import BATCH_SIZE, Buffers, FixedLoad, choices, topic_of


@given(
    waiting=st.lists(st.integers(0, 5), min_size=1, max_size=10), data=st.data(), seed=st.integers(0, 2**32)
)
def test_the_partition_with_the_fewest_bytes_is_chosen(
    waiting: list[int], data: st.DataObject, seed: int
) -> None:
    available = tuple(sorted(data.draw(st.sets(st.integers(0, len(waiting) - 1)))))
    options = available or range(len(waiting))
    least = min(waiting[partition] for partition in options)
    seen = choices(
        topic_of(LeastBackupPartitioner(), seed), FixedLoad(len(waiting), available, (), waiting), 20
    )
    assert all(partition in options and waiting[partition] == least for partition in seen)


def test_equals_are_chosen_equally() -> None:
    load = FixedLoad(5, (0, 1, 2, 3, 4), waiting=[7, 3, 3, 9, 3])
    seen = choices(topic_of(LeastBackupPartitioner()), load, 3000)
    assert sorted(seen) == [1, 2, 4]
    assert all(900 < count < 1100 for count in seen.values())


def test_a_partition_that_takes_nothing_gets_one_batch_and_no_more() -> None:
    buffers = Buffers(topic_of(LeastBackupPartitioner()), partitions=4)
    for _ in range(1000):
        buffers.append(100)
        for partition in (0, 1, 2):
            if len(buffers.batches.get(partition, [])) > 1:
                buffers.send(partition)
    assert sum(buffers.batches[3]) <= 2 * BATCH_SIZE


def test_keys_do_not_matter() -> None:
    load = FixedLoad(3, (0, 1, 2), waiting=[1, 0, 1])
    topic = topic_of(LeastBackupPartitioner())
    assert {topic.choose(b"%d" % number, None, BATCH_SIZE, load) for number in range(50)} == {1}
    assert LeastBackupPartitioner().columns_mode() is ColumnsMode.ONE
