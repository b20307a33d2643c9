"""BatchDelivery: the receipt for a table that was produced as one.

It is filled by the loop; any thread may look. What it knows per partition are ranges of offsets, not records.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping

from ottla.client.home_loop import HomeLoop
from ottla.client.produce.batch import ProducerBatch
from ottla.errors import KafkaError
from ottla.hooks import raise_outside

_logger = logging.getLogger("ottla.client.produce.producer")


class BatchDelivery:
    """How many rows, and what became of them.

    delivery = await kafka.produce_batch("orders", table)
    await delivery
    delivery.offsets()      # {0: [(17, 41)], 3: [(5, 9)]}
    """

    def __init__(
        self, topic: str, wait: Callable[[BatchDelivery, float | None], object] | None = None
    ) -> None:
        """`wait(delivery, timeout)` blocks the calling thread; the blocking client has one."""
        self.topic = topic
        self.count = 0
        self._error: BaseException | None = None
        self._offsets: dict[int, list[tuple[int, int]]] = {}
        self._left = 1
        self._callbacks: list[Callable[[BatchDelivery], object]] = []
        self._wait = wait
        # Made where no loop runs, it is completed by the code that made it.
        self._home = HomeLoop() if asyncio._get_running_loop() is not None else None

    def done(self) -> bool:
        """Whether every row is delivered or has failed."""
        return self._left == 0

    @property
    def error(self) -> BaseException | None:
        """The first error, if some rows have not been delivered."""
        return self._error

    def offsets(self) -> dict[int, list[tuple[int, int]]]:
        """For each partition, first and last offset of what has been delivered; without acknowledgements, nothing."""
        return {partition: list(ranges) for partition, ranges in sorted(self._offsets.items())}

    def add_done_callback(self, function: Callable[[BatchDelivery], object]) -> None:
        """Calls `function(delivery)` on the client's loop when all is done; at once if it is.

        What it raises is logged.
        """
        self._callbacks.append(function)
        if self.done() and function in self._callbacks:
            # It was, or became so in another thread meanwhile, which may or may not have seen the callback.
            self._call_back()

    def __await__(self) -> Generator[object, None, BatchDelivery]:
        if not self.done():
            if self._home is not None:
                self._home.check_running()
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()
            self.add_done_callback(lambda _: loop.call_soon_threadsafe(_wake, waiter))
            yield from waiter.__await__()
        return self._outcome()

    def result(self, timeout: float | None = None) -> BatchDelivery:
        """Blocks until all is done; raises the first error. For the blocking client."""
        if not self.done():
            if self._wait is None:
                raise RuntimeError(
                    "no other thread runs the loop: await the delivery instead of calling result()"
                )
            self._wait(self, timeout)
            if not self.done():
                raise TimeoutError(
                    f"the table for {self.topic} was not delivered within {timeout} s; it is still under way"
                )
        return self._outcome()

    def _outcome(self) -> BatchDelivery:
        if self._error is not None:
            raise self._error
        return self

    def __repr__(self) -> str:
        state = "under way" if not self.done() else "delivered" if self._error is None else repr(self._error)
        return f"<BatchDelivery of {self.count} records to {self.topic}: {state}>"

    # For the loop

    @property
    def is_over(self) -> bool:
        return self.done()

    def watch(self, batch: ProducerBatch) -> None:
        """One more batch is a part of it."""
        self.count += batch.encoded.count
        self._left += 1
        batch.listeners.append(self)

    def add_row(self) -> Callable[[object], None]:
        """One more record is a part of it, by itself: what to call with its receipt when it is done."""
        self.count += 1
        self._left += 1
        return self._row_done

    def complete(self) -> None:
        """Every part has been named."""
        self._part_done(None)

    def on_split(self, parts: int) -> None:
        self._left += parts - 1

    def on_done(self, batch: ProducerBatch, base_offset: int, error: BaseException | None) -> None:
        if base_offset >= 0:
            self._delivered(batch.encoded.partition, base_offset, base_offset + batch.encoded.count - 1)
        self._part_done(error)

    def _row_done(self, delivery: object) -> None:
        offset = getattr(delivery, "offset", -1)
        if offset >= 0:
            self._delivered(getattr(delivery, "partition", -1), offset, offset)
        self._part_done(getattr(delivery, "error", None))

    def _delivered(self, partition: int, first: int, last: int) -> None:
        ranges = self._offsets.setdefault(partition, [])
        if ranges and ranges[-1][1] + 1 == first:
            ranges[-1] = (ranges[-1][0], last)
        else:
            ranges.append((first, last))

    def _part_done(self, error: BaseException | None) -> None:
        if error is not None and self._error is None:
            self._error = error
        self._left -= 1
        if self._left == 0:
            self._call_back()

    def _call_back(self) -> None:
        while self._callbacks:
            try:
                function = self._callbacks.pop(0)
            except IndexError:
                return  # another thread was faster
            try:
                function(self)
            except (SystemExit, KeyboardInterrupt) as error:
                raise_outside(error)
            except BaseException:
                # The other callbacks, and the batches that came with this one's answer, must hear of it all the same.
                _logger.exception("the callback %r for a table to %s failed", function, self.topic)


class PartlySentError(KafkaError):
    """A table could not be handed over to the end; its first rows have been, and are under way.

    `sent` has a receipt for each topic with such rows: its `count` is how many they are, so that the rest of a table
    is `table.slice(error.sent[topic].count)`. Why the rest could not be handed over is the `__cause__`.
    """

    def __init__(self, sent: Mapping[str, BatchDelivery], cause: BaseException) -> None:
        rows = ", ".join(f"the first {receipt.count} rows for {topic}" for topic, receipt in sent.items())
        super().__init__(f"{rows} have been handed over to be sent, and the rest has not: {cause}")
        self.sent = sent


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
