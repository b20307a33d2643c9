"""Offset lookups: ListOffsets, for cursors that have no offset yet, have lost theirs, or are to stop somewhere.

Grouped by leader, one request per leader at a time. What is pending stays pending until it has an answer: if a
session stops in between, the next one goes on with it.

Invariant: a cursor that is LOADING has an entry in `pending`; -1 is never taken for an offset.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from ottla.client.consume.cursor import Cursor, State
from ottla.client.consume.fetch_errors import Remedy, remedy_for
from ottla.client.consume.offset_spec import LATEST, OffsetSpec
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ClientClosedError, KafkaError, from_code
from ottla.wire.messages import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from ottla.client.consume.session import Session

_logger = logging.getLogger("ottla.client.consume.consumer")

_CONSUMER: Final = -1


class Goal(Enum):
    START = "start"
    RESET = "reset"
    STOP = "stop"
    FIRST = "the first offset there is"
    LAST = "the last, to tell that `old` is not between them"


@dataclass(frozen=True, slots=True)
class Lookup:
    """A place, and what for; `old` and `reason` are for those who are told of a reset."""

    place: OffsetSpec
    goal: Goal
    reason: str = ""
    old: int = -1


class OffsetLookups:
    """The lookups of one consumer."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.pending: dict[TopicPartition, list[Lookup]] = {}
        self._asked: dict[TopicPartition, None] = {}
        self._alarm = session.alarm()

    def add(self, cursor: Cursor, *lookups: Lookup) -> None:
        """They are done in this order; a place that is an offset needs nobody to be asked."""
        cursor.load()
        self.pending[cursor.tp] = list(lookups)
        self._asked.pop(cursor.tp, None)
        self._settle(cursor)
        self.wake()

    def seek(self, cursor: Cursor, place: OffsetSpec) -> None:
        """Another start; where to stop is still to be found."""
        stops = [lookup for lookup in self.pending.get(cursor.tp, ()) if lookup.goal is Goal.STOP]
        self.add(cursor, *stops, Lookup(place, Goal.START))

    def drop(self, tp: TopicPartition) -> None:
        self.pending.pop(tp, None)
        self._asked.pop(tp, None)

    def wake(self) -> None:
        self._alarm.ring()

    async def run(self) -> None:
        """One session's worth of it; cancelled at its end."""
        self._asked.clear()
        while True:
            for leader, group in self._due().items():
                self._session.spawn(self._ask(leader, group), f"list offsets of broker {leader}")
            await self._alarm.wait(self._next_retry())

    def _due(self) -> dict[int, list[tuple[Cursor, Lookup]]]:
        now = self._session.now()
        groups: dict[int, list[tuple[Cursor, Lookup]]] = {}
        for tp, lookups in self.pending.items():
            cursor = self._session.cursors.get(tp)
            if cursor is None or cursor.state is not State.LOADING or tp in self._asked:
                continue
            if cursor.leader >= 0 and cursor.not_before <= now:
                self._asked[tp] = None
                groups.setdefault(cursor.leader, []).append((cursor, lookups[0]))
        return groups

    def _next_retry(self) -> float | None:
        now = self._session.now()
        waiting = (self._session.cursors[tp].not_before for tp in self.pending if tp in self._session.cursors)
        return min((time for time in waiting if time > now), default=None)

    async def _ask(self, leader: int, group: list[tuple[Cursor, Lookup]]) -> None:
        session = self._session
        try:
            broker = session.brokers.get(leader)
            response = await broker.request(self._request(group))
        except ClientClosedError:
            raise
        except KafkaError as error:
            session.metadata.refresh_now(f"broker {leader} did not answer ListOffsets: {error}")
            for cursor, lookup in group:
                if self._is_current(cursor, lookup):
                    session.trouble(cursor, error)
        else:
            assert isinstance(response, ListOffsetsResponse)
            self._answered(leader, group, response)
        finally:
            for cursor, lookup in group:
                # Also of one that has failed: once the reader was told, it is asked for again.
                if self._is_next(cursor, lookup):
                    self._asked.pop(cursor.tp, None)
            self.wake()

    def _is_current(self, cursor: Cursor, lookup: Lookup) -> bool:
        return cursor.state is State.LOADING and self._is_next(cursor, lookup)

    def _is_next(self, cursor: Cursor, lookup: Lookup) -> bool:
        pending = self.pending.get(cursor.tp)
        is_known = self._session.cursors.get(cursor.tp) is cursor
        return is_known and pending is not None and pending[0] is lookup

    def _request(self, group: list[tuple[Cursor, Lookup]]) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsRequest.ListOffsetsTopic] = {}
        for cursor, lookup in group:
            assert lookup.place.timestamp is not None
            if cursor.topic not in topics:
                topics[cursor.topic] = ListOffsetsRequest.ListOffsetsTopic(name=cursor.topic, partitions=[])
            topics[cursor.topic].partitions.append(
                ListOffsetsRequest.ListOffsetsPartition(
                    partition_index=cursor.partition,
                    current_leader_epoch=cursor.leader_epoch,
                    timestamp=lookup.place.timestamp,
                )
            )
        return ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=self._session.isolation_level,
            topics=list(topics.values()),
            timeout_ms=self._session.config.request_timeout_ms,
        )

    def _answered(
        self, leader: int, group: list[tuple[Cursor, Lookup]], response: ListOffsetsResponse
    ) -> None:
        asked = {cursor.tp: (cursor, lookup) for cursor, lookup in group}
        for topic in response.topics:
            for found in topic.partitions:
                entry = asked.pop(TopicPartition(topic.name, found.partition_index), None)
                if entry is not None and self._is_current(*entry):
                    self._found(leader, *entry, found)
        for cursor, lookup in asked.values():
            if self._is_current(cursor, lookup):
                self._session.trouble(
                    cursor, KafkaError(f"{cursor.tp}: broker {leader} left it out of its answer")
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
            self._refused(cursor, error)
        elif found.offset >= 0:
            cursor.clear_backoff()
            self._resolved(cursor, found.offset)
        elif lookup.place != LATEST:
            # No record is as young as that: the next one to come will be.
            self.pending[cursor.tp][0] = Lookup(LATEST, lookup.goal, lookup.reason, lookup.old)
            self._asked.pop(cursor.tp, None)
        else:
            self._session.trouble(cursor, KafkaError(f"{cursor.tp}: broker {leader} knows no end of it"))

    def _refused(self, cursor: Cursor, error: KafkaError) -> None:
        remedy = remedy_for(error)
        if remedy is Remedy.RAISE:
            self._session.fail(cursor, error)
            return
        if remedy is Remedy.REFRESH:
            self._session.metadata.refresh_now(str(error))
        self._session.trouble(cursor, error)

    def _resolved(self, cursor: Cursor, offset: int) -> None:
        """The first of the pending lookups has its answer."""
        lookups = self.pending[cursor.tp]
        self._asked.pop(cursor.tp, None)
        self._apply(cursor, lookups.pop(0), offset)
        self._settle(cursor)

    def _settle(self, cursor: Cursor) -> None:
        """Does what needs no answer; without anything left, the cursor can be fetched."""
        lookups = self.pending.get(cursor.tp)
        if lookups is None:
            return  # a hook that was told of a reset has sought
        while lookups and (offset := lookups[0].place.offset) is not None:
            self._apply(cursor, lookups.pop(0), offset)
        if not lookups:
            del self.pending[cursor.tp]

    def _apply(self, cursor: Cursor, lookup: Lookup, offset: int) -> None:
        if lookup.goal is Goal.STOP:
            cursor.stop = offset
            return
        if lookup.goal is Goal.FIRST:
            cursor.update(-1, -1, offset)
            return
        if lookup.goal is Goal.LAST:
            cursor.update(offset, -1, -1)
            cursor.loaded(lookup.old)
            self._session.out_of_range(cursor, lookup.reason)
            return
        cursor.loaded(offset)
        if lookup.goal is Goal.RESET:
            _logger.warning("%s: goes on at %d: %s", cursor.tp, offset, lookup.reason)
            self._session.moved(cursor)
            self._session.tell_reset(cursor, lookup.old, offset, lookup.reason)
        self._session.loaded(cursor)
