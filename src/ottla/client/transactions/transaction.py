"""AsyncTransaction: one transaction, in the hands of a program; and the block that begins and ends one.

    async with kafka.transaction():
        await kafka.produce("orders", b"1")
        await kafka.produce("audit", b"1")

What is produced by the client while a transaction is open belongs to it. All the work is the manager's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ottla.client.deadline import check_timeout
from ottla.client.group.membership import GroupMetadata
from ottla.client.group.offsets import OffsetAndMetadata
from ottla.client.topic_partition import TopicPartition, check_partition
from ottla.client.transactions.prepared import PreparedTransaction
from ottla.errors import KafkaError, TransactionError, TransactionStateError

if TYPE_CHECKING:
    from ottla.client.home_loop import HomeLoop
    from ottla.client.transactions.manager import TransactionManager
    from ottla.runtime import Clock

OffsetsToSend = Mapping[TopicPartition, int | OffsetAndMetadata]


class AsyncTransaction:
    """An open transaction, until it is committed or aborted."""

    def __init__(self, manager: TransactionManager, home: HomeLoop, number: int) -> None:
        self._manager = manager
        self._home = home
        self._number = number
        self._outcome = ""

    @property
    def call_timeout(self) -> float:
        """How many seconds a call may take that names none."""
        return self._manager.call_timeout

    @property
    def clock(self) -> Clock:
        return self._manager.clock

    @property
    def is_over(self) -> bool:
        """Whether it is known to be committed or aborted."""
        return bool(self._outcome)

    async def commit(self, timeout: float | None = None) -> None:
        """Sends everything, and commits: readers of committed records see all of it, or nothing.

        AbortNeededError: something failed; abort, and begin another. TransactionPendingError: the outcome is not
        known within `timeout` seconds (default_api_timeout_ms); call it again. ProducerLostError: this client cannot
        go on.
        """
        await self._end("committed", timeout)

    async def abort(self, timeout: float | None = None) -> None:
        """Drops what was not sent, and has readers of committed records never see the rest."""
        await self._end("aborted", timeout)

    def begin_commit(self) -> asyncio.Future[TransactionError | None] | None:
        """`commit`, without waiting: for `raise_commit` when it is done, or takes too long; None if it is over."""
        if self._is_over("committed"):
            return None
        return self._manager.begin_end(self._number, commit=True)

    def raise_commit(self, ending: asyncio.Future[TransactionError | None], seconds: float) -> None:
        """What `commit` raises, or nothing: then it is committed."""
        self._manager.raise_end(ending, commit=True, seconds=seconds)
        self._outcome = "committed"

    def _is_over(self, outcome: str) -> bool:
        self._home.check()
        if self._outcome and self._outcome != outcome:
            raise TransactionStateError(f"the transaction is {self._outcome} already")
        return bool(self._outcome)

    async def _end(self, outcome: str, timeout: float | None) -> None:
        check_timeout(timeout)
        if self._is_over(outcome):
            return
        await self._manager.end(self._number, commit=outcome == "committed", timeout=timeout)
        self._outcome = outcome

    async def send_offsets(self, offsets: OffsetsToSend, group: Any, timeout: float | None = None) -> None:
        """Commits offsets of a group with the transaction: those of the next records to process.

        `group` is the consumer that has read them, or its `group_metadata()`.
        """
        self._home.check()
        check_timeout(timeout)
        self._check_open()
        await self._manager.send_offsets(self._number, offsets_to_send(offsets), group_of(group), timeout)

    async def prepare(self, timeout: float | None = None) -> PreparedTransaction:
        """Sends everything, and leaves the transaction open for another process, or this one, to end.

        What comes back is a value: hand it over, and end it with `commit_prepared` or `abort_prepared` of any client.
        Closing this client leaves it open; its coordinator aborts it after transaction_timeout_ms.
        """
        self._home.check()
        check_timeout(timeout)
        self._check_open()
        return await self._manager.prepare(self._number, timeout)

    def _check_open(self) -> None:
        if self._outcome:
            raise TransactionStateError(f"the transaction is {self._outcome} already")

    async def leave(self, error: BaseException | None) -> None:
        """The block that it was begun for is over: commits, or aborts after an error; nothing if that was done."""
        if self._outcome:
            return
        if error is not None:
            await self.abort_after(error)
            return
        try:
            await self.commit()
        except TransactionError as refused:
            if refused.abortable:
                await self.abort_after(refused)
            raise

    async def abort_after(self, error: BaseException) -> None:
        """Because of this error, which gets a note of what goes wrong."""
        try:
            await self.abort()
        except KafkaError as also:
            error.add_note(f"aborting the transaction failed too: {also}")


class AsyncTransactionBlock:
    """What `AsyncClient.transaction()` gives: begins one with `async with`, commits at its end, aborts on errors."""

    def __init__(self, manager: TransactionManager, home: HomeLoop) -> None:
        self._manager = manager
        self._home = home
        self._open: AsyncTransaction | None = None

    async def __aenter__(self) -> AsyncTransaction:
        self._home.check()
        self._open = AsyncTransaction(self._manager, self._home, await self._manager.begin())
        return self._open

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._open is not None
        await self._open.leave(error)


def offsets_to_send(offsets: OffsetsToSend) -> dict[TopicPartition, OffsetAndMetadata]:
    """Checked, and in one shape."""
    found = {
        check_partition(tp): each if isinstance(each, OffsetAndMetadata) else OffsetAndMetadata(each)
        for tp, each in offsets.items()
    }
    for tp, each in found.items():
        given: object = each.offset
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            raise ValueError(f"{tp}: {given!r} is no offset")
    return found


def group_of(given: Any) -> GroupMetadata:
    """Who commits: a consumer of a group, or what its `group_metadata()` gives."""
    if isinstance(given, GroupMetadata):
        return given
    metadata = getattr(given, "group_metadata", None)
    if metadata is None:
        raise TypeError(
            f"offsets are sent for a consumer of a group, or its group_metadata(), not {type(given).__name__}"
        )
    found = metadata()
    assert isinstance(found, GroupMetadata)
    return found
