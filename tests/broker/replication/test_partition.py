"""A replica: who may append and read, in which epoch, and up to where."""

from __future__ import annotations

import pytest

from ottla.broker.log.validation import only_batch
from ottla.broker.metadata.image import PartitionImage
from ottla.broker.replication.partition import ACKS_ALL, FetchTimes, Partition
from ottla.errors import (
    BrokerError,
    FencedLeaderEpochError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
    UnknownServerError,
)
from ottla.wire import Uuid
from ottla.wire.batches import ControlType
from tests.broker.log.support import NOW, append_marker, make_batch, open_log

ORDERS = Uuid(b"orders".ljust(16))
NODE, OTHER = 1, 2


def image(leader: int = NODE, epoch: int = 0, isr: tuple[int, ...] = (NODE, OTHER)) -> PartitionImage:
    return PartitionImage((NODE, OTHER), isr, leader, epoch, epoch)


def replica(leader: int = NODE, epoch: int = 0, *, min_in_sync: int = 1) -> Partition:
    partition = Partition(NODE, "orders", ORDERS, 0, open_log(), min_in_sync=min_in_sync)
    partition.become(image(leader, epoch))
    return partition


def append(partition: Partition, count: int = 1, *, acks: int = 1) -> int:
    return partition.append(only_batch(make_batch(count)), acks, NOW).base_offset


def replicate(partition: Partition, now: float = 0.0) -> None:
    """The other replica has all that this leader has."""
    end = partition.log.log_end_offset
    partition.follower_fetched(OTHER, end, partition.log.log_start_offset, FetchTimes(now), 0)
    partition.commit(now)


def test_the_leader_appends_and_a_follower_does_not() -> None:
    partition = replica()
    assert [append(partition), append(partition, 2), append(partition)] == [0, 1, 3]
    assert partition.high_watermark == partition.last_stable_offset == 0
    replicate(partition)
    assert partition.high_watermark == partition.last_stable_offset == 4
    partition.become(image(OTHER, 1))
    with pytest.raises(NotLeaderOrFollowerError):
        append(partition)
    assert partition.high_watermark == 4


def test_a_leader_that_is_told_late_of_its_leadership_does_not_lead_again() -> None:
    partition = replica(epoch=3)
    assert partition.become(image(OTHER, 4))
    assert not partition.become(image(NODE, 3))
    assert not partition.is_leader
    assert partition.leader_epoch == 4


def test_with_acks_of_all_enough_replicas_have_to_be_in_sync() -> None:
    partition = replica(min_in_sync=2)
    partition.become(image(isr=(NODE,)))
    with pytest.raises(NotEnoughReplicasError):
        append(partition, acks=ACKS_ALL)
    assert partition.log.log_end_offset == 0
    assert append(partition, acks=1) == 0
    partition.become(image())
    assert append(partition, acks=ACKS_ALL) == 1
    # Of two replicas no more than two can be demanded.
    partition.min_in_sync = 3
    assert append(partition, acks=ACKS_ALL) == 2


@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, None), (5, None), (4, FencedLeaderEpochError), (6, UnknownLeaderEpochError)]
)
def test_a_client_says_in_which_epoch_it_believes(epoch: int, error: type[BrokerError] | None) -> None:
    partition = replica(epoch=5)
    if error is None:
        partition.check_epoch(epoch)
    else:
        with pytest.raises(error):
            partition.check_epoch(epoch)


def test_only_a_replica_replicates() -> None:
    partition = replica()
    partition.check_follower(OTHER, 0, names_epoch=True)
    # One that names the epoch of the leader may know more than the leader does.
    with pytest.raises(UnknownLeaderEpochError):
        partition.check_follower(3, 0, names_epoch=True)
    with pytest.raises(NotLeaderOrFollowerError):
        partition.check_follower(3, 0, names_epoch=False)


def test_readers_see_what_is_between_the_start_of_the_log_and_its_high_watermark() -> None:
    partition = replica()
    append(partition, 3)
    assert partition.fetch(0, 1000, committed=False, at_least_one=True).size == 0
    replicate(partition)
    for read in (partition.read, partition.fetch):
        assert read(3, 1000, committed=False, at_least_one=True).size == 0
        assert read(0, 1000, committed=False, at_least_one=True).next_offset == 3
        for offset in (-1, 4):
            with pytest.raises(OffsetOutOfRangeError):
                read(offset, 1000, committed=False, at_least_one=True)
    with pytest.raises(UnknownServerError):
        partition.fetch(0, -1, committed=False, at_least_one=True)
    assert partition.fetch(3, -1, committed=False, at_least_one=True).size == 0


def test_readers_of_committed_records_stop_at_an_open_transaction() -> None:
    partition = replica()
    append(partition)
    partition.append(only_batch(make_batch(2, producer=(7, 0, 0), transactional=True)), 1, NOW)
    append(partition)
    replicate(partition)
    assert (partition.last_stable_offset, partition.high_watermark) == (1, 4)
    assert partition.fetch(0, 1000, committed=True, at_least_one=True).next_offset == 1
    assert partition.fetch(0, 1000, committed=False, at_least_one=True).next_offset == 4
    append_marker(partition.log, ControlType.COMMIT, 7)
    replicate(partition)
    assert partition.last_stable_offset == partition.high_watermark == 5


def test_records_are_deleted_up_to_the_high_watermark_by_the_leader() -> None:
    partition = replica()
    append(partition, 5)
    replicate(partition)
    append(partition)
    assert partition.delete_records(2) == 2
    assert partition.delete_records(1) == 1
    assert partition.log.log_start_offset == 2, "what begins later stays"
    for offset in (-2, 6):
        with pytest.raises(OffsetOutOfRangeError):
            partition.delete_records(offset)
    assert partition.delete_records(-1) == 5
    partition.become(image(OTHER, 1))
    with pytest.raises(NotLeaderOrFollowerError):
        partition.delete_records(-1)


def test_a_replica_that_is_retired_leads_nothing() -> None:
    partition = replica(epoch=2)
    partition.retire()
    assert not partition.is_leader
    assert partition.leader_epoch == 2
    with pytest.raises(NotLeaderOrFollowerError):
        append(partition)
