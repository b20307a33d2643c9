"""Cursor: how far one partition has been fetched, from which broker, and whether it may be fetched now.

    UNSET      no offset yet, and no lookup for one
    LOADING    an offset is being looked up (offset_lookup.py)
    USABLE     the next fetch of its source includes it
    IN_FLIGHT  a fetch with it is pending
    BUFFERED   its data waits for the reader, in a response that the reader has not begun
    FAILED     an error waits for the reader; nothing is fetched until the reader has raised it
    DONE       its `stop` is reached, or its topic is gone

Paused is not a state but a flag: it holds in every state, and only keeps USABLE ones out of fetches.

A pure state machine: time comes in as a number, and it neither waits nor sends. `receive` says what a response has
brought: records, nothing, or a problem that the session solves. The reader's position, behind the last record that
was handed out, is not here (reader.py).

Invariants: every change of `state` goes through a method below, which checks what it comes from. `flight` grows
whenever what is pending no longer counts, so a response is taken only by the cursor that still waits for it;
`generation` grows whenever the reader must not see what was fetched before. -1 is never adopted as an offset, nor as
a leader epoch in place of one that is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from ottla.client.consume.fetch_session import FetchPosition
from ottla.client.consume.partition_records import BatchHeaders, PartitionRecords, ReaderPosition
from ottla.client.topic_partition import TopicPartition
from ottla.errors import BrokerError, from_code
from ottla.wire import Uuid
from ottla.wire.messages import FetchResponse
from ottla.wire.templates import Fetched

NO_LEADER: Final = -1
"""The leader of a partition that has none."""
UNKNOWN: Final = -1

_GUESSED_SIZE: Final = 128.0
"""Bytes that an offset takes, before anything was seen: a small record in a batch of many."""
_MARGIN: Final = 1.25
_LEAST_FETCH: Final = 1024 * 1024
"""Kafka's own default: a second request costs more than to receive this."""


class State(Enum):
    UNSET = "unset"
    LOADING = "loading"
    USABLE = "usable"
    IN_FLIGHT = "in flight"
    BUFFERED = "buffered"
    FAILED = "failed"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class FetchRefused:
    """The response has an error for it."""

    error: BrokerError


@dataclass(frozen=True, slots=True)
class LogDiverged:
    """The leader's log took another way, at this offset: what was consumed behind it is gone (KIP-320, KIP-595).

    A request names the epoch of the last batch that was consumed; that is how the leader knows.
    """

    end_offset: int


@dataclass(frozen=True, slots=True)
class ReplicaPreferred:
    """The leader knows a replica that is nearer (KIP-392)."""

    replica: int


@dataclass(frozen=True, slots=True)
class NoWholeBatch:
    """So many bytes came, and none of them can be read."""

    size: int


FetchProblem: TypeAlias = FetchRefused | LogDiverged | ReplicaPreferred | NoWholeBatch


class Readiness(NamedTuple):
    """Which cursors of a source can be fetched now."""

    ready: list[Cursor]
    elsewhere: list[Cursor]
    """Those whose time at a preferred replica is over: they belong to the source of their leader."""
    next_at: float | None
    """When one of the others may be ready, as far as time decides that."""


def readiness(cursors: Iterable[Cursor], node_id: int, now: float) -> Readiness:
    """One look at every cursor of the source of this broker."""
    ready: list[Cursor] = []
    elsewhere: list[Cursor] = []
    next_at: float | None = None
    for cursor in cursors:
        if cursor.preferred_replica >= 0:
            if cursor.fetch_node(now) != node_id:
                cursor.back_to_leader()
                elsewhere.append(cursor)
                continue
            if cursor.preferred_until <= now:
                cursor.back_to_leader()
            elif next_at is None or cursor.preferred_until < next_at:
                next_at = cursor.preferred_until
        if cursor.not_before > now:
            if next_at is None or cursor.not_before < next_at:
                next_at = cursor.not_before
        elif cursor.state is State.USABLE and not cursor.paused:
            ready.append(cursor)
    return Readiness(ready, elsewhere, next_at)


class Cursor:
    """One partition's."""

    __slots__ = (
        "_bytes_per_offset",
        "_retry_as",
        "attempts",
        "began_at",
        "began_epoch",
        "flight",
        "generation",
        "high_watermark",
        "last_consumed_epoch",
        "last_stable_offset",
        "leader",
        "leader_epoch",
        "log_start_offset",
        "not_before",
        "offset",
        "partition",
        "paused",
        "preferred_replica",
        "preferred_until",
        "state",
        "stop",
        "topic",
        "topic_id",
        "tp",
    )

    def __init__(self, tp: TopicPartition, topic_id: Uuid, *, generation: int = 0) -> None:
        self.tp = tp
        self.topic = tp.topic
        self.partition = tp.partition
        self.topic_id = topic_id
        self.state = State.UNSET
        self.paused = False
        self.generation = generation
        self.flight = 0
        self.offset = UNKNOWN
        self.began_at = UNKNOWN
        """The offset that was looked up or sought last: where a reader is that has read nothing since."""
        self.began_epoch = UNKNOWN
        """The leader epoch of what lies before it, where a commit has said it."""
        self.last_consumed_epoch = UNKNOWN
        self.leader = NO_LEADER
        self.leader_epoch = UNKNOWN
        self.preferred_replica = NO_LEADER
        self.preferred_until = 0.0
        self.high_watermark = UNKNOWN
        self.last_stable_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.stop: int | None = None
        self.not_before = 0.0
        self.attempts = 0
        self._retry_as = State.USABLE
        self._bytes_per_offset = _GUESSED_SIZE

    def __repr__(self) -> str:
        return f"Cursor({self.tp} {self.state.value} at {self.offset}, leader {self.leader})"

    # The broker that serves it

    def fetch_node(self, now: float) -> int:
        """The broker to fetch from: the preferred replica while that holds (KIP-392), else the leader."""
        if self.preferred_replica >= 0 and self.leader >= 0 and now < self.preferred_until:
            return self.preferred_replica
        return self.leader

    def follow(self, leader: int, epoch: int) -> bool:
        """What metadata says; whether the leader changed. An older epoch than the known one is ignored."""
        if 0 <= epoch < self.leader_epoch:
            return False
        if epoch >= 0:
            self.leader_epoch = epoch
        if leader == self.leader:
            return False
        self.leader = leader
        self.back_to_leader()
        self._drop_flight()
        return True

    def become(self, topic_id: Uuid) -> None:
        """The partition of another topic with the same name: nothing that is known holds for it."""
        self.topic_id = topic_id
        self.leader_epoch = UNKNOWN
        self.high_watermark = self.last_stable_offset = self.log_start_offset = UNKNOWN

    def prefer(self, replica: int, until: float) -> None:
        self.preferred_replica = replica
        self.preferred_until = until

    def back_to_leader(self) -> bool:
        """Whether it was elsewhere."""
        was_away = self.preferred_replica >= 0
        self.preferred_replica = NO_LEADER
        return was_away

    # Offsets

    @property
    def has_offset(self) -> bool:
        return self.state not in (State.UNSET, State.LOADING) and self.offset >= 0

    @property
    def began(self) -> ReaderPosition:
        return ReaderPosition(self.began_at, self.began_epoch, self.topic_id)

    @property
    def required_epoch(self) -> int:
        """What requests name as the leader's epoch: one that leads in an older epoch refuses them.

        A record has the epoch of the leader that wrote it. Where metadata knows an older one it is out of date, and
        what the leader of that time says of an offset does not count (KIP-320).
        """
        return max(self.leader_epoch, self.last_consumed_epoch) if self.leader_epoch >= 0 else UNKNOWN

    def end(self, committed: bool) -> int:
        """How far records can be read; -1 while no fetch has said it."""
        return self.last_stable_offset if committed else self.high_watermark

    def load(self) -> None:
        """An offset is looked up; the fetch that is pending does not count any more."""
        self._drop_flight()
        self.state = State.LOADING

    def loaded(self, offset: int, epoch: int = UNKNOWN) -> None:
        """The offset that was looked for, and the epoch of what was consumed before it, where a commit says it."""
        self._expect(State.LOADING, State.UNSET)
        self._set_offset(offset, epoch)

    def rewind(self, offset: int, epoch: int) -> None:
        """Data that was buffered is discarded: it will be fetched again."""
        self._drop_flight()
        self._set_offset(offset, epoch)

    def _set_offset(self, offset: int, epoch: int) -> None:
        if offset < 0:
            raise ValueError(f"{self.tp}: {offset} is no offset")
        self.offset = self.began_at = offset
        self.last_consumed_epoch = self.began_epoch = epoch
        self._make_usable()

    # Fetches

    def fetch(self, node_id: int, *, has_epochs: bool, most: int) -> FetchPosition:
        """A fetch with it is sent to this broker: what the request says. `flight` recognizes its response.

        `has_epochs`: the version has a field for the epoch that was consumed last.
        """
        if self.state is not State.USABLE:
            self._expect(State.USABLE)
        self.state = State.IN_FLIGHT
        self.flight += 1
        # A follower may lag behind what its leader has given us, which would look like a truncation; and without the
        # leader's epoch the broker does not check that it is the leader.
        is_checked = has_epochs and node_id == self.leader and self.leader_epoch >= 0
        return FetchPosition(
            self.topic,
            self.topic_id,
            self.partition,
            self.offset,
            self.required_epoch,
            self.last_consumed_epoch if is_checked else UNKNOWN,
            most if self.stop is None else self.fetch_bytes(most),
        )

    def awaits(self, flight: int) -> bool:
        """Whether the response to that fetch still counts."""
        return self.state is State.IN_FLIGHT and self.flight == flight

    def receive(
        self,
        data: FetchResponse.PartitionData | Fetched,
        headers: BatchHeaders | None,
        node_id: int,
        now: float,
        *,
        committed: bool,
    ) -> PartitionRecords | FetchProblem | None:
        """What the response says of it, for a cursor that awaits it: records, which are buffered then, or a problem.

        `headers` are those of its records, if it has any. Afterwards it is not in flight, but for a problem that the
        session solves by a rewind or a failure.
        """
        self.update(data.high_watermark, data.last_stable_offset, data.log_start_offset)
        if data.error_code:
            error = from_code(data.error_code, topic=self.topic, partition=self.partition, broker=node_id)
            assert error is not None
            self.release()
            return FetchRefused(error)
        if data.diverging_epoch is not None and data.diverging_epoch.end_offset >= 0:
            return LogDiverged(data.diverging_epoch.end_offset)
        if not data.records or headers is None:
            self.release()
            if data.preferred_read_replica >= 0:
                return ReplicaPreferred(data.preferred_read_replica)
            self.clear_backoff()
            return None
        next_offset, epoch, count, size = headers
        if next_offset <= self.offset:
            return NoWholeBatch(len(data.records))
        aborted = None
        if committed:
            aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
        records = PartitionRecords(
            self.tp,
            data.records[:size],
            offset=self.offset,
            next_offset=next_offset,
            epoch_before=self.last_consumed_epoch,
            generation=self.generation,
            position=self.offset,
            end=next_offset if self.stop is None else min(next_offset, self.stop),
            topic_id=self.topic_id,
            epoch=epoch,
            count=count,
            aborted=aborted,
            high_watermark=data.high_watermark,
            node_id=node_id,
            read_at=now,
        )
        if self.stop is not None:
            self.measure(size, next_offset - self.offset)
        self.buffer(next_offset, epoch)
        return records

    def release(self) -> None:
        """The fetch brought nothing."""
        self._expect(State.IN_FLIGHT)
        self._make_usable()

    def update(self, high_watermark: int, last_stable_offset: int, log_start_offset: int) -> None:
        if high_watermark >= 0:
            self.high_watermark = high_watermark
        if last_stable_offset >= 0:
            self.last_stable_offset = last_stable_offset
        if log_start_offset >= 0:
            self.log_start_offset = log_start_offset

    def buffer(self, next_offset: int, epoch: int) -> None:
        """The fetch brought records up to `next_offset`, the last of them from `epoch`."""
        if self.state is not State.IN_FLIGHT:
            self._expect(State.IN_FLIGHT)
        if next_offset <= self.offset:
            raise ValueError(f"{self.tp}: fetched from {self.offset} to {next_offset}")
        self.offset = next_offset
        # Unlike a leader's epoch, -1 is taken: the batch is of a log that has none, and comparing the epoch of an
        # older batch with an offset behind this one would look like a truncation.
        self.last_consumed_epoch = epoch
        self.state = State.BUFFERED
        self.clear_backoff()

    def begun(self) -> None:
        """The reader has begun the response that holds its data: the next part may be fetched."""
        if self.state is not State.BUFFERED:
            self._expect(State.BUFFERED)
        self._make_usable()

    def _make_usable(self) -> None:
        reached = self.stop is not None and self.offset >= self.stop
        self.state = State.DONE if reached else State.USABLE

    # How much

    def measure(self, size: int, offsets: int) -> None:
        """So many bytes held so many offsets: what comes next is taken to be like that."""
        self._bytes_per_offset = size / offsets

    def fetch_bytes(self, most: int) -> int:
        """How much to request: no more than what lies before the stop, as far as that is known."""
        if self.stop is None:
            return most
        expected = int((self.stop - self.offset) * self._bytes_per_offset * _MARGIN)
        return min(most, max(_LEAST_FETCH, expected))

    # Errors

    def back_off(self, until: float) -> None:
        self.not_before = until
        self.attempts += 1

    def clear_backoff(self) -> None:
        self.not_before = 0.0
        self.attempts = 0

    def fail(self) -> None:
        """An error that the reader raises."""
        if self.state is not State.FAILED:
            self._retry_as = State.LOADING if self.state in (State.LOADING, State.UNSET) else State.USABLE
        self._drop_flight()
        self.state = State.FAILED

    def retry(self) -> bool:
        """The reader has raised the error; whether an offset has to be looked up (again) first."""
        self._expect(State.FAILED)
        if self._retry_as is State.LOADING:
            self.state = State.LOADING
            return True
        self._make_usable()
        return False

    def finish(self) -> None:
        self._drop_flight()
        self.state = State.DONE

    def _drop_flight(self) -> None:
        """What is buffered is not pending: it still counts, and is recognized by the same number."""
        if self.state is State.IN_FLIGHT:
            self.flight += 1
            self.state = State.USABLE

    def _expect(self, *states: State) -> None:
        if self.state not in states:
            expected = " or ".join(state.value for state in states)
            raise RuntimeError(f"{self!r}: this cursor should be {expected}")
