"""Processing: what becomes of a record that the program's own function fails on.

    kafka.consume("orders", group="billing").process(bill, retries=3, on_failure=DeadLetters("orders.dead"))

It is tried again, with a growing delay; then the error is raised, and the consumer stays in front of the record, or
the record is skipped, or it is kept in another topic. What was skipped or kept is committed: it does not come again.

`FailingRecord` counts and decides; the two consumers call, wait and send, that of asyncio by `retry_record`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ottla.client.backoff import Backoff
from ottla.client.consume.dead_letters import DeadLetters
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ConfigurationError

if TYPE_CHECKING:
    from ottla.client.consume.consumer import AsyncConsumer

_logger = logging.getLogger("ottla.client.consume.consumer")

OnFailure: TypeAlias = Literal["raise", "skip"] | DeadLetters
"""What becomes of a record that cannot be processed."""


def check_processing(function: object, retries: object, on_failure: object) -> None:
    """A ConfigurationError for what cannot be meant: as a failure, it would cost every record."""
    if not callable(function):
        raise ConfigurationError(f"process({function!r}): it is called with each record", option="function")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ConfigurationError(f"retries={retries!r}: a whole number from 0", option="retries")
    if not isinstance(on_failure, DeadLetters) and on_failure not in ("raise", "skip"):
        raise ConfigurationError(
            f"on_failure={on_failure!r}: write 'raise', 'skip' or DeadLetters(topic)", option="on_failure"
        )


class FailingRecord:
    """One record that the function has failed on."""

    def __init__(self, record: Any, retries: int, backoff: Backoff) -> None:
        self.record = record
        self.partition = TopicPartition(record.topic, record.partition)
        self._retries = retries
        self._backoff = backoff
        self._failures = 0

    def failed(self, error: Exception) -> float | None:
        """How long to wait before it is tried again; None: it is not."""
        if self._failures >= self._retries:
            return None
        delay = self._backoff.delay(self._failures)
        self._failures += 1
        _logger.info(
            "%s, offset %d failed: %r; again in %.3g s", self.partition, self.record.offset, error, delay
        )
        return delay

    def skipped(self, error: Exception) -> None:
        _logger.warning(
            "%s, offset %d is skipped: it failed %d times, the last time with %r",
            self.partition,
            self.record.offset,
            self._failures + 1,
            error,
        )


def is_unfinished(result: object) -> bool:
    """Whether what a program's function has returned is still to be awaited; it is given up then."""
    if inspect.iscoroutine(result):
        result.close()
    return inspect.isawaitable(result)


async def call_with(function: Callable[[Any], object], record: Any) -> None:
    """Calls the program's function, plain or asynchronous."""
    result = function(record)
    if inspect.isawaitable(result):
        await result


async def retry_record(
    consumer: AsyncConsumer,
    function: Callable[[Any], object],
    failing: FailingRecord,
    error: Exception,
    then: OnFailure,
) -> None:
    """Returns when the consumer may go on behind the record."""
    while (delay := failing.failed(error)) is not None:
        await consumer.clock.sleep(delay)
        if not consumer.is_read(failing.partition):
            return  # another member of the group gets it
        try:
            await call_with(function, failing.record)
        except Exception as again:  # noqa: BLE001  whatever the program's function raises is its failure
            error = again
        else:
            return
    if then == "raise":
        consumer.stay_at(failing)
        raise error
    if isinstance(then, DeadLetters):
        try:
            await consumer.with_producer(then).send_record(failing.record, error)
        except Exception:
            consumer.stay_at(failing)
            raise
    else:
        failing.skipped(error)
    await consumer.settle_failure(failing.record)
