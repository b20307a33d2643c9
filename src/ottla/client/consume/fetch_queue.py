"""FetchQueue: from the sources, on the loop, to the reader, in any thread.

Sources put in what they fetched, and errors; the reader takes one item at a time. All that goes from the loop to the
reader goes through here, per fetched partition and never per record. `wake` lets the loop learn that one was taken.

Invariant: of every source at most one response lies here that the reader has not begun, so that with the one being
read a consumer holds no more than 2 x fetch_max_bytes per broker (plus what a single larger batch exceeds that by).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from typing import TypeAlias

from ottla.client.consume.partition_records import PartitionRecords
from ottla.client.topic_partition import TopicPartition
from ottla.wire import ZERO_UUID, Uuid

Wake: TypeAlias = Callable[[Callable[[], None]], None]


class Failure:
    """An error that the reader raises, in its turn: behind what was fetched before it."""

    __slots__ = ("_error", "generation", "on_taken", "outlives_session", "position", "tp")

    def __init__(
        self,
        error: Exception,
        tp: TopicPartition | None = None,
        *,
        generation: int = 0,
        position: int | None = None,
        on_taken: Callable[[], None] | None = None,
        outlives_session: bool = False,
    ) -> None:
        self._error: Exception | None = error
        self.tp = tp
        self.generation = generation
        self.position = position
        """Where the reader is afterwards, if the error moves it."""
        self.on_taken = on_taken
        """Called on the loop."""
        self.outlives_session = outlives_session
        """Whether it is raised also if what is read changes before that."""

    def is_about(self, topics: Container[str]) -> bool:
        """Whether it says something of one of these topics only."""
        return (self.tp.topic if self.tp is not None else getattr(self._error, "topic", None)) in topics

    def take_error(self) -> Exception:
        """Once: the frames of its traceback hold this, and should not lead back to it."""
        error, self._error = self._error, None
        assert error is not None
        return error


class PositionReset:
    """A position that was lost, and the offset that reading goes on at, behind what was fetched before."""

    __slots__ = ("generation", "on_taken", "position", "topic_id", "tp")

    def __init__(
        self, tp: TopicPartition, position: int, *, generation: int, topic_id: Uuid = ZERO_UUID
    ) -> None:
        self.tp = tp
        self.position = position
        self.topic_id = topic_id
        self.generation = generation
        self.on_taken: Callable[[], None] | None = None


Item: TypeAlias = PartitionRecords | Failure | PositionReset


class FetchQueue:
    """First in, first out.

    A reader that finds nothing adds a function to `waiters`, on the loop and after another look: it is called when
    there is something again, or when the end is reached.
    """

    def __init__(self, wake: Wake | None = None) -> None:
        self.items: deque[Item] = deque()
        self.waiters: list[Callable[[], object]] = []
        self._wake = wake
        self.is_complete = False
        """Nothing more will come: every partition has reached its stop."""

    def __len__(self) -> int:
        return len(self.items)

    # On the loop

    def put(self, *items: Item) -> None:
        """In this order; the waiters learn of it if there was nothing."""
        was_empty = not self.items
        self.items.extend(items)
        if was_empty and self.waiters:
            self.notify()

    def put_first(self, item: Item) -> None:
        """Before all that is there."""
        self.items.appendleft(item)
        self.notify()

    def notify(self) -> None:
        """Every waiter looks again."""
        for waiter in self.waiters:
            waiter()

    def complete(self, is_complete: bool) -> None:
        was_complete, self.is_complete = self.is_complete, is_complete
        if is_complete and not was_complete:
            self.notify()

    def discard(self) -> list[Item]:
        """Takes out everything, in order; the callbacks of what is discarded are not called.

        From the back: a reader that takes something meanwhile takes what is before all of it.
        """
        items: list[Item] = []
        while self.items:
            try:
                items.append(self.items.pop())
            except IndexError:
                break
        items.reverse()
        return items

    # By the reader

    def take_nowait(self) -> Item | None:
        """The next item, or None. The source of a response that is begun with it fetches again."""
        try:
            item = self.items.popleft()
        except IndexError:
            return None
        notify, item.on_taken = item.on_taken, None
        if notify is not None:
            try:
                self.wake(notify)
            except BaseException:
                # Ctrl-C, when the loop has been woken: a program that goes on gets what it has not got now.
                self.items.appendleft(item)
                raise
        return item

    def wake(self, function: Callable[[], None]) -> None:
        """Has a function called on the loop; at once where the reader runs there itself."""
        if self._wake is None:
            function()
        else:
            self._wake(function)
