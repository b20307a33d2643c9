"""A replica: who may append and read, in which epoch, and up to where; who is in sync, and what is committed."""

from __future__ import annotations

import math

import pytest

from ottla.broker.log.log import Log
from ottla.broker.log.validation import only_batch
from ottla.broker.metadata.image import PartitionImage
from ottla.broker.replication.partition import ACKS_ALL, FetchTimes, IsrChange, Partition
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
from tests.broker.log.support import NOW, append_marker, guard_of, joined, make_batch, open_log
from tests.broker.log.support import append as append_to_log

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
    batch = only_batch(make_batch(2, producer=(7, 0, 0), transactional=True))
    partition.append(batch, 1, NOW, guard=guard_of(partition.log, batch))
    append(partition)
    replicate(partition)
    assert (partition.last_stable_offset, partition.high_watermark) == (1, 4)
    assert partition.fetch(0, 1000, committed=True, at_least_one=True).next_offset == 1
    assert partition.fetch(0, 1000, committed=False, at_least_one=True).next_offset == 4
    append_marker(partition.log, ControlType.COMMIT, 7)
    assert partition.last_stable_offset == 1, "the marker is not on all replicas"
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


# Who is in sync, and what is committed

THIRD, FOURTH = 3, 4
ALL = (NODE, OTHER, THIRD)
LAG = 30.0


class Led:
    """A leader of three or more replicas, in a time that the test moves."""

    def __init__(
        self,
        isr: tuple[int, ...] = ALL,
        *,
        replicas: tuple[int, ...] = ALL,
        min_in_sync: int = 1,
        records: int = 0,
        log: Log | None = None,
    ) -> None:
        self.now = 1000.0
        self.ineligible: set[tuple[int, int]] = set()
        self.partition = Partition(
            NODE,
            "orders",
            ORDERS,
            0,
            open_log() if log is None else log,
            min_in_sync=min_in_sync,
            max_lag=LAG,
            is_eligible=lambda broker_id, epoch: (broker_id, epoch) not in self.ineligible,
        )
        self.become(PartitionImage(replicas, isr, NODE, 5, 10))
        if records:
            self.append(records)

    def become(self, decided: PartitionImage) -> bool:
        changed = self.partition.become(decided, self.now)
        self.partition.commit(self.now)
        return changed

    def append(self, count: int = 1) -> None:
        append(self.partition, count)
        self.partition.commit(self.now)

    def fetches(
        self, replica: int, offset: int, *, after: float = 0.0, start: int = 0, epoch: int = 1
    ) -> None:
        self.now += after
        self.partition.follower_fetched(replica, offset, start, FetchTimes(self.now), epoch)
        self.partition.commit(self.now)

    def alters(self, change: IsrChange | None, isr: tuple[int, ...] | None = None) -> None:
        """The controller makes the change."""
        assert change is not None
        decided = change.isr if isr is None else isr
        assert self.partition.altered(change, decided, change.leader_epoch, change.partition_epoch + 1)
        self.partition.commit(self.now)

    @property
    def high_watermark(self) -> int:
        return self.partition.high_watermark

    def caught_up_at(self, replica: int) -> float:
        return self.partition.followers[replica].caught_up_at


def test_a_follower_at_the_end_of_the_log_has_caught_up_now() -> None:
    led = Led(records=3)
    led.fetches(OTHER, 3, after=5)
    assert led.caught_up_at(OTHER) == 1005
    led.fetches(OTHER, 3, after=5)
    assert led.caught_up_at(OTHER) == 1010


def test_a_follower_that_has_what_the_leader_had_at_its_last_fetch_had_caught_up_then() -> None:
    led = Led(records=3)
    led.fetches(OTHER, 0, after=5)
    assert led.caught_up_at(OTHER) == 1000, "when the leader began to lead"
    led.append(2)
    led.fetches(OTHER, 3, after=5)
    assert led.caught_up_at(OTHER) == 1005
    led.fetches(OTHER, 4, after=5)
    assert led.caught_up_at(OTHER) == 1005, "not all that there was at its last fetch"


def test_having_caught_up_is_not_forgotten_by_a_fetch_from_further_back() -> None:
    led = Led(records=3)
    led.fetches(OTHER, 3, after=5)
    led.fetches(OTHER, 0, after=5)
    assert led.caught_up_at(OTHER) == 1005
    assert led.partition.followers[OTHER].log_end_offset == 0


def test_a_session_keeps_a_follower_caught_up_until_the_fetch_that_finds_it_behind() -> None:
    led = Led(records=3)
    times = FetchTimes(1005.0)
    led.partition.follower_fetched(OTHER, 3, 0, times, 1)
    times.fetched(1010.0)
    assert led.caught_up_at(OTHER) == 1010, "though this fetch says nothing of the partition"
    led.append()
    times.fetched(1015.0)
    led.partition.follower_fetched(OTHER, 3, 0, times, 1)
    # As if it had been named with every fetch: at the one before, it had all that there was.
    assert led.caught_up_at(OTHER) == 1010
    times.fetched(1020.0)
    assert led.caught_up_at(OTHER) == 1010


def test_another_session_does_not_take_the_time_of_the_last_one_back() -> None:
    led = Led(records=3)
    times = FetchTimes(1005.0)
    led.partition.follower_fetched(OTHER, 3, 0, times, 1)
    times.fetched(1010.0)
    led.append()
    led.fetches(OTHER, 3, after=60)
    assert led.caught_up_at(OTHER) == 1010


def test_a_new_leader_knows_nothing_of_its_followers_but_gives_those_in_sync_time() -> None:
    led = Led((NODE, OTHER), records=3)
    found = led.partition.followers
    assert [follower.log_end_offset for follower in found.values()] == [-1, -1]
    assert [follower.broker_epoch for follower in found.values()] == [-1, -1]
    assert (led.caught_up_at(OTHER), led.caught_up_at(THIRD)) == (1000, -math.inf)


def test_a_leader_that_leads_on_in_a_new_epoch_keeps_what_it_knows_of_its_followers() -> None:
    led = Led((NODE, OTHER), records=3)
    led.fetches(OTHER, 2)
    led.fetches(THIRD, 1)
    led.now += 100
    assert led.become(PartitionImage(ALL, (NODE, OTHER), NODE, 6, 11))
    followers = led.partition.followers
    assert (followers[OTHER].log_end_offset, followers[THIRD].log_end_offset) == (2, 1)
    assert (led.caught_up_at(OTHER), led.caught_up_at(THIRD)) == (1100, -math.inf)
    led.append()
    led.fetches(OTHER, 2, after=5)
    assert led.caught_up_at(OTHER) == 1100, "it had 2 when the epoch began, and has that still"


def test_a_change_within_an_epoch_leaves_the_followers_as_they_are() -> None:
    led = Led(records=3)
    led.fetches(OTHER, 2, after=5)
    follower = led.partition.followers[OTHER]
    assert not led.become(PartitionImage((*ALL, FOURTH), ALL, NODE, 5, 11))
    assert led.partition.followers[OTHER] is follower
    assert led.caught_up_at(FOURTH) == -math.inf
    assert led.partition.epoch_start_offset == 0


def test_a_leader_of_a_new_epoch_begins_it_where_its_log_ends() -> None:
    log = open_log()
    append_to_log(log, make_batch(3), epoch=2)
    led = Led(log=log)
    assert led.partition.epoch_start_offset == 3
    assert log.epochs.entries == ((2, 0), (5, 3))


def test_a_leader_that_becomes_a_follower_forgets_its_followers_and_what_it_proposed() -> None:
    led = Led((NODE, OTHER))
    led.fetches(THIRD, 0)
    change = led.partition.expand(THIRD)
    assert change is not None
    assert led.become(PartitionImage(ALL, ALL, OTHER, 6, 12))
    assert (led.partition.followers, led.partition.pending) == ({}, None)
    assert not led.partition.altered(change, change.isr, 5, 11)
    assert led.partition.expand(THIRD) is None
    assert led.partition.shrink(led.now + 100) is None


def test_the_high_watermark_is_where_the_last_of_those_in_sync_is() -> None:
    led = Led(records=10)
    assert led.high_watermark == 0, "followers that have not fetched yet may have nothing"
    led.fetches(OTHER, 10)
    assert led.high_watermark == 0
    led.fetches(THIRD, 7)
    assert led.high_watermark == 7
    led.fetches(OTHER, 4)
    assert led.high_watermark == 7, "it never goes back"
    led.fetches(OTHER, 10)
    led.fetches(THIRD, 10)
    assert led.high_watermark == 10


def test_a_leader_alone_commits_what_it_appends() -> None:
    led = Led((NODE,), replicas=(NODE,))
    led.append(3)
    assert led.high_watermark == 3
    led = Led((NODE,))
    led.append(2)
    assert led.high_watermark == 2, "who is not in sync is not waited for"


def test_the_high_watermark_stands_still_while_too_few_are_in_sync() -> None:
    led = Led((NODE,), min_in_sync=2)
    led.append(5)
    assert led.high_watermark == 0
    led.fetches(OTHER, 5)
    change = led.partition.expand(OTHER)
    led.partition.commit(led.now)
    assert led.high_watermark == 0, "it is proposed, but not in sync yet"
    led.alters(change)
    assert led.high_watermark == 5


def test_no_more_replicas_are_demanded_than_there_are() -> None:
    led = Led((NODE,), replicas=(NODE,), min_in_sync=3)
    led.append(5)
    assert led.high_watermark == 5


def test_a_member_that_is_proposed_is_waited_for_already() -> None:
    led = Led((NODE, OTHER), records=5)
    led.fetches(OTHER, 5)
    led.fetches(THIRD, 5)
    change = led.partition.expand(THIRD)
    assert change is not None
    assert led.partition.maximal_isr == ALL
    led.append(3)
    led.fetches(OTHER, 8)
    led.now += 100  # long out of step, but the controller may count on it
    led.partition.commit(led.now)
    assert led.high_watermark == 5
    led.partition.refused(change)
    led.partition.commit(led.now)
    assert led.high_watermark == 8


def test_a_member_that_is_to_go_is_waited_for_until_it_is_gone() -> None:
    led = Led(records=5)
    led.fetches(OTHER, 5)
    led.fetches(THIRD, 5)
    led.append()
    led.now += 29
    led.fetches(OTHER, 6)
    led.now += 2
    change = led.partition.shrink(led.now)
    assert change is not None
    assert (change.isr, led.partition.maximal_isr) == ((NODE, OTHER), ALL)
    led.partition.commit(led.now)
    assert led.high_watermark == 5
    led.alters(change)
    assert led.high_watermark == 6


def test_a_follower_that_is_about_to_join_is_waited_for_as_long_as_it_keeps_up() -> None:
    led = Led((NODE, OTHER), records=5)
    led.fetches(THIRD, 5)  # proposed to no one: the leader waits for it all the same
    led.append(3)
    led.fetches(OTHER, 8)
    assert led.high_watermark == 5
    led.now += LAG
    led.partition.commit(led.now)
    assert led.high_watermark == 5
    led.now += 0.1
    led.partition.commit(led.now)
    assert led.high_watermark == 8


def test_a_follower_that_may_not_join_is_not_waited_for() -> None:
    led = Led((NODE, OTHER), records=5)
    led.ineligible.add((THIRD, 1))
    led.fetches(THIRD, 5)
    led.append(3)
    led.fetches(OTHER, 8)
    assert led.high_watermark == 8


def test_a_follower_joins_when_it_has_what_is_committed_and_where_the_epoch_began() -> None:
    log = open_log()
    append_to_log(log, make_batch(4), epoch=2)
    led = Led((NODE, OTHER), log=log)
    led.append(4)
    led.fetches(THIRD, 3)
    assert led.partition.expand(THIRD) is None, "the epoch began at 4"
    led.fetches(THIRD, 4)
    led.fetches(OTHER, 4)
    change = led.partition.expand(THIRD)
    assert change is not None
    assert (change.isr, change.broker_epochs) == (ALL, (-1, 1, 1))
    assert (change.leader_epoch, change.partition_epoch) == (5, 10)


def test_a_follower_below_the_high_watermark_does_not_join() -> None:
    led = Led((NODE,), records=5)
    led.fetches(OTHER, 4)
    assert led.partition.expand(OTHER) is None
    led.fetches(OTHER, 5)
    assert led.partition.expand(OTHER) is not None


def test_a_follower_that_has_not_fetched_or_is_in_sync_or_no_replica_does_not_join() -> None:
    led = Led((NODE, OTHER))
    for replica in (OTHER, THIRD, FOURTH):
        assert led.partition.expand(replica) is None


def test_a_follower_joins_with_the_epoch_of_its_broker_that_fetches() -> None:
    led = Led((NODE, OTHER))
    led.ineligible.add((THIRD, 7))
    led.fetches(THIRD, 0, epoch=7)
    assert led.partition.expand(THIRD) is None
    led.fetches(THIRD, 0, epoch=8)
    change = led.partition.expand(THIRD)
    assert change is not None
    assert change.broker_epochs == (-1, -1, 8)
    # What an earlier incarnation has sent comes late.
    with pytest.raises(NotLeaderOrFollowerError):
        led.partition.check_follower(THIRD, 7, names_epoch=True)
    led.partition.check_follower(THIRD, 8, names_epoch=True)
    led.partition.check_follower(THIRD, -1, names_epoch=True)


def test_one_change_is_pending_at_most() -> None:
    led = Led((NODE,))
    led.fetches(OTHER, 0)
    led.fetches(THIRD, 0)
    change = led.partition.expand(OTHER)
    assert led.partition.expand(THIRD) is None
    assert led.partition.shrink(led.now + 100) is None
    led.alters(change)
    change = led.partition.expand(THIRD)
    assert change is not None
    assert (change.isr, change.partition_epoch) == (ALL, 11)


def test_followers_that_lag_for_too_long_are_dropped_and_one_at_the_end_never_is() -> None:
    led = Led(records=3)
    led.fetches(OTHER, 3)
    led.fetches(THIRD, 2)
    assert led.partition.shrink(led.now + LAG) is None
    change = led.partition.shrink(led.now + LAG + 0.1)
    assert change is not None
    assert (change.isr, change.broker_epochs) == ((NODE, OTHER), (-1, 1))
    led.alters(change)
    assert led.partition.shrink(led.now + 1000) is None
    led.append()
    assert led.partition.shrink(led.now + 1000) is not None


def test_a_follower_that_never_fetches_is_dropped_in_its_time() -> None:
    led = Led()
    assert led.partition.shrink(led.now + LAG) is None
    change = led.partition.shrink(led.now + LAG + 0.1)
    assert change is not None
    assert change.isr == (NODE,)


def test_a_change_that_is_made_is_the_isr_and_ends_a_recovery() -> None:
    led = Led((NODE,))
    led.become(PartitionImage(ALL, (NODE,), NODE, 6, 11, recovering=True))
    led.fetches(OTHER, 0)
    change = led.partition.expand(OTHER)
    assert change is not None
    led.alters(change)
    assert led.partition.image == PartitionImage(ALL, (NODE, OTHER), NODE, 6, 12)
    assert led.partition.pending is None


def test_a_response_counts_for_the_change_that_is_pending_alone() -> None:
    led = Led((NODE,))
    led.fetches(OTHER, 0)
    late = led.partition.expand(OTHER)
    assert late is not None
    # The metadata log has brought something newer, and with it a new proposal.
    led.become(PartitionImage(ALL, (NODE,), NODE, 5, 11))
    change = led.partition.expand(OTHER)
    assert change is not None
    assert not led.partition.altered(late, (NODE, OTHER), 5, 12)
    led.partition.refused(late)
    assert led.partition.pending is change
    assert led.partition.image.isr == (NODE,)


def test_a_response_of_another_epoch_changes_nothing() -> None:
    for leader_epoch, partition_epoch in ((6, 12), (5, 9)):
        led = Led((NODE,))
        led.fetches(OTHER, 0)
        change = led.partition.expand(OTHER)
        assert change is not None
        assert not led.partition.altered(change, (NODE, OTHER), leader_epoch, partition_epoch)
        assert led.partition.image == PartitionImage(ALL, (NODE,), NODE, 5, 10)


def test_an_older_partition_epoch_changes_nothing_and_the_same_one_takes_a_proposal_back() -> None:
    led = Led((NODE,))
    led.fetches(OTHER, 0)
    led.alters(led.partition.expand(OTHER))
    led.fetches(THIRD, 0)
    change = led.partition.expand(THIRD)
    assert not led.become(PartitionImage(ALL, (NODE,), NODE, 5, 10))
    assert led.partition.image.isr == (NODE, OTHER)
    assert led.partition.pending is change
    assert not led.become(PartitionImage(ALL, (NODE, OTHER), NODE, 5, 11))
    assert led.partition.pending is None


def test_the_low_watermark_is_where_the_last_live_replica_begins() -> None:
    led = Led((NODE,), records=5)
    assert led.partition.low_watermark == -1
    led.fetches(OTHER, 5, start=1)
    led.fetches(THIRD, 5, start=3)
    led.partition.delete_records(5)
    assert led.partition.low_watermark == 1
    led.ineligible.add((OTHER, -1))
    assert led.partition.low_watermark == 3


# A follower


def leader_batches(count: int, *, epoch: int = 5, size: int = 1) -> tuple[Log, list[memoryview]]:
    """The log of a leader with so many batches, and those."""
    log = open_log()
    for _ in range(count):
        append_to_log(log, make_batch(size), epoch=epoch)
    return log, [log.read(offset, 1, at_least_one=True).parts[0] for offset in range(0, count * size, size)]


def follower(high_watermark: int = 0, log: Log | None = None) -> Partition:
    partition = Partition(
        NODE, "orders", ORDERS, 0, open_log() if log is None else log, high_watermark=high_watermark
    )
    partition.become(image(OTHER, 5))
    return partition


def test_a_follower_commits_what_its_leader_says_as_far_as_it_has_it() -> None:
    partition = follower()
    _, batches = leader_batches(3)
    assert partition.append_as_follower(batches[0], 5, NOW) == len(batches[0])
    assert partition.follow(3, 0) == len(batches[0])
    assert partition.high_watermark == 1
    assert partition.append_as_follower(batches[1], 5, NOW) == len(batches[1])
    assert partition.follow(1, 0) == 0
    assert partition.follow(2, 0) == len(batches[1])
    assert partition.follow(1, 0) == 0
    assert partition.high_watermark == 2, "a later leader may know less, the follower does not"


def test_a_follower_leaves_batches_of_a_later_epoch_than_it_knows_and_all_behind() -> None:
    source = open_log()
    for epoch in (5, 6, 6):
        append_to_log(source, make_batch(), epoch=epoch)
    partition = follower()
    whole = joined(source.read(0, 1 << 20))
    assert partition.append_as_follower(whole, 5, NOW) == len(whole) // 3
    assert partition.log.log_end_offset == 1
    assert partition.log.epochs.entries == ((5, 0),)


def test_a_follower_begins_where_its_leader_begins() -> None:
    partition = follower()
    _, batches = leader_batches(3)
    for records in batches:
        partition.append_as_follower(records, 5, NOW)
    partition.follow(3, 2)
    assert partition.log.log_start_offset == 2
    partition.follow(3, 1)
    assert partition.log.log_start_offset == 2


def test_a_follower_whose_log_is_cut_has_committed_no_more_than_it_has() -> None:
    partition = follower()
    _, batches = leader_batches(3)
    for records in batches:
        partition.append_as_follower(records, 5, NOW)
    partition.follow(2, 0)
    partition.truncate_to(2)
    assert partition.high_watermark == 2
    partition.truncate_to(1)
    assert (partition.high_watermark, partition.log.log_end_offset) == (1, 1)
    # What comes anew is counted anew.
    partition.append_as_follower(batches[1], 5, NOW)
    assert partition.follow(2, 0) == len(batches[1])
    partition.truncate_fully(10)
    assert (partition.high_watermark, partition.log.log_end_offset) == (10, 10)
    assert partition.log.epochs.entries == ()


@pytest.mark.parametrize(("checkpoint", "expected"), [(0, 1), (2, 2), (9, 4)])
def test_a_replica_begins_with_the_watermark_that_was_written_down_as_far_as_its_log_goes(
    checkpoint: int, expected: int
) -> None:
    log, _ = leader_batches(4)
    log.delete_records(1)
    assert follower(checkpoint, log).high_watermark == expected
