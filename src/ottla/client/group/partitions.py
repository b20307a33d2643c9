"""OwnedPartitions: what happens when a group gives a member partitions, and when it takes them away.

Given: where each begins is fetched from the group, the cursors are made, the program is told, and then they are
fetched. Taken: the reader hands out nothing more of them, what the program is done with is committed, the program is
told, and the cursors go. Both protocols do it alike, and never two of these at once.

Not here: which partitions (classic.py, consumer_protocol.py).

Invariants: nothing that was fetched before a partition was taken is seen after it. What is lost is not committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from ottla.client.backoff import Backoff
from ottla.client.consume.fetch_queue import Failure
from ottla.client.consume.offset_spec import EARLIEST, LATEST, OffsetSpec
from ottla.client.consume.partition_records import ReaderPosition
from ottla.client.group.commits import Commits
from ottla.client.group.membership import Membership, MembershipState
from ottla.client.group.offsets import OffsetAndMetadata
from ottla.client.group.reactions import Reaction, after_offset_fetch
from ottla.client.topic_partition import TopicPartition
from ottla.errors import BrokerError, KafkaError

if TYPE_CHECKING:
    from ottla.client.consume.context import ConsumerContext
    from ottla.client.consume.fetch_queue import FetchQueue
    from ottla.client.consume.reader import Reader
    from ottla.client.consume.session import Session
    from ottla.client.group.assignment import GroupAssignment
    from ottla.client.group.callbacks import RebalanceCallbacks
    from ottla.client.group.polling import Polling
    from ottla.client.group.topics import SubscribedTopics

_logger = logging.getLogger("ottla.client.group")


class PartitionGuard(Protocol):
    """What must not lose partitions at any moment: a transaction that commits what was read of them."""

    async def released(self) -> None:
        """Until partitions may be given up."""

    def taken(self) -> None:
        """Some are gone: nothing more of them is handed out."""


class OwnedPartitions:
    """Of one member, on the loop."""

    def __init__(
        self,
        context: ConsumerContext,
        membership: Membership,
        *,
        owned: dict[TopicPartition, None],
        reader: Reader,
        queue: FetchQueue,
        session: Session,
        assignment: GroupAssignment,
        topics: SubscribedTopics,
        commits: Commits,
        callbacks: RebalanceCallbacks,
        polling: Polling,
        start: OffsetSpec | None,
    ) -> None:
        """`start` is where a partition begins for which nothing is committed; None is nowhere."""
        config = context.config
        self.owned = owned
        self._announced: dict[TopicPartition, None] = {}
        """Those that the program has been told of."""
        self._hooks = context.hooks
        self._metadata = context.metadata
        self._clock = context.runtime.clock
        self._tasks = context.tasks
        self._membership = membership
        self._reader = reader
        self._queue = queue
        self._session = session
        self._assignment = assignment
        self._topics = topics
        self._commits = commits
        self._callbacks = callbacks
        self._polling = polling
        self._start = start
        self._auto_commits = config.enable_auto_commit
        self._only_marked = config.auto_commit_marks
        self._seconds = config.max_poll_interval_ms / 1000
        self._backoff = Backoff(
            config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, context.runtime.random
        )
        self.marked: dict[TopicPartition, OffsetAndMetadata] = {}
        self._said: dict[TopicPartition, ReaderPosition] = {}
        """What the program has committed itself: auto-commit does not go back behind it."""
        self._has_epochs = config.group_protocol == "consumer"
        """Whether the coordinator checks, by KIP-848, in which epoch a member reads offsets."""
        self._placing: asyncio.Task[None] | None = None
        self._is_failure_due = False
        """Whether the program has yet to hear that its group's offsets cannot be read."""
        self.guard: PartitionGuard | None = None
        self.purged: dict[TopicPartition, None] = {}
        """Partitions of topics that the program has purged: they are given up next."""
        self._waiters: dict[asyncio.Future[None], None] = {}

    # Given

    def give(self, partitions: Iterable[TopicPartition]) -> None:
        """They are owned from now on. Where they begin is found out beside the heartbeats."""
        for tp in partitions:
            # Given before the group has heard that the program has purged the topic.
            if not self._topics.is_purged(tp.topic):
                self.owned[tp] = None
                self._commits.regained()
        waiting = [tp for tp in self.owned if tp not in self._announced]
        if waiting and self._placing is None:
            self._placing = self._tasks.spawn(self._place(waiting), "place a group's partitions")

    async def _place(self, partitions: list[TopicPartition]) -> None:
        offsets = await self._committed(partitions)
        while self._commits.of_former_topics(offsets):
            offsets = await self._committed(partitions)
        starts: dict[TopicPartition, OffsetSpec | None] = {}
        for tp, committed in offsets.items():
            if committed is not None:
                starts[tp] = OffsetSpec(committed.offset, leader_epoch=committed.leader_epoch)
                self._commits.committed[tp] = committed
            else:
                starts[tp] = EARLIEST if self._start == LATEST and self._topics.is_new(tp) else self._start
        self._session.start()
        self._assignment.give(starts, self._metadata.view)
        # Before the program is told: one that is interrupted in its callback has been told.
        self._announced.update(dict.fromkeys(partitions))
        if (notify := self._hooks.on_partitions_assigned) is not None:
            notify(self._membership.group_id, sorted(partitions))
        await self._callbacks.assigned(partitions)
        for tp in partitions:
            if tp not in self.purged:
                self._session.release(tp)
        self._placing = None
        self.give(())

    async def _committed(
        self, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """However long it takes: a member that heartbeats and reads nothing must not be silent about it."""
        attempts = 0
        while True:
            try:
                return await self._commits.fetch(partitions, as_member=self._has_epochs)
            except KafkaError as error:
                code = error.code if isinstance(error, BrokerError) else -1
                # What heartbeats will say, too, is left to them. And a program that asks seldom hears of it once.
                if after_offset_fetch(code) is Reaction.FAIL and not self._is_failure_due:
                    _logger.warning("the committed offsets of %s cannot be read: %s", self._membership, error)
                    self._is_failure_due = True
                    self._queue.put(Failure(error, on_taken=self._failure_taken, outlives_session=True))
                await self._clock.sleep(self._backoff.delay(attempts))
                attempts += 1

    def _failure_taken(self) -> None:
        self._is_failure_due = False

    async def _stop_placing(self) -> None:
        while (placing := self._placing) is not None:
            # Not in the middle of a callback: a thread cannot be stopped, and the next one must not come beside it.
            if not self._callbacks.is_running:
                placing.cancel()
            await asyncio.gather(placing, return_exceptions=True)
            if self._placing is placing:
                self._placing = None

    # Taken

    async def take(
        self, partitions: Iterable[TopicPartition], *, lost: bool, seconds: float | None = None
    ) -> None:
        """Gives them up: in order, with a commit that may take `seconds`, or because they are lost already."""
        taken = [tp for tp in partitions if tp in self.owned]
        if lost:
            self._commits.lost()
        await self._stop_placing()
        if not taken:
            self.give(())
            return
        if not lost:
            await self._polling.may_rebalance()
            if self.guard is not None:
                await self.guard.released()
        try:
            for tp, generation in self._reader.revoke(taken).items():
                self._session.hold(tp, generation)
            if self.guard is not None:
                self.guard.taken()
            told = [tp for tp in taken if self._announced.pop(tp, self) is None]
            if lost:
                await self._callbacks.lost(told)
            else:
                await self.commit_done(taken, seconds)
                await self._callbacks.revoked(told)
                await self._commits.answered(self._seconds if seconds is None else seconds)
        finally:
            for tp in taken:
                del self.owned[tp]
                self._commits.committed.pop(tp, None)
                self.marked.pop(tp, None)
                self._said.pop(tp, None)
                self.purged.pop(tp, None)
                self._assignment.take(tp)
            if not self.owned:
                await self._session.stop()
            self._reader.forget(taken)
            self._polling.rebalanced()
            if (notify := self._hooks.on_partitions_revoked) is not None:
                notify(self._membership.group_id, sorted(taken), lost)
            self._notify_waiters()
        self.give(())

    async def until_purged(self, partitions: Iterable[TopicPartition]) -> None:
        """Until none of them is owned any more."""
        while any(tp in self.purged for tp in partitions):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters[waiter] = None
            try:
                await waiter
            finally:
                self._waiters.pop(waiter, None)

    def _notify_waiters(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    # Commits of what the program is done with

    def done(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """What auto-commit commits of them: where it differs from what is committed."""
        if self._only_marked:
            found = {tp: self.marked[tp] for tp in partitions if tp in self.marked}
        else:
            found = {
                tp: OffsetAndMetadata.at(reached)
                for tp in partitions
                if (reached := self.done_with(tp)) is not None
            }
        return {tp: each for tp, each in found.items() if not self._commits.has_committed(tp, each)}

    def said(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """The program commits these: it is done with what is before them."""
        for tp, each in offsets.items():
            if tp in self.owned:
                self._said[tp] = ReaderPosition(each.offset, each.leader_epoch, each.topic_id)

    def sought(self, tp: TopicPartition) -> None:
        """The program goes on elsewhere, perhaps before what it has committed."""
        self._said.pop(tp, None)
        self.marked.pop(tp, None)

    def done_with(self, tp: TopicPartition) -> ReaderPosition | None:
        """How far the program is with a partition, by what it has asked for since, or has committed itself."""
        done, said = self._reader.done_with(tp), self._said.get(tp)
        if done is not None:
            is_further = said is not None and said.topic_id == done.topic_id and said.offset > done.offset
            return said if is_further else done
        cursor = self._assignment.cursor(tp)
        if said is not None or cursor is None or not cursor.has_offset:
            return said
        # Nothing was read: where reading began is worth remembering, or "latest" would be later the next time.
        return cursor.began

    async def commit_done(self, partitions: Iterable[TopicPartition], seconds: float | None = None) -> None:
        """With auto-commit; a failure is logged: there is no call that could raise it."""
        if not self._auto_commits:
            return
        offsets = self.done(partitions)
        if not offsets or not self._membership.may_commit:
            return
        try:
            await self._commits.commit(offsets, self._seconds if seconds is None else seconds)
        except KafkaError as error:
            _logger.warning("auto-commit of %s failed: %s", self._membership, error)

    async def auto_commit(self, interval: float) -> None:
        """Forever, with auto-commit."""
        while True:
            await self._clock.sleep(interval)
            if self._membership.state is MembershipState.STABLE:
                await self.commit_done(list(self.owned))
