"""MemberLoop: what the loops of both protocols have in common: being interrupted, failing, stopping, and leaving.

A loop is one task for as long as the consumer lives. Whatever concerns it (a heartbeat's response, a commit that was
refused, topics that have changed, a program that takes too long, the end) interrupts it with a reaction; of several
the hardest counts.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.client.backoff import Backoff
from ottla.client.consume.fetch_queue import Failure
from ottla.client.deadline import within
from ottla.client.group.membership import MembershipState
from ottla.client.group.reactions import Reaction
from ottla.errors import KafkaError, MaxPollExceededError

if TYPE_CHECKING:
    from ottla.client.consume.context import ConsumerContext
    from ottla.client.consume.fetch_queue import FetchQueue
    from ottla.client.group.membership import Membership
    from ottla.client.group.partitions import OwnedPartitions
    from ottla.client.group.polling import Polling
    from ottla.client.group.topics import SubscribedTopics
    from ottla.client.requests.requests import Requests

_logger = logging.getLogger("ottla.client.group")

CLOSING_S: Final = 5.0
"""How long a member that leaves waits for a join to end, for its last commit, and to be let go: each."""


class MemberLoop(ABC):
    """The loop of one member."""

    def __init__(
        self,
        context: ConsumerContext,
        requests: Requests,
        membership: Membership,
        partitions: OwnedPartitions,
        topics: SubscribedTopics,
        polling: Polling,
        queue: FetchQueue,
    ) -> None:
        self._config = context.config
        self._clock = context.runtime.clock
        self._random = context.runtime.random
        self._tasks = context.tasks
        self._metadata = context.metadata
        self._lane = context.lane
        self._requests = requests
        self._membership = membership
        self._partitions = partitions
        self._topics = topics
        self._polling = polling
        self._queue = queue
        self._backoff = Backoff(
            self._config.retry_backoff_ms / 1000,
            self._config.retry_backoff_max_ms / 1000,
            context.runtime.random,
        )
        self.last_heartbeat: float | None = None
        """When the coordinator last said that all is well."""
        self._reaction = Reaction.GO_ON
        self._reason = ""
        self._error: KafkaError | None = None
        self._interrupted = asyncio.Event()
        self._is_leaving = False
        self._stirred = asyncio.Event()
        self._is_raised = False
        self._task: asyncio.Task[None] | None = None

    # From outside

    def start(self) -> None:
        self._membership.move(MembershipState.JOINING)
        self._task = self._tasks.spawn(self._run(), f"membership in {self._membership.group_id}")

    def interrupt(self, reaction: Reaction, reason: str, error: KafkaError | None = None) -> None:
        """What the loop has to do next, unless it has something harder to do."""
        if self._reaction < reaction:
            self._reaction, self._reason, self._error = reaction, reason, error
        self._interrupted.set()

    @abstractmethod
    async def confirm(self, seconds: float) -> Reaction:
        """What the coordinator says now to a heartbeat; RETRY if it says nothing in that time.

        REJOIN is of a member that still has its partitions, and is to give some up.
        """

    async def leave(self) -> None:
        """Gives all partitions up, commits, and leaves the group; in bounded time."""
        self._is_leaving = True
        self._stirred.set()
        self._interrupted.set()
        task = self._task
        if task is None:
            return
        try:
            await within(self._clock, 3 * CLOSING_S, asyncio.shield(task))
        except TimeoutError:
            _logger.warning("%s leaves without a word: its coordinator does not respond", self._membership)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            self._membership.move(MembershipState.LEFT, "the consumer is closed")

    # The loop

    @abstractmethod
    async def _run(self) -> None:
        """Until it has left."""

    def _take_interruption(self) -> tuple[Reaction, str, KafkaError | None]:
        taken = self._reaction, self._reason, self._error
        self._reaction, self._reason, self._error = Reaction.GO_ON, "", None
        if not self._is_leaving:
            self._interrupted.clear()
        return taken

    def _check_poll(self) -> None:
        if self._membership.may_commit and self._polling.is_overdue():
            self.interrupt(Reaction.FAIL, "the program took too long", self._too_slow())
            # A rebalance that waits for the program waits no longer.
            self._polling.allow()

    def _too_slow(self) -> MaxPollExceededError:
        return MaxPollExceededError(
            f"the program worked on what it got from group {self._membership.group_id} for longer than "
            f"max_poll_interval_ms ({self._config.max_poll_interval_ms} ms): its member has left the group, others "
            "have its partitions, and what was not committed is processed again. It joins again with the next call. "
            "Process less at a time (max_poll_records), or raise max_poll_interval_ms"
        )

    def _log_trouble(self, reaction: Reaction, reason: str, error: KafkaError | None) -> None:
        """But for what the member stops for: that is a warning."""
        if reaction < Reaction.FAIL or error is None:
            _logger.info("%s: %s", self._membership, error or reason)

    async def _stop_until_raised(self, error: KafkaError, *, for_good: bool = False) -> None:
        """The program raises it with its next call, and then it goes on; or raises it forever."""
        _logger.warning("a member of group %s has stopped: %s", self._membership.group_id, error)
        self._membership.move(MembershipState.STOPPED, str(error))
        while not self._is_leaving:
            self._is_raised = False
            # In front of what was fetched before: the program has lost that.
            self._queue.put_first(Failure(error, on_taken=self._on_raised, outlives_session=True))
            await self._until(lambda: self._is_raised)
            if not for_good:
                return

    def _on_raised(self) -> None:
        self._is_raised = True
        self._stirred.set()

    async def _until(self, is_done: Callable[[], bool]) -> None:
        """Or until the member leaves. What makes it true stirs the loop."""
        while not (is_done() or self._is_leaving):
            self._stirred.clear()
            await self._stirred.wait()
