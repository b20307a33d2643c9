"""`Transaction`: a transaction of the client that blocks; `AsyncTransaction` does the work, and says more.

with kafka.transaction() as transaction:
    kafka.produce("orders", b"1")
    transaction.send_offsets({TopicPartition("requests", 0): 1}, consumer)
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ottla.client.deadline import check_timeout
from ottla.errors import TransactionError

if TYPE_CHECKING:
    from ottla.client.blocking.driver import Driver
    from ottla.client.transactions.prepared import PreparedTransaction
    from ottla.client.transactions.transaction import AsyncTransaction, OffsetsToSend


class Transaction:
    """An open transaction, until it is committed or aborted."""

    def __init__(self, transaction: AsyncTransaction, driver: Driver) -> None:
        self._transaction = transaction
        self._driver = driver

    @property
    def is_over(self) -> bool:
        """Whether it is known to be committed or aborted."""
        return self._transaction.is_over

    def commit(self, timeout: float | None = None) -> None:
        """Sends everything, and commits: readers of committed records see all of it, or nothing."""
        check_timeout(timeout)
        # As `commit` of the transaction, without a coroutine: that costs as much as all that is done here.
        transaction = self._transaction
        seconds = transaction.call_timeout if timeout is None else timeout
        ending = self._driver.begin_and_wait(transaction.begin_commit, seconds, transaction.clock)
        if ending is not None:
            transaction.raise_commit(ending, seconds)

    def abort(self, timeout: float | None = None) -> None:
        """Drops what was not sent, and has readers of committed records never see the rest."""
        self._driver.call(self._transaction.abort(timeout))

    def send_offsets(self, offsets: OffsetsToSend, group: Any, timeout: float | None = None) -> None:
        """Commits offsets of a group with the transaction: those of the next records to process."""
        self._driver.call(self._transaction.send_offsets(offsets, group, timeout))

    def prepare(self, timeout: float | None = None) -> PreparedTransaction:
        """Sends everything, and leaves the transaction open for another process, or this one, to end."""
        return self._driver.call(self._transaction.prepare(timeout))

    def leave(self, error: BaseException | None) -> None:
        """The block that it was begun for is over."""
        if error is not None:
            self._driver.call(self._transaction.leave(error))
        elif not self.is_over:
            try:
                self.commit()
            except TransactionError as refused:
                if refused.abortable:
                    self._driver.call(self._transaction.abort_after(refused))
                raise


class TransactionBlock:
    """What `Client.transaction()` gives: begins one with `with`, commits at its end, aborts on errors."""

    def __init__(self, begin: Callable[[], Transaction]) -> None:
        self._begin = begin
        self._open: Transaction | None = None

    def __enter__(self) -> Transaction:
        self._open = self._begin()
        return self._open

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._open is not None
        self._open.leave(error)
