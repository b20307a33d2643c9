"""Round robin: each record to the next partition that has a leader."""

from __future__ import annotations

from ottla.client.partitioners import ColumnsMode, RoundRobinPartitioner
from tests.client.partitioners.support import Buffers, FixedLoad, idle, topic_of, unkeyed


def test_partitions_come_in_turn_whatever_the_key() -> None:
    topic = topic_of(RoundRobinPartitioner())
    assert [topic.choose(b"same", None, 100, idle(3)) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_each_topic_has_its_own_turn() -> None:
    one, other = topic_of(RoundRobinPartitioner()), topic_of(RoundRobinPartitioner())
    assert [unkeyed(one, idle(3)), unkeyed(one, idle(3)), unkeyed(other, idle(3))] == [0, 1, 0]


def test_partitions_without_a_leader_are_left_out() -> None:
    topic, load = topic_of(RoundRobinPartitioner()), FixedLoad(5, available=(1, 3, 4))
    assert [unkeyed(topic, load) for _ in range(5)] == [1, 3, 4, 1, 3]


def test_without_any_leader_all_partitions_take_turns() -> None:
    topic, load = topic_of(RoundRobinPartitioner()), FixedLoad(3)
    assert [unkeyed(topic, load) for _ in range(4)] == [0, 1, 2, 0]


def test_a_leader_that_comes_or_goes_upsets_no_turn() -> None:
    topic = topic_of(RoundRobinPartitioner())
    assert [unkeyed(topic, idle(4)) for _ in range(2)] == [0, 1]
    assert unkeyed(topic, FixedLoad(4, available=(0, 1, 3))) == 3
    assert unkeyed(topic, idle(4)) == 0
    assert [unkeyed(topic, idle(6)) for _ in range(5)] == [1, 2, 3, 4, 5]
    assert unkeyed(topic, idle(2)) == 0


def test_new_batches_leave_no_partition_out() -> None:
    """Every record opens a batch here; with a second choice for each, every other partition would stay empty."""
    buffers = Buffers(topic_of(RoundRobinPartitioner()), partitions=4)
    assert [buffers.append(900) for _ in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]


def test_columns_are_placed_all_at_once_as_if_one_by_one() -> None:
    assert RoundRobinPartitioner().columns_mode() is ColumnsMode.IN_TURN
    topic, same = topic_of(RoundRobinPartitioner()), topic_of(RoundRobinPartitioner())
    load = FixedLoad(5, available=(1, 3, 4))
    for count in (0, 1, 7, 2, 3):
        assert list(topic.turns(count, load)) == [unkeyed(same, load) for _ in range(count)]
    assert unkeyed(topic, load) == unkeyed(same, load)
