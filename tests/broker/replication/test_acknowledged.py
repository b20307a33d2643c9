"""Appends that wait for their replicas: when the wait is over, and what is said then."""

from __future__ import annotations

from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.metadata.image import PartitionImage
from ottla.broker.replication.acknowledged import AwaitedAppend
from ottla.broker.replication.partition import FetchTimes, Partition
from ottla.errors import BrokerError
from ottla.wire import Uuid
from tests.broker.log.support import append_to, make_batch, open_log

NODE, OTHER = 1, 2
NOT_LEADER, TIMED_OUT, NOT_ENOUGH_AFTER_APPEND = 6, 7, 20


def led(isr: tuple[int, ...] = (NODE, OTHER), min_in_sync: int = 1) -> Partition:
    partition = Partition(
        NODE, "orders", Uuid(b"o" * 16), 0, open_log(MemoryFileSystem()), min_in_sync=min_in_sync
    )
    partition.become(PartitionImage((NODE, OTHER), isr, NODE, 0, 0))
    return partition


def appended(partition: Partition) -> AwaitedAppend:
    return AwaitedAppend(partition, append_to(partition, make_batch()).last_offset + 1)


def replicate(partition: Partition) -> None:
    times = FetchTimes(0.0)
    partition.follower_fetched(OTHER, partition.log.log_end_offset, 0, times, -1)
    partition.commit(0.0)


def code(error: BrokerError | None) -> int:
    return 0 if error is None else error.code


def test_it_is_over_when_all_replicas_have_it() -> None:
    partition = led()
    waiting = appended(partition)
    assert (waiting.is_over, code(waiting.error())) == (False, TIMED_OUT)
    replicate(partition)
    assert (waiting.is_over, code(waiting.error())) == (True, 0)


def test_it_is_over_when_another_node_leads_even_if_this_one_does_again() -> None:
    partition = led()
    waiting = appended(partition)
    partition.become(PartitionImage((NODE, OTHER), (NODE, OTHER), OTHER, 1, 1))
    assert (waiting.is_over, code(waiting.error())) == (True, NOT_LEADER)
    partition.become(PartitionImage((NODE, OTHER), (NODE, OTHER), NODE, 2, 2))
    assert (waiting.is_over, code(waiting.error())) == (True, NOT_LEADER)


def test_fewer_replicas_than_the_topic_demands_are_told() -> None:
    partition = led(min_in_sync=2)
    waiting = appended(partition)
    replicate(partition)
    partition.become(PartitionImage((NODE, OTHER), (NODE,), NODE, 0, 1))
    assert (waiting.is_over, code(waiting.error())) == (True, NOT_ENOUGH_AFTER_APPEND)
