"""`GroupConsumer`: what `Client.consume(..., group=...)` gives: a consumer whose partitions a group assigns.

    for record in kafka.consume("orders", group="billing"):
        ...

Membership goes on while the program works: the client's loop is run by its background thread then.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from ottla.client.blocking.consumer import Consumer
from ottla.client.deadline import check_timeout
from ottla.client.topic_partition import TopicPartition
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.blocking.driver import Driver
    from ottla.client.group.callbacks import OnPartitions
    from ottla.client.group.consumer import AsyncGroupConsumer, Offsets
    from ottla.client.group.health import GroupHealth
    from ottla.client.group.membership import GroupMetadata
    from ottla.runtime import Runtime

OnCommitted = Callable[[KafkaError | None], object]


class GroupConsumer(Consumer):
    """Reads what its group assigns to it. Leaves it with `close`, its `with` or its client, or if it is let go.

    RebalanceCallbacks run in a thread of their own and may call whatever blocks, of this consumer too.
    """

    def __init__(self, consumer: AsyncGroupConsumer, driver: Driver, runtime: Runtime) -> None:
        super().__init__(consumer, driver)
        self._group = consumer
        # Weak, since a consumer that the program has let go of is to end.
        myself = weakref.ref(self)

        async def run_callback(callback: OnPartitions, partitions: list[TopicPartition]) -> None:
            # With its context, by which a commit knows that it is called back.
            await runtime.run(copy_context().run, callback, myself(), partitions)

        consumer.run_callback = run_callback

    # Commits

    def commit(self, offsets: Offsets | Any = None, timeout: float | None = None) -> None:
        """Commits, and waits until the group has it: all that was handed out so far, a record, or a mapping.

        CommitFailedError: the partitions belong to others by now.
        """
        check_timeout(timeout)
        self._driver.call(self._group.commit_offsets(self._group.to_commit(offsets), timeout))

    def commit_async(self, offsets: Offsets | Any = None, on_done: OnCommitted | None = None) -> None:
        """Begins to commit, in the order of the calls; `on_done` gets the error, or None, on the client's loop."""
        self._driver.post(self._group.commit_later(self._group.to_commit(offsets), on_done))

    def mark(self, *records: Any) -> None:
        """With auto_commit_marks: these are processed, with all before them in their partitions."""
        self._group.mark(*records)

    def commit_marked(self, timeout: float | None = None) -> None:
        """Commits what is marked."""
        check_timeout(timeout)
        self._driver.call(self._group.commit_marked(timeout))

    def committed(
        self, *partitions: TopicPartition, timeout: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """What the group has committed, or None; of all partitions that are read, without arguments."""
        return self._driver.call(self._group.committed(*partitions, timeout=timeout))

    # Rebalances

    def allow_rebalance(self) -> None:
        """With block_rebalance_on_poll: the program is done, before it asks for more."""
        self._group.allow_rebalance()

    def group_metadata(self) -> GroupMetadata:
        """Who this member is now, for `send_offsets` of a transaction."""
        return self._group.group_metadata()

    def health(self) -> GroupHealth:
        """What the member is doing."""
        return self._group.health()
