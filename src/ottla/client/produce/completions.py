"""What became of batches: their receipts are completed; hooks, flushes and waiting appends hear of it.

All on the loop. Receipts are completed here and nowhere else, so that each is completed exactly once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

from ottla.client.produce.batch import ProducerBatch
from ottla.errors import DeliveryError
from ottla.hooks import Hooks
from ottla.runtime import Clock


class Completions:
    """The end of every batch, how many records have failed since the last flush, and what waits for memory."""

    def __init__(self, hooks: Hooks, clock: Clock) -> None:
        self._hooks = hooks
        self._clock = clock
        self._failed = 0
        self._first_error: BaseException | None = None
        self.on_failed: Callable[[BaseException, bool], None] | None = None
        """Called with the error of records that have failed, and whether they were sent: their transaction has to
        know."""
        self.on_delivered: Callable[[float], None] | None = None
        """Called with the time at which a batch was delivered."""
        # A deque, because other threads add to it; each callback is called once.
        self.space_waiters: deque[Callable[[], object]] = deque()

    def sealed(self, batch: ProducerBatch) -> None:
        if (on_batch_sealed := self._hooks.on_batch_sealed) is not None:
            on_batch_sealed(batch.view())

    def written(self, sent: Iterable[tuple[object, ProducerBatch]]) -> None:
        """The batches of one request, each with its RecBuf."""
        if (on_batch_written := self._hooks.on_batch_written) is not None:
            for _, batch in sent:
                on_batch_written(batch.view())

    def delivered(self, batch: ProducerBatch, base_offset: int, log_append_time: int, now: float) -> None:
        """The sink calls `space_freed` once, when all batches of the response are done."""
        if self.on_delivered is not None:
            self.on_delivered(now)
        batch.complete(base_offset, log_append_time, None)
        if (on_batch_acknowledged := self._hooks.on_batch_acknowledged) is not None:
            on_batch_acknowledged(batch.view(now))

    def failed(self, batch: ProducerBatch, error: BaseException) -> None:
        self.count_failed(batch.encoded.count, error, is_sent=batch.attempts > 0)
        batch.complete(-1, -1, error)
        if (on_batch_failed := self._hooks.on_batch_failed) is not None:
            on_batch_failed(batch.view(self._clock.monotonic()), error)
        self.space_freed()

    def count_failed(self, records: int, error: BaseException, *, is_sent: bool = False) -> None:
        self._failed += records
        if self._first_error is None:
            self._first_error = error
        if self.on_failed is not None:
            self.on_failed(error, is_sent)

    def forget_failures(self) -> None:
        """The program knows of those that have failed so far."""
        self._failed, self._first_error = 0, None

    def raise_failures(self) -> None:
        """DeliveryError if records have failed since the last call."""
        failed, first = self._failed, self._first_error
        self.forget_failures()
        if failed:
            raise DeliveryError(
                f"{failed} records were not delivered; the first error was: {first}", failed=failed
            ) from first

    def on_space(self, callback: Callable[[], object]) -> None:
        """Calls it once, on the loop, when memory has been freed; from any thread.

        A caller that finds the buffer full calls this first and then appends once more: it would not hear of
        memory that was freed in between.
        """
        self.space_waiters.append(callback)

    def forget(self, callback: Callable[[], object]) -> None:
        """The caller has given up. The one that waits longest does so first, so it is near the front."""
        with suppress(ValueError):
            self.space_waiters.remove(callback)

    def space_freed(self) -> None:
        # Only those that wait now: an append that finds the buffer full again waits for the next time.
        for _ in range(len(self.space_waiters)):
            self.space_waiters.popleft()()


class Flush:
    """Counts the batches that were there when it began; `done` when all of them are.

    The records of a topic that is still unknown count as one; when it is known, all that have come by then are
    waited for.
    """

    def __init__(self) -> None:
        self.left = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_complete = False

    @property
    def is_over(self) -> bool:
        """Whether the caller waits no more: it is done, or was given up."""
        return self.done.done()

    async def wait(self) -> None:
        await self.done

    def watch(self, batch: ProducerBatch) -> None:
        self.left += 1
        # A program that flushes again and again, with short timeouts, must not leave traces in what cannot be sent.
        batch.listeners = [each for each in batch.listeners if not each.is_over]
        batch.listeners.append(self)

    def hold(self) -> None:
        """Something will become batches later."""
        self.left += 1

    def release(self) -> None:
        self.left -= 1
        self._check()

    def complete(self) -> None:
        """Everything to wait for has been named."""
        self._is_complete = True
        self._check()

    def on_split(self, parts: int) -> None:
        self.left += parts - 1

    def on_done(self, batch: ProducerBatch, base_offset: int, error: BaseException | None) -> None:
        self.release()

    def _check(self) -> None:
        if self._is_complete and self.left == 0 and not self.done.done():
            self.done.set_result(None)
