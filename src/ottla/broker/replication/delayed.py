"""Requests that wait for partitions of their node: each with its timeout, and with what ends its wait.

A Fetch that finds too few bytes is parked here, in what Kafka calls a purgatory. The replica manager says what
happens to partitions: an append counts towards the bytes that a request lacks, any other change (a new leader, a
replica that goes, a log that begins later) ends the wait at once. The end of the wait is not the response: dispatch
awaits the parked request on the task of its connection, and only there the handler looks at the partitions again.

Invariant: a request is parked within the call that has read for it, so no append comes between the two; and it is
gone from here when its task has ended, which the loss of the connection and the end of the node bring about as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.runtime import Clock

if TYPE_CHECKING:
    from ottla.broker.replication.partition import PartitionKey

_R = TypeVar("_R")


class DelayedRequest(Generic[_R]):
    """A request that is parked; awaiting it gives what `complete` returns, once the wait is over."""

    def __init__(
        self,
        purgatory: Purgatory,
        partitions: tuple[PartitionKey, ...],
        missing_bytes: int,
        timeout: float,
        complete: Callable[[], _R],
    ) -> None:
        self.partitions = partitions
        self._purgatory = purgatory
        self._missing_bytes = missing_bytes
        self._complete = complete
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer = purgatory.clock.call_later(timeout, self.end_wait)

    def __await__(self) -> Generator[Any, Any, _R]:
        try:
            yield from self._over
        finally:
            self.close()
        return self._complete()

    def appended(self, size: int) -> None:
        """Bytes that a reader may soon see; the wait ends when they are as many as were missing."""
        self._missing_bytes -= size
        if self._missing_bytes <= 0:
            self.end_wait()

    def end_wait(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def close(self) -> None:
        """Takes the request out of the purgatory; a second call does nothing."""
        self._timer.cancel()
        self._purgatory.remove(self)


class Purgatory:
    """The parked requests of one node, by the partitions that they wait for."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._parked: dict[PartitionKey, dict[DelayedRequest[Any], None]] = {}

    def __len__(self) -> int:
        return len({request: None for parked in self._parked.values() for request in parked})

    def park(
        self,
        partitions: Iterable[PartitionKey],
        *,
        missing_bytes: int,
        timeout: float,
        complete: Callable[[], _R],
    ) -> DelayedRequest[_R]:
        """Lets a request wait for that many bytes, or another change of these partitions, or the timeout."""
        request = DelayedRequest(self, tuple(partitions), missing_bytes, timeout, complete)
        for partition in request.partitions:
            self._parked.setdefault(partition, {})[request] = None
        return request

    def remove(self, request: DelayedRequest[Any]) -> None:
        for partition in request.partitions:
            parked = self._parked.get(partition)
            if parked is not None and request in parked:
                del parked[request]
                if not parked:
                    del self._parked[partition]

    def appended(self, partition: PartitionKey, size: int) -> None:
        """A batch of that size has been appended to a partition."""
        for request in self._parked.get(partition, ()):
            request.appended(size)

    def changed(self, partition: PartitionKey) -> None:
        """Something else has happened to a partition, and its readers have to look again."""
        for request in self._parked.get(partition, ()):
            request.end_wait()
