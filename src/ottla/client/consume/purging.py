"""Purging topics from consumers: the program's call, and how a consumer without a group leaves a topic.

From the moment of the call nothing of the topics is handed out: their partitions get newer generations, in one step
on the loop. Then the session is stopped in its order and another one begins without them. A member of a group leaves
partitions as in a rebalance instead (group/consumer.py).

Not here: what is still subscribed to (subscription.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.client.deadline import within
from ottla.client.metadata import check_name
from ottla.errors import ApiTimeoutError

if TYPE_CHECKING:
    from ottla.client.consume.reader import Reader
    from ottla.client.consume.session import Session
    from ottla.client.topic_partition import TopicPartition
    from ottla.runtime import Clock


class Purgeable(Protocol):
    """A consumer."""

    def purge(self, topics: Iterable[str]) -> asyncio.Task[None] | None:
        """Nothing of these topics is handed out from now on; when the task is done, all is done."""

    def may_wait_for_purge(self) -> bool:
        """Whether the program that calls can wait for that task: it must not wait for the program in turn."""


async def purge_consumers(
    consumers: Iterable[Purgeable],
    topics: Sequence[str],
    waited: Sequence[Purgeable],
    clock: Clock,
    seconds: float,
) -> None:
    """Purges topics from all, in one step, and waits until it is done for some of them."""
    for topic in topics:
        check_name(topic)
    tasks = {consumer: consumer.purge(topics) for consumer in consumers}
    pending = [task for consumer, task in tasks.items() if task is not None and consumer in waited]
    if not pending:
        return
    try:
        await within(clock, seconds, asyncio.gather(*map(asyncio.shield, pending)))
    except TimeoutError:
        raise ApiTimeoutError(
            f"{', '.join(topics)} could not be left within {seconds:g} s: nothing of it is read any more, and what "
            "is left to do (commits, callbacks, what the group has to hear) goes on by itself"
        ) from None


def leave_partitions(session: Session, reader: Reader, topics: Iterable[str]) -> list[TopicPartition]:
    """Has nothing of these topics fetched or handed out any more; their partitions."""
    names = frozenset(topics)
    left = [tp for tp in session.cursors if tp.topic in names]
    for tp, generation in reader.revoke(left).items():
        session.hold(tp, generation)
    session.discard_errors(names)
    return left


async def restart_without(
    session: Session, reader: Reader, left: Iterable[TopicPartition], is_closed: Callable[[], bool]
) -> None:
    """Stops the session, forgets these partitions, and starts it again, unless the consumer is closed by then."""
    await session.stop()
    for tp in left:
        session.remove(tp)
    reader.forget(left)
    if not is_closed():
        session.start()
