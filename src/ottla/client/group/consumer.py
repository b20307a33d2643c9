"""AsyncGroupConsumer: what `consume(..., group=...)` gives: a consumer whose partitions a group assigns.

    async with kafka.consume("orders", group="billing") as consumer:
        async for record in consumer:
            ...

What it does beside reading: join and heartbeat (classic.py, consumer_protocol.py), commit (commits.py), give up and
take over partitions (partitions.py), and hold rebalances back where the program wants that (polling.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.client.consume.consumer import AsyncConsumer
from ottla.client.consume.fetch_queue import Failure
from ottla.client.consume.offset_spec import Start, Stops, reset_spec, start_spec
from ottla.client.consume.purging import leave_partitions
from ottla.client.deadline import check_timeout
from ottla.client.group.assignment import GroupAssignment
from ottla.client.group.callbacks import (
    RebalanceCallbacks,
    RebalanceListeners,
    RunCallback,
    run_on_loop,
)
from ottla.client.group.classic import ClassicLoop
from ottla.client.group.commits import Commits
from ottla.client.group.consumer_protocol import ConsumerGroupLoop
from ottla.client.group.health import GroupHealth
from ottla.client.group.membership import GroupMetadata, Membership
from ottla.client.group.offsets import OffsetAndMetadata
from ottla.client.group.partitions import OwnedPartitions, PartitionGuard
from ottla.client.group.polling import Polling
from ottla.client.group.reactions import Reaction
from ottla.client.group.topics import SubscribedTopics
from ottla.client.topic_partition import TopicPartition, check_partition
from ottla.errors import ConfigurationError, KafkaError
from ottla.wire import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from ottla.client.consume.assignment import Assignment
    from ottla.client.consume.context import ConsumerContext
    from ottla.client.consume.partition_records import ReaderPosition
    from ottla.client.consume.subscription import Subscription
    from ottla.client.group.member import MemberLoop
    from ottla.client.requests.requests import Requests
    from ottla.config import ClientConfig

Offsets = Mapping[TopicPartition, int | OffsetAndMetadata]


class AsyncGroupConsumer(AsyncConsumer):
    """Reads what its group assigns to it. Leaves the group with `close` or its `async with`."""

    def __init__(
        self,
        context: ConsumerContext,
        subscription: Subscription,
        *,
        group: str,
        requests: Requests,
        instance_id: str | None = None,
        listeners: RebalanceListeners | None = None,
        start: Start | None = None,
        **options: Any,
    ) -> None:
        _check(group, subscription, options)
        self._group_start = start
        super().__init__(context, subscription, start="earliest" if start is None else start, **options)
        config, clock = context.config, context.runtime.clock
        now_ms = int(clock.time() * 1000)
        begin = reset_spec(config, now_ms) if start is None else start_spec(start, now_ms)
        self.reader.keeps_work = True
        self.run_callback: RunCallback = partial(run_on_loop, self)
        """Runs the program's callbacks; a blocking consumer has them run in another thread."""
        self._owned: dict[TopicPartition, None] = {}
        self._membership = Membership(group, instance_id or config.group_instance_id or None)
        self._callbacks = RebalanceCallbacks(
            listeners or RebalanceListeners(),
            lambda callback, partitions: self.run_callback(callback, partitions),
            self._raise_next,
        )
        self.polling: Polling = Polling(
            self.reader,
            self.queue,
            clock.monotonic,
            config.max_poll_interval_ms / 1000,
            blocks=config.block_rebalance_on_poll,
            is_called_back=self.is_called_back,
        )
        self._commits = Commits(
            context,
            requests,
            self._membership,
            self._owned,
            must_not_wait=lambda: self._callbacks.is_running,
            on_trouble=lambda reaction, reason, error: self._member.interrupt(reaction, reason, error),
        )
        self._topics = SubscribedTopics(
            context.metadata,
            lambda: self._assignment.subscription,
            excludes_internal=config.exclude_internal_topics,
            changed=lambda why: self._member.interrupt(Reaction.REJOIN, why),
        )
        assert isinstance(self._assignment, GroupAssignment)
        self._partitions = OwnedPartitions(
            context,
            self._membership,
            owned=self._owned,
            reader=self.reader,
            queue=self.queue,
            session=self._session,
            assignment=self._assignment,
            topics=self._topics,
            commits=self._commits,
            callbacks=self._callbacks,
            polling=self.polling,
            start=begin,
        )
        make = ClassicLoop if config.group_protocol == "classic" else ConsumerGroupLoop
        self._member: MemberLoop = make(
            context, requests, self._membership, self._partitions, self._topics, self.polling, self.queue
        )
        self._auto_commit: asyncio.Task[None] | None = None
        self._ending: asyncio.Future[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        """What a callback has begun."""
        self._has_left = False

    def _has_coordinator(self, config: ClientConfig) -> bool:
        return config.group_protocol == "consumer"

    def _make_assignment(
        self,
        context: ConsumerContext,
        subscription: Subscription,
        start: Start,
        stop: Stops | None,
        now_ms: int,
    ) -> Assignment:
        return GroupAssignment(
            context,
            self._session,
            subscription,
            start_spec(start, now_ms),
            self._no_offset,
            now_ms,
        )

    def _no_offset(self, tp: TopicPartition) -> KafkaError:
        return KafkaError(
            f"group {self._membership.group_id} has committed nothing for {tp}, and auto_offset_reset is 'none': "
            "pass start=, or seek to go on"
        )

    # Beginning and end

    def begin(self) -> None:
        """Joins the group; once, on the loop."""
        if self._beginning is not None:
            return
        super().begin()
        self.polling.asked_at = self._clock.monotonic()
        self._metadata.add_listener(self._topics)
        self._member.start()
        if self._config.enable_auto_commit:
            self._auto_commit = self._tasks.spawn(
                self._partitions.auto_commit(self._config.auto_commit_interval_ms / 1000), "auto-commit"
            )

    async def end(self) -> None:
        """Commits what the program is done with, leaves the group, and stops everything."""
        if self._ending is not None:
            # A second call returns when all is done, too; but for a callback, for which the first one waits.
            if not self.is_called_back():
                await asyncio.shield(self._ending)
            return
        self._ending = asyncio.get_running_loop().create_future()
        try:
            if self._beginning is not None:
                self.polling.allow()
                self._metadata.remove_listener(self._topics)
                if self._auto_commit is not None:
                    self._auto_commit.cancel()
                await self._leave_group()
        finally:
            try:
                await super().end()
            finally:
                self._ending.set_result(None)

    def is_called_back(self) -> bool:
        return self._callbacks.call_now

    async def close(self) -> None:
        """Commits what the program is done with, and leaves the group. A callback's call returns at once: the group
        waits for the callback, and the consumer is closed when that has returned."""
        self._home.check()
        if not self.is_called_back():
            await super().close()
        elif self._closing is None and self._ending is None:
            self._closing = self._tasks.spawn(
                self._close_when_returned(), "close a consumer behind its callback"
            )

    async def _close_when_returned(self) -> None:
        await self._callbacks.returned()
        await super().close()

    async def _leave_group(self) -> None:
        if not self._has_left:
            self._has_left = True
            await self._member.leave()

    # Purging

    def may_wait_for_purge(self) -> bool:
        """Not where the group waits for the program: in a callback, or with block_rebalance_on_poll at work."""
        return not self.is_called_back() and not self.polling.is_held

    def _start_purge(self, purged: Iterable[str], tracked: Iterable[str]) -> Coroutine[Any, Any, None]:
        names = list(purged)
        leave_partitions(self._session, self.reader, names)
        left = [tp for tp in self._owned if tp.topic in names]
        self._partitions.purged.update(dict.fromkeys(left))
        self._topics.purged(names)
        return self._leave_topics(names, left, list(tracked))

    async def _leave_topics(self, names: list[str], left: list[TopicPartition], tracked: list[str]) -> None:
        """As on a rebalance: what is done is committed, the program is told, and the group hears of it."""
        try:
            if self._assignment.subscription.is_empty:
                await self._leave_group()
                self._assignment.settle_again()
            else:
                self._member.interrupt(Reaction.REJOIN, f"topics were purged: {', '.join(names)}")
                await self._partitions.until_purged(left)
        finally:
            for name in tracked:
                self._metadata.untrack(name)

    # Reading

    def allow_rebalance(self) -> None:
        """With block_rebalance_on_poll: the program is done, before it asks for more."""
        self._check_reader()
        self.polling.allow()

    def assignment(self) -> list[TopicPartition]:
        """The partitions that the group has given to this member."""
        return list(self._owned)

    def seek(self, partition: TopicPartition, to: Start) -> None:
        """Goes on elsewhere; from there on auto-commit follows."""
        super().seek(partition, to)
        self._partitions.sought(partition)

    # Commits

    async def commit(self, offsets: Offsets | Any = None, timeout: float | None = None) -> None:
        """Commits, and waits until the group has it: all that was handed out so far, or what is given.

        What is given is a record, which is then processed with all before it, or a mapping from partitions to the
        offsets of the next records. Called back, in `on_revoked`, it is what the program is done with: what it got
        last it may be working on. CommitFailedError: the partitions belong to others by now.
        """
        self._home.check()
        check_timeout(timeout)
        await self.commit_offsets(self.to_commit(offsets), timeout)

    async def commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None
    ) -> None:
        """`commit`, of what `to_commit` gave."""
        self._partitions.said(offsets)
        await self._commits.commit(offsets, timeout)

    def commit_later(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        on_done: Callable[[KafkaError | None], object] | None,
    ) -> Callable[[], None]:
        """What the loop calls for a `commit_async` of another thread."""

        def begin() -> None:
            self._partitions.said(offsets)
            commit = self._commits.begin(offsets)
            if on_done is not None:
                commit.add_done_callback(lambda done: on_done(done.result()))

        return begin

    def commit_async(self, offsets: Offsets | Any = None) -> asyncio.Task[KafkaError | None]:
        """Begins to commit; the result of what comes back is the error, or None. In the order of the calls."""
        self._home.check()
        given = self.to_commit(offsets)
        self._partitions.said(given)
        return self._commits.begin(given)

    def to_commit(self, offsets: Offsets | Any) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a commit is to say, in the thread that reads."""
        if offsets is None:
            cursors, called_back = self._session.cursors, self.is_called_back()
            # The program may be in the middle of what it got last, in another task or thread, when it is called back.
            positions = {
                tp: self._partitions.done_with(tp) if called_back else self._reached(tp, cursors.get(tp))
                for tp in list(self._owned)
            }
            return {tp: OffsetAndMetadata.at(each) for tp, each in positions.items() if each is not None}
        if not isinstance(offsets, Mapping):
            return dict([self._behind(offsets)])
        return {check_partition(tp): self._with_epoch(tp, each) for tp, each in offsets.items()}

    def _with_epoch(self, tp: TopicPartition, given: int | OffsetAndMetadata) -> OffsetAndMetadata:
        """Of which topic it is an offset; and few programs name epochs: of what they have just got, it is known."""
        named = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
        offset: object = named.offset
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            raise ValueError(f"{tp}: {named.offset!r} is no offset")
        known = self.reader.at(tp, named.offset)
        epoch = known.leader_epoch if named.leader_epoch < 0 else named.leader_epoch
        return named._replace(leader_epoch=epoch, topic_id=self._topic_read(tp, known))

    def is_read(self, partition: TopicPartition) -> bool:
        return partition in self._owned

    async def settle_failure(self, record: Any) -> None:
        """Committed at once, so that it is not skipped or kept a second time by another member."""
        if self.is_read(TopicPartition(record.topic, record.partition)):
            await self.commit_offsets(self.to_commit(record), None)

    def mark(self, *records: Any) -> None:
        """With auto_commit_marks: these are processed, with all before them in their partitions."""
        for tp, offset in map(self._behind, records):
            known = self._partitions.marked.get(tp)
            is_further = known is None or known.topic_id != offset.topic_id or known.offset < offset.offset
            if tp in self._owned and is_further:
                self._partitions.marked[tp] = offset

    async def commit_marked(self, timeout: float | None = None) -> None:
        """Commits what is marked."""
        self._home.check()
        await self.commit_offsets(dict(self._partitions.marked), timeout)

    async def committed(
        self, *partitions: TopicPartition, timeout: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """What the group has committed, or None; of all partitions that are read, without arguments."""
        self._home.check()
        wanted = list(map(check_partition, partitions)) or self.assignment()
        found = await self._commits.fetch(wanted, as_member=False, seconds=timeout) if wanted else {}
        return {tp: None if each is None else each.offset for tp, each in found.items()}

    def _behind(self, record: Any) -> tuple[TopicPartition, OffsetAndMetadata]:
        try:
            tp = TopicPartition(record.topic, record.partition)
            offset, epoch = record.offset + 1, record.leader_epoch
        except AttributeError:
            raise TypeError(
                f"a commit takes a record, or a mapping from partitions to offsets, not {type(record).__name__}"
            ) from None
        return tp, OffsetAndMetadata(offset, "", epoch, self._topic_read(tp, self.reader.at(tp, offset)))

    def _topic_read(self, tp: TopicPartition, known: ReaderPosition) -> Uuid:
        """The topic of what the program has got last of a partition; before that, the one that is there."""
        return known.topic_id if known.topic_id != ZERO_UUID else self._topic_id(tp)

    # For a session that commits in transactions

    def guard(self, guard: PartitionGuard) -> None:
        """Before the first use: what is asked before partitions are given up, and told when they are gone."""
        self._partitions.guard = guard

    def uncommitted(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """How far the program is, where that is not committed; in the thread that reads."""
        has_committed = self._commits.has_committed
        return {tp: each for tp, each in self.to_commit(None).items() if not has_committed(tp, each)}

    def was_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """By a transaction; on the loop."""
        self._commits.committed.update({tp: each for tp, each in offsets.items() if tp in self._owned})

    def rewind(self) -> None:
        """Goes back to what is committed, or to where reading began; in the thread that reads."""
        for tp in list(self._owned):
            cursor = self._session.cursors.get(tp)
            committed = self._commits.committed.get(tp)
            base = None if committed is None else committed.offset
            if base is None and cursor is not None and cursor.has_offset:
                base = cursor.began_at
            if base is not None and self._known_position(tp, cursor) != base:
                self._refetch(tp, base)
                self._partitions.sought(tp)

    async def confirm(self, seconds: float) -> Reaction:
        """What the coordinator says to a heartbeat now."""
        return await self._member.confirm(seconds)

    # How it is

    def group_metadata(self) -> GroupMetadata:
        """Who this member is now, for `send_offsets` of a transaction."""
        return self._membership.metadata()

    def health(self) -> GroupHealth:
        """What the member is doing."""
        membership, now = self._membership, self._clock.monotonic()
        heartbeat = self._member.last_heartbeat
        return GroupHealth(
            membership.group_id,
            membership.member_id,
            membership.generation,
            membership.state.value,
            membership.reason,
            self.assignment(),
            self.lag(),
            None if heartbeat is None else now - heartbeat,
            0.0 if self.polling.is_waiting else now - self.polling.asked_at,
        )

    def _raise_next(self, error: Exception) -> None:
        self.queue.put_first(Failure(error, outlives_session=True))


def _check(group: str, subscription: Subscription, options: Mapping[str, Any]) -> None:
    name: object = group
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"group={group!r}: a group has a name", option="group")
    if subscription.partitions:
        raise ConfigurationError(
            f"group={group!r} assigns partitions itself: name whole topics, or patterns, and no TopicPartition",
            option="group",
        )
    if options.get("stop") is not None:
        raise ConfigurationError(
            f"group={group!r} has no end that all its members could stop at: leave out stop=", option="stop"
        )
