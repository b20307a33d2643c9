"""FetchQueue: from the sources, on the loop, to whoever reads, in any thread.

Sources put in what they fetched, and errors; the reader takes one thing at a time. Everything that crosses, crosses
here, and per fetched partition, never per record. The loop's side learns that something was taken through `wake`.

Invariant: of every source at most one answer lies here that the reader has not begun, so that with the one being
read a consumer holds no more than 2 x fetch_max_bytes per broker (plus what a single larger batch exceeds that by).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from ottla.client.consume.fetched import FetchedPartition
from ottla.client.topic_partition import TopicPartition

Wake: TypeAlias = Callable[[Callable[[], None]], None]


class Failure:
    """An error that the reader raises, in its turn: behind what was fetched before it."""

    __slots__ = ("_error", "generation", "on_taken", "position", "tp")

    def __init__(
        self,
        error: Exception,
        tp: TopicPartition | None = None,
        *,
        generation: int = 0,
        position: int | None = None,
        on_taken: Callable[[], None] | None = None,
    ) -> None:
        self._error: Exception | None = error
        self.tp = tp
        self.generation = generation
        self.position = position
        """Where the reader is afterwards, if the error moves it."""
        self.on_taken = on_taken
        """Called on the loop."""

    def take_error(self) -> Exception:
        """Once: the frames of its traceback hold this, and should not lead back to it."""
        error, self._error = self._error, None
        assert error is not None
        return error


class Move:
    """A position that was lost and found elsewhere, for the reader who has read everything before that."""

    __slots__ = ("generation", "position", "tp")

    def __init__(self, tp: TopicPartition, position: int, *, generation: int) -> None:
        self.tp = tp
        self.position = position
        self.generation = generation


class Answer:
    """What one fetch brought: once the reader takes the first of it, the source may fetch the next."""

    __slots__ = ("_on_begun",)

    def __init__(self, on_begun: Callable[[], None]) -> None:
        self._on_begun: Callable[[], None] | None = on_begun

    def begin(self) -> Callable[[], None] | None:
        """What the loop has to be told; nothing from the second time on."""
        on_begun, self._on_begun = self._on_begun, None
        return on_begun


Item: TypeAlias = FetchedPartition | Failure | Move


class FetchQueue:
    """First in, first out.

    `on_ready` is called on the loop when there is something again after there was nothing, and when the end is
    reached. A reader that found nothing (None) waits for that; one that clears a flag, looks again and then waits for
    the flag misses nothing.
    """

    def __init__(self, wake: Wake | None = None) -> None:
        self._items: deque[Item] = deque()
        self._wake = wake or _at_once
        self.on_ready: Callable[[], None] | None = None
        self.is_complete = False
        """Nothing more will come: every partition has reached its stop."""

    def __len__(self) -> int:
        return len(self._items)

    # On the loop

    def put(self, item: Item) -> None:
        self._items.append(item)
        if len(self._items) == 1 and self.on_ready is not None:
            self.on_ready()

    def put_answer(self, parts: list[FetchedPartition], on_begun: Callable[[], None]) -> None:
        answer = Answer(on_begun)
        for part in parts:
            part.answer = answer
            self.put(part)

    def complete(self, is_complete: bool) -> None:
        if is_complete and not self.is_complete:
            self.is_complete = True
            if self.on_ready is not None:
                self.on_ready()
        else:
            self.is_complete = is_complete

    def discard(self) -> list[Item]:
        """Takes out everything; the callbacks of what is discarded are not called."""
        items: list[Item] = []
        while self._items:
            items.append(self._items.popleft())
        return items

    # By the reader

    def take_nowait(self) -> Item | None:
        """The next thing, or None. The source of an answer that is begun with it goes on."""
        try:
            item = self._items.popleft()
        except IndexError:
            return None
        tell: Callable[[], None] | None = None
        if isinstance(item, Failure):
            tell = item.on_taken
        elif isinstance(item, FetchedPartition) and isinstance(item.answer, Answer):
            tell = item.answer.begin()
        if tell is not None:
            try:
                self._wake(tell)
            except BaseException:
                # Ctrl-C, when the loop has been told: whoever goes on behind it gets what it has not got now.
                self._items.appendleft(item)
                raise
        return item

    def wake(self, function: Callable[[], None]) -> None:
        """Has a function called on the loop."""
        self._wake(function)


def _at_once(function: Callable[[], None]) -> None:
    function()
