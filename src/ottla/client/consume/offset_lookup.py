"""Offset lookups: ListOffsets, for cursors that have no offset yet, have lost theirs, or are to stop somewhere.

Grouped by leader, one request per leader at a time. What is pending stays pending until it has a response: if a
session stops in between, the next one goes on with it. What an offset means for its cursor is the session's.

Invariant: a cursor that is LOADING has an entry in `pending`; -1 is never taken for an offset.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from ottla.client.consume.cursor import Cursor, State
from ottla.client.consume.offset_spec import LATEST, OffsetSpec
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ClientClosedError, KafkaError, from_code
from ottla.wire.messages import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from ottla.client.consume.context import ConsumerContext, CursorOwner

_CONSUMER: Final = -1


class Goal(Enum):
    START = "start"
    RESET = "reset"
    STOP = "stop"
    FIRST = "the first offset there is"
    LAST = "the last, to say that `old` is not between them"


@dataclass(frozen=True, slots=True)
class Lookup:
    """An offset spec, and what for; `old` and `reason` are for the hooks that are notified of a reset."""

    spec: OffsetSpec
    goal: Goal
    reason: str = ""
    old: int = -1


class OffsetLookups:
    """The lookups of one consumer."""

    def __init__(self, context: ConsumerContext, owner: CursorOwner) -> None:
        self.pending: dict[TopicPartition, list[Lookup]] = {}
        self._context = context
        self._clock = context.runtime.clock
        self._owner = owner
        self._requested: dict[TopicPartition, None] = {}
        self._awake = asyncio.Event()
        self.wake = self._awake.set
        """Has `run` look again."""

    def add(self, cursor: Cursor, *lookups: Lookup) -> None:
        """They are done in this order; a spec that is an offset needs no request."""
        cursor.load()
        self.pending[cursor.tp] = list(lookups)
        self._requested.pop(cursor.tp, None)
        self._settle(cursor)
        self.wake()

    def seek(self, cursor: Cursor, spec: OffsetSpec) -> None:
        """Another start; where to stop is still to be found."""
        stops = [lookup for lookup in self.pending.get(cursor.tp, ()) if lookup.goal is Goal.STOP]
        self.add(cursor, *stops, Lookup(spec, Goal.START))

    def drop(self, tp: TopicPartition) -> None:
        self.pending.pop(tp, None)
        self._requested.pop(tp, None)

    async def run(self) -> None:
        """One session's worth of it; cancelled at its end."""
        self._requested.clear()
        while True:
            now = self._clock.monotonic()
            for leader, group in self._due(now).items():
                self._owner.spawn(self._look_up(leader, group), f"list offsets of broker {leader}")
            next_at = self._next_retry(now)
            timer = None if next_at is None else self._clock.call_later(next_at - now, self.wake)
            try:
                await self._awake.wait()
            finally:
                if timer is not None:
                    timer.cancel()
            self._awake.clear()

    def _due(self, now: float) -> dict[int, list[tuple[Cursor, Lookup]]]:
        groups: dict[int, list[tuple[Cursor, Lookup]]] = {}
        for tp, lookups in self.pending.items():
            cursor = self._owner.cursors.get(tp)
            if cursor is None or cursor.state is not State.LOADING or tp in self._requested:
                continue
            if cursor.leader >= 0 and cursor.not_before <= now:
                self._requested[tp] = None
                groups.setdefault(cursor.leader, []).append((cursor, lookups[0]))
        return groups

    def _next_retry(self, now: float) -> float | None:
        waiting = (self._owner.cursors[tp].not_before for tp in self.pending if tp in self._owner.cursors)
        return min((time for time in waiting if time > now), default=None)

    async def _look_up(self, leader: int, group: list[tuple[Cursor, Lookup]]) -> None:
        try:
            broker = self._context.brokers.get(leader)
            response = await broker.request(self._request(group))
        except ClientClosedError:
            raise
        except KafkaError as error:
            self._context.metadata.refresh_now(f"broker {leader} did not respond to ListOffsets: {error}")
            for cursor, lookup in group:
                if self._is_current(cursor, lookup):
                    self._owner.retry_later(cursor, error)
        else:
            assert isinstance(response, ListOffsetsResponse)
            self._receive(leader, group, response)
        finally:
            for cursor, lookup in group:
                # Also of one that has failed: once the reader has raised that, it is requested again.
                if self._is_next(cursor, lookup):
                    self._requested.pop(cursor.tp, None)
            self.wake()

    def _is_current(self, cursor: Cursor, lookup: Lookup) -> bool:
        return cursor.state is State.LOADING and self._is_next(cursor, lookup)

    def _is_next(self, cursor: Cursor, lookup: Lookup) -> bool:
        pending = self.pending.get(cursor.tp)
        is_known = self._owner.cursors.get(cursor.tp) is cursor
        return is_known and pending is not None and pending[0] is lookup

    def _request(self, group: list[tuple[Cursor, Lookup]]) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsRequest.ListOffsetsTopic] = {}
        for cursor, lookup in group:
            assert lookup.spec.timestamp is not None
            if cursor.topic not in topics:
                topics[cursor.topic] = ListOffsetsRequest.ListOffsetsTopic(name=cursor.topic, partitions=[])
            topics[cursor.topic].partitions.append(
                ListOffsetsRequest.ListOffsetsPartition(
                    partition_index=cursor.partition,
                    current_leader_epoch=cursor.required_epoch,
                    timestamp=lookup.spec.timestamp,
                )
            )
        return ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=self._context.isolation_level,
            topics=list(topics.values()),
            timeout_ms=self._context.config.request_timeout_ms,
        )

    def _receive(
        self, leader: int, group: list[tuple[Cursor, Lookup]], response: ListOffsetsResponse
    ) -> None:
        requested = {cursor.tp: (cursor, lookup) for cursor, lookup in group}
        for topic in response.topics:
            for found in topic.partitions:
                entry = requested.pop(TopicPartition(topic.name, found.partition_index), None)
                if entry is not None and self._is_current(*entry):
                    self._found(leader, *entry, found)
        for cursor, lookup in requested.values():
            if self._is_current(cursor, lookup):
                self._owner.retry_later(
                    cursor, KafkaError(f"{cursor.tp}: broker {leader} left it out of its response")
                )

    def _found(
        self,
        leader: int,
        cursor: Cursor,
        lookup: Lookup,
        found: ListOffsetsResponse.ListOffsetsPartitionResponse,
    ) -> None:
        error = from_code(found.error_code, topic=cursor.topic, partition=cursor.partition, broker=leader)
        if error is not None:
            self._owner.refused(cursor, error)
        elif found.offset >= 0:
            cursor.clear_backoff()
            self._resolved(cursor, found.offset)
        elif lookup.spec != LATEST:
            # No record is as young as that: the next one to come will be.
            self.pending[cursor.tp][0] = Lookup(LATEST, lookup.goal, lookup.reason, lookup.old)
            self._requested.pop(cursor.tp, None)
        else:
            self._owner.retry_later(cursor, KafkaError(f"{cursor.tp}: broker {leader} knows no end of it"))

    def _resolved(self, cursor: Cursor, offset: int) -> None:
        """The first of the pending lookups has led to an offset."""
        lookups = self.pending[cursor.tp]
        self._requested.pop(cursor.tp, None)
        self._owner.found(cursor, lookups.pop(0), offset)
        self._settle(cursor)

    def _settle(self, cursor: Cursor) -> None:
        """Does what needs no request; without anything left, the cursor can be fetched."""
        lookups = self.pending.get(cursor.tp)
        if lookups is None:
            return  # a hook that was notified of a reset has sought
        while lookups and (offset := lookups[0].spec.offset) is not None:
            self._owner.found(cursor, lookups.pop(0), offset)
        if not lookups:
            del self.pending[cursor.tp]
