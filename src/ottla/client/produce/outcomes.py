"""What became of batches: told to their records, to the hooks, to flush, and to those who wait for memory.

All on the loop. Receipts are completed here and nowhere else, so that nothing is told twice or not at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

from ottla.client.produce.batch import ProducerBatch
from ottla.errors import DeliveryError
from ottla.hooks import Hooks
from ottla.runtime import Clock


class Outcomes:
    """The end of every batch, and how many records have failed since somebody last asked."""

    def __init__(self, hooks: Hooks, clock: Clock) -> None:
        self._hooks = hooks
        self._clock = clock
        self._failed = 0
        self._first_error: BaseException | None = None
        # A deque, because other threads add to it; each call is for once.
        self._space_callbacks: deque[Callable[[], object]] = deque()

    def sealed(self, batch: ProducerBatch) -> None:
        if (tell := self._hooks.on_batch_sealed) is not None:
            tell(batch.view())

    def written(self, sent: Iterable[tuple[object, ProducerBatch]]) -> None:
        """The batches of one request, each with its RecBuf."""
        if (tell := self._hooks.on_batch_written) is not None:
            for _, batch in sent:
                tell(batch.view())

    def delivered(self, batch: ProducerBatch, base_offset: int, log_append_time: int, now: float) -> None:
        """Whoever calls this says `space_freed` once, when all batches of the answer are done."""
        batch.complete(base_offset, log_append_time, None)
        if (tell := self._hooks.on_batch_acknowledged) is not None:
            tell(batch.view(now))

    def failed(self, batch: ProducerBatch, error: BaseException) -> None:
        self.count_failed(batch.encoded.count, error)
        batch.complete(-1, -1, error)
        if (tell := self._hooks.on_batch_failed) is not None:
            tell(batch.view(self._clock.monotonic()), error)
        self.space_freed()

    def count_failed(self, records: int, error: BaseException) -> None:
        self._failed += records
        if self._first_error is None:
            self._first_error = error

    def raise_failures(self) -> None:
        """DeliveryError if records have failed since the last call."""
        failed, first = self._failed, self._first_error
        self._failed, self._first_error = 0, None
        if failed:
            raise DeliveryError(
                f"{failed} records were not delivered; the first error was: {first}", failed=failed
            ) from first

    def on_space(self, callback: Callable[[], object]) -> None:
        """Calls it once, on the loop, when memory has been freed; from any thread.

        Whoever finds the buffer full asks first and then tries once more: memory that was freed in between would
        not be told.
        """
        self._space_callbacks.append(callback)

    def forget(self, callback: Callable[[], object]) -> None:
        """Not wanted any more; the one who waits longest has given up first, so it is near the front."""
        with suppress(ValueError):
            self._space_callbacks.remove(callback)

    @property
    def is_space_wanted(self) -> bool:
        return bool(self._space_callbacks)

    def space_freed(self) -> None:
        # Only those who are there now: whoever finds it full again waits for the next time, behind nobody new.
        for _ in range(len(self._space_callbacks)):
            self._space_callbacks.popleft()()
