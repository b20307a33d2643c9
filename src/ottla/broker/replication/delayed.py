"""Requests that wait for partitions of their node: each with its timeout, and with what ends its wait.

Kafka calls the places where they wait purgatories. A node has one for each kind: a Fetch waits for bytes, a Produce
with acks=all for the high watermark, a DeleteRecords for the log starts of the followers. The replica manager says
what happens to partitions. The end of the wait is not the response: the task of the connection awaits the delayed
request, and only there the handler looks at the partitions again.

Invariant: a request is parked within the call that has looked at the partitions, so nothing comes between the two;
and it is gone from here when its task has ended, which the loss of the connection and the end of the node bring about
as well.
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
        purgatory: Purgatory[Any],
        partitions: Iterable[PartitionKey],
        timeout: float,
        complete: Callable[[], _R],
    ) -> None:
        self.partitions = tuple(partitions)
        self._purgatory = purgatory
        self._complete = complete
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer = purgatory.clock.call_later(timeout, self.end_wait)

    def __await__(self) -> Generator[Any, Any, _R]:
        try:
            yield from self._over
        finally:
            self.close()
        return self._complete()

    def end_wait(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def close(self) -> None:
        """Takes the request out of the purgatory; a second call does nothing."""
        self._timer.cancel()
        self._purgatory.remove(self)


class DelayedFetch(DelayedRequest[_R]):
    """Waits until so many bytes have come that its reader may see: a follower sees what is only appended, too.

    A reader of committed data sees what lies below the last stable offset, which moves by the bytes of whole
    transactions. Of how many these are, `stable_size` knows for one partition; `seen` are those that it had when the
    wait began.
    """

    def __init__(
        self,
        purgatory: FetchPurgatory,
        partitions: Iterable[PartitionKey],
        timeout: float,
        complete: Callable[[], _R],
        missing_bytes: int,
        is_follower: bool,
        seen: dict[PartitionKey, int] | None = None,
        stable_size: Callable[[PartitionKey], int] | None = None,
    ) -> None:
        super().__init__(purgatory, partitions, timeout, complete)
        self.is_follower = is_follower
        self._missing_bytes = missing_bytes
        self._seen = {} if seen is None else seen
        self._stable_size = stable_size

    def committed(self, partition: PartitionKey, size: int) -> None:
        """The high watermark of a partition has passed that many bytes; the last stable offset may have moved."""
        if self._stable_size is not None:
            stable = self._stable_size(partition)
            size = stable - self._seen.get(partition, 0)
            self._seen[partition] = stable
        self.count(size)

    def count(self, size: int) -> None:
        self._missing_bytes -= size
        if self._missing_bytes <= 0:
            self.end_wait()


class DelayedUntil(DelayedRequest[_R]):
    """Waits until all of its partitions have come as far as it needs; `has_come` is asked for one that changed."""

    def __init__(
        self,
        purgatory: ProgressPurgatory,
        partitions: Iterable[PartitionKey],
        timeout: float,
        complete: Callable[[], _R],
        has_come: Callable[[PartitionKey], bool],
    ) -> None:
        super().__init__(purgatory, partitions, timeout, complete)
        self._waiting = dict.fromkeys(self.partitions)
        self._has_come = has_come

    def look_at(self, partition: PartitionKey) -> None:
        if partition in self._waiting and self._has_come(partition):
            del self._waiting[partition]
            if not self._waiting:
                self.end_wait()


_D = TypeVar("_D", bound=DelayedRequest[Any])


class Purgatory(Generic[_D]):
    """Parked requests of one kind, by the partitions that they wait for."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._parked: dict[PartitionKey, dict[_D, None]] = {}

    def __len__(self) -> int:
        return len({request: None for parked in self._parked.values() for request in parked})

    def _park(self, request: _D) -> None:
        for partition in request.partitions:
            self._parked.setdefault(partition, {})[request] = None

    def remove(self, request: _D) -> None:
        for partition in request.partitions:
            parked = self._parked.get(partition)
            if parked is not None and request in parked:
                del parked[request]
                if not parked:
                    del self._parked[partition]


class FetchPurgatory(Purgatory[DelayedFetch[Any]]):
    """Fetches that have found too few bytes."""

    def park(
        self,
        partitions: Iterable[PartitionKey],
        *,
        missing_bytes: int,
        timeout: float,
        complete: Callable[[], _R],
        is_follower: bool = False,
        seen: dict[PartitionKey, int] | None = None,
        stable_size: Callable[[PartitionKey], int] | None = None,
    ) -> DelayedFetch[_R]:
        """Lets a request wait for that many bytes, or another change of these partitions, or the timeout."""
        request = DelayedFetch(
            self, partitions, timeout, complete, missing_bytes, is_follower, seen, stable_size
        )
        self._park(request)
        return request

    def appended(self, partition: PartitionKey, size: int) -> None:
        """A batch of that size has been appended to a partition."""
        for request in self._parked.get(partition, ()):
            if request.is_follower:
                request.count(size)

    def committed(self, partition: PartitionKey, size: int) -> None:
        """The high watermark has passed that many bytes."""
        for request in self._parked.get(partition, ()):
            if not request.is_follower:
                request.committed(partition, size)

    def changed(self, partition: PartitionKey) -> None:
        """Something else has happened to a partition (a new leader, a log that begins later): all look again."""
        for request in self._parked.get(partition, ()):
            request.end_wait()


class ProgressPurgatory(Purgatory[DelayedUntil[Any]]):
    """Requests that wait until replicas have come as far as they have to."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._watching: dict[PartitionKey, Callable[[], object]] = {}

    def watch(self, partition: PartitionKey, on_change: Callable[[], object]) -> None:
        """Calls it whenever something happens to a partition, for one that has more than a request waiting."""
        self._watching[partition] = on_change

    def unwatch(self, partition: PartitionKey) -> None:
        self._watching.pop(partition, None)

    def park(
        self,
        partitions: Iterable[PartitionKey],
        *,
        timeout: float,
        has_come: Callable[[PartitionKey], bool],
        complete: Callable[[], _R],
    ) -> DelayedUntil[_R]:
        request = DelayedUntil(self, partitions, timeout, complete, has_come)
        self._park(request)
        return request

    def changed(self, partition: PartitionKey) -> None:
        """Something has happened to a partition."""
        for request in self._parked.get(partition, ()):
            request.look_at(partition)
        if partition in self._watching:
            self._watching[partition]()
