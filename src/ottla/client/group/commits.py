"""Commits: the offsets of a group, written and read.

What a commit says is how far the program is: the offset of the next record to process. Commits go one at a time and
in the order in which they were asked for, so that none overtakes another; one whose caller gives up waiting still
ends before the next is sent. While the member joins, the coordinator takes none: they wait.

Not here: how far the program is (consume/reader.py), when to commit (partitions.py, consumer.py), and the messages
(offsets.py).

Invariants: a partition that is not owned any more is not committed: its offset is another member's. What the program
did with a partition before it was lost is not committed either, also where the partition has come back: other members
may have been further. An offset is committed for the topic that it was read from, and never for another one that has
its name by now (KIP-848, KIP-516).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ottla.client.backoff import Backoff
from ottla.client.deadline import Deadline, DeadlinePassed, within
from ottla.client.group.membership import Membership, MembershipState
from ottla.client.group.offsets import OffsetAndMetadata, commit_request, fetch_request, read_fetched
from ottla.client.group.reactions import Reaction, after_commit
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    CommitFailedError,
    CoordinatorNotAvailableError,
    KafkaError,
    NotCoordinatorError,
    RebalanceInProgressError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    from_code,
)
from ottla.wire import ZERO_UUID
from ottla.wire.messages import OffsetCommitResponse, OffsetFetchResponse

if TYPE_CHECKING:
    from ottla.client.context import ClientContext
    from ottla.client.requests.requests import Requests

_logger = logging.getLogger("ottla.client.group")

_GONE: Final = UnknownTopicOrPartitionError.code
_UNKNOWN: Final = (UnknownTopicIdError, UnknownTopicOrPartitionError)
_ELSEWHERE: Final = (CoordinatorNotAvailableError.code, NotCoordinatorError.code)


OnTrouble = Callable[[Reaction, str, KafkaError], None]


class Commits:
    """Of one member, on the loop."""

    def __init__(
        self,
        context: ClientContext,
        requests: Requests,
        membership: Membership,
        owned: Mapping[TopicPartition, object],
        *,
        must_not_wait: Callable[[], bool],
        on_trouble: OnTrouble,
    ) -> None:
        """`must_not_wait()`: the group waits for the program, and the program must not wait for the group."""
        config = context.config
        self._config = config
        self._clock = context.runtime.clock
        self._hooks = context.hooks
        self._metadata = context.metadata
        self._tasks = context.tasks
        self._requests = requests
        self._membership = membership
        self._owned = owned
        self._must_not_wait = must_not_wait
        self._on_trouble = on_trouble
        self._backoff = Backoff(
            config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, context.runtime.random
        )
        self._turn = asyncio.Lock()
        self._is_answered = asyncio.Event()
        self._is_answered.set()
        self._under_way: dict[asyncio.Task[KafkaError | None], None] = {}
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        """What is known to be committed for the partitions that are owned."""
        self._losses = 0
        """How often the member has lost what it had."""
        self._has_lost = False
        """Whether it has been given nothing since."""

    def lost(self) -> None:
        """The member has lost all its partitions: what it has not committed of them, it does not commit any more."""
        self._losses += 1
        self._has_lost = True
        self._membership.look_again()

    def regained(self) -> None:
        """It has been given partitions: from here on it commits again."""
        self._has_lost = False

    def has_committed(self, tp: TopicPartition, wanted: OffsetAndMetadata) -> bool:
        known = self.committed.get(tp)
        return known is not None and (known.offset, known.topic_id) == (wanted.offset, wanted.topic_id)

    # Writing

    def begin(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], seconds: float | None = None
    ) -> asyncio.Task[KafkaError | None]:
        """Has them committed, behind the commits before it; a CommitFailedError says that they are not."""
        limit = self._config.default_api_timeout_ms / 1000 if seconds is None else seconds
        # One that is asked for between a loss and the next assignment is of what was lost.
        losses = self._losses - 1 if self._has_lost else self._losses
        commit = self._tasks.spawn(self._settled(dict(offsets), limit, losses), "commit offsets")
        self._under_way[commit] = None
        commit.add_done_callback(self._under_way.pop)
        return commit

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], seconds: float | None = None
    ) -> None:
        """The same, and waits for it. A caller that is cancelled leaves it under way."""
        error = await asyncio.shield(self.begin(offsets, seconds))
        if error is not None:
            raise error

    async def _settled(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], seconds: float, losses: int
    ) -> KafkaError | None:
        """The error as a result: a task that no caller waits for any more has not crashed because of it."""
        began = self._clock.monotonic()
        error: KafkaError | None = None
        try:
            await self._in_turn(offsets, Deadline(self._clock, seconds), losses)
        except KafkaError as failed:
            error = failed
        if (notify := self._hooks.on_offsets_committed) is not None:
            plain = {(tp.topic, tp.partition): each.offset for tp, each in offsets.items()}
            notify(self._membership.group_id, plain, self._clock.monotonic() - began, error)
        return error

    async def _in_turn(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], deadline: Deadline, losses: int
    ) -> None:
        try:
            await deadline.bound(self._turn.acquire())
        except DeadlinePassed:
            raise CommitFailedError(
                f"offsets of {_named(offsets)} were not committed within {deadline.seconds:g} s: a commit before "
                f"this one, for group {self._membership.group_id}, has not ended yet"
            ) from None
        try:
            await self._until_committed(offsets, deadline, losses)
        finally:
            self._turn.release()

    async def _until_committed(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], deadline: Deadline, losses: int
    ) -> None:
        last: KafkaError | None = None
        former: list[TopicPartition] = []
        attempts = 0
        try:
            while offsets:
                await deadline.bound(self._until_possible(offsets, losses))
                former += (gone := self.of_former_topics(offsets, refused=isinstance(last, _UNKNOWN)))
                offsets = {tp: each for tp, each in offsets.items() if tp not in gone}
                if not offsets:
                    break
                generation = self._membership.generation
                offsets, last, waits = await self._attempt(offsets, deadline.left())
                delay = self._backoff.delay(attempts)
                attempts += 1
                if waits:
                    await deadline.bound(self._until_rejoined(generation, delay))
                elif offsets:
                    await deadline.bound(self._clock.sleep(delay))
                if isinstance(last, _UNKNOWN):
                    await self._refresh(offsets, deadline.left())
        except DeadlinePassed:
            raise CommitFailedError(
                f"offsets of group {self._membership.group_id} were not committed within {deadline.seconds:g} s"
                + ("" if last is None else f": {last}")
            ) from last
        if former:
            raise CommitFailedError(
                f"offsets of {_named(former)} are not committed: the topic was deleted, and if there is one of its "
                "name, that is another one"
            )

    def of_former_topics(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | None], *, refused: bool = False
    ) -> list[TopicPartition]:
        """Those that are offsets of a topic whose name another one has; where a coordinator refused them, or none."""
        topics = self._metadata.view.topics
        return [
            tp
            for tp, each in offsets.items()
            if each is not None
            and each.topic_id != ZERO_UUID
            and (topic := topics.get(tp.topic)) is not None
            and (topic.topic_id not in (ZERO_UUID, each.topic_id) or (refused and topic.error_code == _GONE))
        ]

    async def _refresh(self, partitions: Iterable[TopicPartition], seconds: float) -> None:
        """The coordinator does not know a topic: it is new there, or gone, and metadata says which."""
        names = list(dict.fromkeys(tp.topic for tp in partitions))
        try:
            await self._metadata.fresh(names, max_age=0.0, timeout=seconds)
        except KafkaError as error:
            _logger.info("%s: metadata of %s could not be had: %s", self._membership, names, error)

    async def _until_possible(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], losses: int) -> None:
        membership = self._membership
        if membership.state is MembershipState.UNJOINED:
            raise CommitFailedError(
                f"offsets of {_named(offsets)} are not committed: this consumer has not joined group "
                f"{membership.group_id}. It does with its first poll or iteration; for a group without members there "
                "is admin.alter_group_offsets()"
            )
        if not self._must_not_wait():
            await membership.wait_for(
                lambda: membership.may_commit or membership.is_over or self._losses != losses
            )
        if self._losses != losses and not membership.is_over:
            raise self._failed(offsets, self._why_lost())
        if not membership.may_commit:
            raise CommitFailedError(
                f"offsets of {_named(offsets)} are not committed: {membership} is {membership.state.value}"
                + (f": {membership.reason}" if membership.reason else "")
            )
        gone = [tp for tp in offsets if tp not in self._owned]
        if gone:
            raise CommitFailedError(
                f"offsets of {_named(gone)} are not committed: this member does not read them (see assignment()). If "
                "a rebalance has given them to another one, what was processed since the last commit is processed "
                "there again: commit in on_revoked, or hold rebalances back with block_rebalance_on_poll"
            )

    async def answered(self, seconds: float) -> None:
        """Returns when the commits that were asked for have ended, and none is on its way to the coordinator, nor is
        sent before the caller goes on.

        One that is answered after its partitions have gone to another member may be older than where that has begun.
        """
        deadline = Deadline(self._clock, seconds)
        try:
            for commit in list(self._under_way):
                await deadline.bound(asyncio.shield(commit))
            while not self._is_answered.is_set():
                await deadline.bound(self._is_answered.wait())
        except DeadlinePassed:
            _logger.warning("%s: a commit has not been answered for %g s", self._membership, seconds)

    async def _until_rejoined(self, generation: int, seconds: float) -> None:
        """Or for so long: a member that gives everything up joins again only behind the commit of that, and that
        waits for this one."""
        membership = self._membership
        rejoined = membership.wait_for(
            lambda: membership.is_over or (membership.may_commit and membership.generation != generation)
        )
        with suppress(TimeoutError):
            await within(self._clock, seconds, rejoined)

    async def _attempt(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], seconds: float
    ) -> tuple[dict[TopicPartition, OffsetAndMetadata], KafkaError | None, bool]:
        """What is to be committed again, and why; the last says that it is to be after the next join."""
        member, losses = self._membership.metadata(), self._losses
        request = commit_request(member, offsets)
        names = {topic.topic_id: topic.name for topic in request.topics}
        self._is_answered.clear()
        try:
            response = await self._requests.send(request, timeout=seconds)
        finally:
            self._is_answered.set()
        assert isinstance(response, OffsetCommitResponse)
        again: dict[TopicPartition, OffsetAndMetadata] = {}
        worst, error = Reaction.GO_ON, None
        for topic in response.topics:
            # From version 10 on it has ids only.
            name = topic.name or names[topic.topic_id]
            for each in topic.partitions:
                tp = TopicPartition(name, each.partition_index)
                reaction = after_commit(each.error_code)
                if reaction is Reaction.GO_ON:
                    if tp in offsets and tp in self._owned:
                        self.committed[tp] = offsets[tp]
                    continue
                again[tp] = offsets[tp]
                if each.error_code in _ELSEWHERE:
                    self._requests.forget_coordinator(self._membership.group_id)
                if worst < reaction:
                    worst = reaction
                    error = from_code(each.error_code, topic=name, partition=each.partition_index)
        if worst in (Reaction.GO_ON, Reaction.RETRY):
            return again, error, False
        assert error is not None
        if worst is Reaction.FAIL:
            raise self._failed(again, str(error), error)
        is_lost = worst in (Reaction.LOSE, Reaction.LOSE_ID)
        if is_lost and losses == self._losses and member != self._membership.metadata():
            # As in Java: the answer is to the member that this one was, and says nothing of what it has now.
            raise self._failed(
                again,
                f"the group has rebalanced since they were sent; what is read now can be. {error}",
                error,
            )
        if losses == self._losses:
            self._on_trouble(worst, f"a commit was refused: {error}", error)
        if worst is Reaction.REJOIN:
            if not (self._must_not_wait() or self._holds_join_up(error)):
                return again, error, True
            raise self._failed(again, f"the group rebalances. {error}", error)
        raise self._failed(again, self._why_lost() if is_lost else str(error), error)

    def _holds_join_up(self, error: KafkaError) -> bool:
        """Whether the member is to join again, in a classic group, and gives partitions up before that."""
        is_classic = isinstance(error, RebalanceInProgressError)
        return is_classic and self._membership.state is MembershipState.REVOKING

    def _why_lost(self) -> str:
        return (
            "the member is not in the group any more, and its partitions belong to others. Either the program "
            f"took longer than max_poll_interval_ms ({self._config.max_poll_interval_ms} ms) for what it got, or "
            "no heartbeat got through. It joins again by itself; what was processed since the last commit is "
            "processed twice. Process less at a time (max_poll_records), or raise max_poll_interval_ms"
        )

    def _failed(
        self, offsets: Iterable[TopicPartition], why: str, error: KafkaError | None = None
    ) -> CommitFailedError:
        failed = CommitFailedError(
            f"offsets of {_named(offsets)} are not committed for group {self._membership.group_id}: {why}"
        )
        failed.__cause__ = error
        return failed

    # Reading

    async def fetch(
        self, partitions: Iterable[TopicPartition], *, as_member: bool, seconds: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What is committed; None where nothing is. What is not stable yet (KIP-447) is waited for.

        `as_member`, for KIP-848: the coordinator checks the epoch, and refuses a member that is behind.
        """
        wanted = list(partitions)
        deadline = Deadline(
            self._clock, self._config.default_api_timeout_ms / 1000 if seconds is None else seconds
        )
        attempts = 0
        while True:
            topics = self._metadata.view.topics
            request = fetch_request(self._membership.metadata(), wanted, topics, as_member=as_member)
            response = await self._requests.send(request, timeout=deadline.left())
            assert isinstance(response, OffsetFetchResponse)
            found, error, reaction = read_fetched(request, response, wanted)
            if error is None:
                return found
            if reaction is not Reaction.RETRY:
                raise error
            delay = self._backoff.delay(attempts)
            if delay >= deadline.left():
                raise error
            await self._clock.sleep(delay)
            attempts += 1
            if isinstance(error, _UNKNOWN):
                await self._refresh(wanted, deadline.left())


def _named(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))
