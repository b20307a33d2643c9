"""One node's replica of one partition: what it may serve as leader or follower.

The log is below; here are the rules of a replica: leader epochs, which replicas are in sync, the high watermark, the
last stable offset. No I/O and no waiting: an append, a read and a follower's fetch are calls, and the replica
manager, through which every change comes, wakes the requests that wait for it. Times are monotonic seconds.

A leader knows its followers by their fetches alone: an offset that a follower fetches from is where its log ends.
From that it proposes who is in sync (`IsrChange`), and the controller decides (isr_changes.py). While a change is
pending the leader counts on the larger of both sets, the maximal ISR: whichever the controller has by now, a record
below the high watermark is on all of its members.

Invariants: the high watermark of a leader never goes back, and stands still while fewer replicas are in sync than
min.insync.replicas demands; one change of the ISR is pending at most; an older partition epoch changes nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from ottla._native.record_batch import Batch
from ottla.broker.log.guards import Guard
from ottla.broker.log.log import Appended, Log, Origin, Slice
from ottla.broker.metadata.image import PartitionImage
from ottla.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
    UnknownServerError,
)
from ottla.wire import Uuid
from ottla.wire.primitives import Buffer

ACKS_ALL: Final = -1
NO_EPOCH: Final = -1
UNKNOWN_OFFSET: Final = -1
NEVER_CAUGHT_UP: Final = -math.inf

PartitionKey = tuple[str, int]
"""Topic and index."""

IsEligible = Callable[[int, int], bool]
"""Whether a broker with this id and this epoch, -1 for an unknown one, may be in an ISR."""


class FetchTimes:
    """When a follower last fetched, for all partitions of its session at once.

    A partition in which nothing happens is not looked at again with every fetch; its follower keeps up all the same.
    """

    __slots__ = ("before", "latest")

    def __init__(self, latest: float = NEVER_CAUGHT_UP) -> None:
        self.latest = latest
        self.before = NEVER_CAUGHT_UP

    def fetched(self, now: float) -> None:
        self.before, self.latest = self.latest, now


class Follower:
    """Another replica, as its leader knows it from its fetches."""

    __slots__ = (
        "_caught_up_at",
        "_times",
        "broker_epoch",
        "fetched_at",
        "leader_end_at_fetch",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, caught_up_at: float) -> None:
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch = NO_EPOCH
        self.fetched_at = caught_up_at
        self.leader_end_at_fetch = 0
        self._caught_up_at = caught_up_at
        self._times: FetchTimes | None = None

    @property
    def caught_up_at(self) -> float:
        """When it last had all that the leader had."""
        if self._times is not None:
            return max(self._caught_up_at, self._times.latest)
        return self._caught_up_at

    def fetched(
        self, offset: int, log_start_offset: int, leader_end_offset: int, times: FetchTimes, broker_epoch: int
    ) -> None:
        """It has fetched from `offset`, when the leader's log ended at `leader_end_offset`."""
        now = times.latest
        if offset >= leader_end_offset:
            self._caught_up_at, self._times = max(self.caught_up_at, now), times
        else:
            # Of its session, this fetch is the first that finds it behind.
            caught_up_at = (
                max(self._caught_up_at, times.before) if times is self._times else self.caught_up_at
            )
            if offset >= self.leader_end_at_fetch:
                # It has all that the leader had at its last fetch.
                caught_up_at = max(caught_up_at, self.fetched_at)
            self._caught_up_at, self._times = caught_up_at, None
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.fetched_at = now
        self.leader_end_at_fetch = leader_end_offset
        self.broker_epoch = broker_epoch

    def keep(self, now: float, *, in_sync: bool) -> None:
        """Its leader goes on in a new epoch: it gets as much time as any other to fetch again."""
        self.leader_end_at_fetch = self.log_end_offset
        self.fetched_at = self._caught_up_at = now if in_sync else NEVER_CAUGHT_UP
        self._times = None

    def is_caught_up(self, leader_end_offset: int, now: float, max_lag: float) -> bool:
        return self.log_end_offset == leader_end_offset or now - self.caught_up_at <= max_lag


@dataclass(frozen=True, slots=True, eq=False)
class IsrChange:
    """What a leader proposes to the controller. One object for each try: its response counts for no other."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]


class Partition:
    """A replica. `topic`, `topic_id` and `index` never change; its role does."""

    def __init__(
        self,
        node_id: int,
        topic: str,
        topic_id: Uuid,
        index: int,
        log: Log,
        *,
        min_in_sync: int = 1,
        max_lag: float = 30.0,
        high_watermark: int = 0,
        is_eligible: IsEligible = lambda broker_id, broker_epoch: True,
    ) -> None:
        self.node_id = node_id
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.key: PartitionKey = (topic, index)
        self.log = log
        self.future: Log | None = None
        """The log in another directory of the node that is to take the place of this one (log_dir_moves.py)."""
        self.cut_to: int | None = None
        """The lowest offset to which the log was cut back while there is a future one, which has to follow."""
        self.image = PartitionImage((), (), -1, NO_EPOCH, -1)
        """As the controller has decided; ahead of the node's metadata after a change that this leader proposed."""
        self.min_in_sync = min_in_sync
        self.max_lag = max_lag
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        """Below it, every record is on all replicas in sync."""
        log.replicated_to(self.high_watermark)
        self.epoch_start_offset = UNKNOWN_OFFSET
        """Of a leader: where its log ended when it became one."""
        self.leading_since = NO_EPOCH
        """Of a leader: the epoch in which it became one; later epochs may have followed without a break."""
        self.pending: IsrChange | None = None
        self.followers: dict[int, Follower] = {}
        self.changes = 0
        """Counts what a reader might notice: who has seen all of it need not look again before it grows."""
        self._is_eligible = is_eligible
        # What has been appended above the high watermark: where it ends, and its size.
        self._uncommitted: deque[tuple[int, int]] = deque()

    # Roles

    def become(self, image: PartitionImage, now: float = 0.0) -> bool:
        """The controller has decided something about this partition; whether the leader or its epoch is another."""
        if image.partition_epoch < self.image.partition_epoch:
            return False  # this leader knows more already, by the response to a change of its own
        old, self.image = self.image, image
        self.pending = None
        self.changes += 1
        is_new_epoch = image.leader_epoch > old.leader_epoch
        if not self.is_leader:
            self.followers = {}
            self.epoch_start_offset = UNKNOWN_OFFSET
            return is_new_epoch or image.leader != old.leader
        if old.leader != self.node_id:
            self.leading_since = image.leader_epoch
        if is_new_epoch:
            self.log.epochs.assign(image.leader_epoch, self.log.log_end_offset)
            self.epoch_start_offset = self.log.log_end_offset
        self._count_followers(now, is_new_epoch=is_new_epoch, led_before=old.leader == self.node_id)
        return is_new_epoch

    def _count_followers(self, now: float, *, is_new_epoch: bool, led_before: bool) -> None:
        followers = {}
        for replica in self.image.replicas:
            if replica == self.node_id:
                continue
            in_sync = replica in self.image.isr
            known = self.followers.get(replica) if led_before else None
            if known is None:
                known = Follower(now if in_sync else NEVER_CAUGHT_UP)
            elif is_new_epoch:
                known.keep(now, in_sync=in_sync)
            followers[replica] = known
        self.followers = followers

    def retire(self) -> None:
        """The replica is no longer served here."""
        self.image = PartitionImage((), (), -1, self.leader_epoch, self.image.partition_epoch)
        self.pending = None
        self.changes += 1

    @property
    def leader_epoch(self) -> int:
        return self.image.leader_epoch

    @property
    def is_leader(self) -> bool:
        return self.image.leader == self.node_id

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.image.isr) < self.effective_min_isr

    @property
    def effective_min_isr(self) -> int:
        """A config cannot demand more replicas than the partition has."""
        return min(self.min_in_sync, len(self.image.replicas))

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """Every replica that may be in sync as far as the controller knows."""
        if self.pending is None:
            return self.image.isr
        return self.image.isr + tuple(each for each in self.pending.isr if each not in self.image.isr)

    @property
    def last_stable_offset(self) -> int:
        high_watermark, unstable = self.high_watermark, self.log.first_unstable_offset
        return high_watermark if unstable is None else min(unstable, high_watermark)

    # Checks

    def check_leader(self) -> None:
        if self.image.leader != self.node_id:
            raise NotLeaderOrFollowerError(topic=self.topic, partition=self.index, broker=self.node_id)

    def check_epoch(self, epoch: int) -> None:
        """A client says which epoch it believes to be the current one (KIP-320); -1 says nothing."""
        if epoch in (NO_EPOCH, self.image.leader_epoch):
            return
        error = FencedLeaderEpochError if epoch < self.leader_epoch else UnknownLeaderEpochError
        raise error(topic=self.topic, partition=self.index, broker=self.node_id)

    def check_follower(self, replica: int, broker_epoch: int, *, names_epoch: bool) -> None:
        """Only a replica replicates, and only the latest incarnation of its broker."""
        follower = self.followers.get(replica)
        if follower is None:
            # One that names the leader epoch may know of a change that this leader has not heard of.
            error = UnknownLeaderEpochError if names_epoch else NotLeaderOrFollowerError
            raise error(topic=self.topic, partition=self.index, broker=self.node_id)
        if NO_EPOCH < broker_epoch < follower.broker_epoch:
            raise NotLeaderOrFollowerError(topic=self.topic, partition=self.index, broker=self.node_id)

    # The leader

    def append(
        self,
        batch: Batch,
        acks: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        guard: Guard | None = None,
        transaction_version: int = 0,
    ) -> Appended:
        """Appends the batch of a producer, or of a coordinator."""
        self.check_leader()
        if acks == ACKS_ALL and self.is_under_min_isr:
            raise NotEnoughReplicasError(topic=self.topic, partition=self.index, broker=self.node_id)
        appended = self.log.append_as_leader(
            batch,
            self.image.leader_epoch,
            now_ms,
            origin=origin,
            guard=guard,
            transaction_version=transaction_version,
        )
        if not appended.duplicate:
            self._uncommitted.append((appended.last_offset + 1, batch.size))
            self.changes += 1
        return appended

    def follower_fetched(
        self, replica: int, offset: int, log_start_offset: int, times: FetchTimes, broker_epoch: int
    ) -> None:
        """A follower fetches from `offset`: so far has it come."""
        follower = self.followers[replica]
        follower.fetched(offset, log_start_offset, self.log.log_end_offset, times, broker_epoch)

    def commit(self, now: float) -> int:
        """Moves the high watermark as far as the replicas in sync have come; how many bytes it has passed, if any."""
        if self.image.leader != self.node_id or self.is_under_min_isr:
            return 0
        committed = self.log.log_end_offset
        if self.followers:
            maximal_isr = self.maximal_isr
            for replica, follower in self.followers.items():
                if follower.log_end_offset < committed and (
                    replica in maximal_isr or self._is_about_to_join(replica, follower, now)
                ):
                    committed = follower.log_end_offset
        return self._advance(committed)

    def _is_about_to_join(self, replica: int, follower: Follower, now: float) -> bool:
        """Waiting for it lets it join: a high watermark that always runs ahead of it would keep it out."""
        return follower.is_caught_up(self.log.log_end_offset, now, self.max_lag) and self._is_eligible(
            replica, follower.broker_epoch
        )

    def _advance(self, high_watermark: int) -> int:
        if high_watermark <= self.high_watermark:
            return 0
        self.high_watermark = high_watermark
        self.log.replicated_to(high_watermark)
        self.changes += 1
        passed = 0
        while self._uncommitted and self._uncommitted[0][0] <= high_watermark:
            passed += self._uncommitted.popleft()[1]
        return max(passed, 1)  # of what was in the log when it was opened, the sizes are not known

    def has_committed(self, offset: int) -> bool:
        """Whether everything below `offset` is on all replicas in sync."""
        return self.high_watermark >= offset

    @property
    def low_watermark(self) -> int:
        """Where the log begins on every replica whose broker is alive."""
        starts = [
            follower.log_start_offset
            for replica, follower in self.followers.items()
            if self._is_eligible(replica, NO_EPOCH)
        ]
        return min([self.log.log_start_offset, *starts])

    # Who is in sync

    def expand(self, replica: int) -> IsrChange | None:
        """The change that takes a follower in, if it has come far enough: up to where this leader began, at least."""
        follower = self.followers.get(replica)
        if (
            follower is None
            or self.pending is not None
            or replica in self.image.isr
            or follower.log_end_offset < max(self.high_watermark, self.epoch_start_offset)
            or not self._is_eligible(replica, follower.broker_epoch)
        ):
            return None
        return self._propose((*self.image.isr, replica))

    def shrink(self, now: float) -> IsrChange | None:
        """The change that drops the followers that have lagged for too long."""
        if not self.is_leader or self.pending is not None:
            return None
        end = self.log.log_end_offset
        staying = tuple(
            replica
            for replica in self.image.isr
            if replica == self.node_id
            or (replica in self.followers and self.followers[replica].is_caught_up(end, now, self.max_lag))
        )
        return None if len(staying) == len(self.image.isr) else self._propose(staying)

    def _propose(self, isr: tuple[int, ...]) -> IsrChange:
        epochs = tuple(
            NO_EPOCH if replica == self.node_id else self.followers[replica].broker_epoch for replica in isr
        )
        self.pending = IsrChange(self.image.leader_epoch, self.image.partition_epoch, isr, epochs)
        return self.pending

    def altered(
        self, change: IsrChange, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int
    ) -> bool:
        """The controller has made the change; whether that is news."""
        if self.pending is not change:
            return False
        self.pending = None
        if leader_epoch != self.image.leader_epoch or partition_epoch < self.image.partition_epoch:
            return False
        self.image = replace(self.image, isr=isr, partition_epoch=partition_epoch, recovering=False)
        self.changes += 1
        return True

    def refused(self, change: IsrChange) -> None:
        """The controller has refused the change because of a member: the ISR is what it was."""
        if self.pending is change:
            self.pending = None

    # The follower

    def append_as_follower(self, records: Buffer, leader_epoch: int, now_ms: int) -> int:
        """Appends what the leader has sent, in memory that the leader's log keeps; how many bytes that were."""
        appended = self.log.append_as_follower(records, now_ms, leader_epoch=leader_epoch, shared=True)
        if appended is None:
            return 0
        size = appended.size
        self._uncommitted.append((appended.last_offset + 1, size))
        self.changes += 1
        return size

    def follow(self, high_watermark: int, log_start_offset: int) -> int:
        """What the leader says of its own log holds here as far as this one goes; the bytes that were committed."""
        passed = self._advance(min(high_watermark, self.log.log_end_offset))
        if log_start_offset > self.log.log_start_offset:
            self.log.delete_records(min(log_start_offset, self.log.log_end_offset))
            self.changes += 1
        return passed

    def truncate_to(self, offset: int) -> None:
        """Drops what the leader does not have."""
        self.log.truncate_to(offset)
        self._cut(offset)

    def truncate_fully(self, start_offset: int) -> None:
        self.log.truncate_fully(start_offset)
        self._cut(start_offset)
        self.high_watermark = start_offset

    def _cut(self, offset: int) -> None:
        if self.future is not None:
            self.cut_to = offset if self.cut_to is None else min(offset, self.cut_to)
        end = self.log.log_end_offset
        while self._uncommitted and self._uncommitted[-1][0] > end:
            self._uncommitted.pop()
        self.high_watermark = min(self.high_watermark, end)
        self.changes += 1

    # Directories

    def move_to(self, log: Log) -> None:
        """Another log, which has all that the present one has, is the replica's from now on."""
        self.log, self.future, self.cut_to = log, None, None
        log.replicated_to(self.high_watermark)
        self.changes += 1

    # Readers

    def read(self, offset: int, max_bytes: int, *, committed: bool, at_least_one: bool) -> Slice:
        """What a consumer at `offset` may see."""
        upper = self.last_stable_offset if committed else self.high_watermark
        self._check_range(offset)
        return self.log.read(offset, max_bytes, upper, at_least_one=at_least_one)

    def fetch(self, offset: int, max_bytes: int, *, committed: bool, at_least_one: bool) -> Slice:
        """As `read`, in the form that Kafka's Fetch responses have."""
        upper = self.last_stable_offset if committed else self.high_watermark
        return self._fetch(offset, max_bytes, upper, at_least_one)

    def fetch_as_follower(self, offset: int, max_bytes: int, *, at_least_one: bool) -> Slice:
        """What a replica that fetches gets: all there is, whether or not it is committed."""
        return self._fetch(offset, max_bytes, self.log.log_end_offset, at_least_one)

    def _fetch(self, offset: int, max_bytes: int, upper: int, at_least_one: bool) -> Slice:
        self._check_range(offset)
        if max_bytes < 0 and offset < upper:
            # As in Kafka, which has no other response to it.
            raise UnknownServerError(f"a limit of {max_bytes} bytes")
        return self.log.fetch(offset, max_bytes, upper, at_least_one=at_least_one)

    def _check_range(self, offset: int) -> None:
        # Above the high watermark there is nothing to see yet, but it is not out of range: it may have moved back.
        if not self.log.log_start_offset <= offset <= self.log.log_end_offset:
            raise OffsetOutOfRangeError(topic=self.topic, partition=self.index, broker=self.node_id)

    def delete_records(self, before: int) -> int:
        """Moves the log's start; -1 stands for the high watermark. The new start."""
        self.check_leader()
        target = self.high_watermark if before == -1 else before
        if not 0 <= target <= self.high_watermark:
            raise OffsetOutOfRangeError(topic=self.topic, partition=self.index, broker=self.node_id)
        self.log.delete_records(target)
        self.changes += 1
        return target
