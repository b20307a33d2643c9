"""Flush: waits for the batches that existed when it began, and for no others."""

from __future__ import annotations

import asyncio

from ottla.client.produce.batch import ProducerBatch


class Flush:
    """Counts what is left; `done` when that is nothing.

    Records that are held, because nothing is known of their topic yet, count as one for each topic; when it is known,
    all that are held by then are waited for.
    """

    def __init__(self) -> None:
        self.left = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_complete = False

    @property
    def is_over(self) -> bool:
        """Whether nobody waits any more: it is done, or was given up."""
        return self.done.done()

    async def wait(self) -> None:
        await self.done

    def watch(self, batch: ProducerBatch) -> None:
        self.left += 1
        # Whoever flushes again and again, for a moment each time, must not leave traces in what cannot be sent.
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
