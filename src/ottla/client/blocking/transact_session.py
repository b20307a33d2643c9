"""`TransactSession`: the session of the client that blocks; `AsyncTransactSession` says what makes it safe.

    with kafka.transact_session("orders", group="billing") as session:
        while True:
            records = session.poll()
            session.begin()
            for record in records:
                session.produce("bills", record.value)
            session.end()

Polling and positions belong to the thread that calls, as with any consumer; the rest is done on the client's loop.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.client.blocking.group_consumer import GroupConsumer
from ottla.client.deadline import check_timeout

if TYPE_CHECKING:
    from ottla.client.blocking.driver import Driver
    from ottla.client.transactions.session import AsyncTransactSession
    from ottla.runtime import Runtime
    from ottla.wire.records import Delivery


class TransactSession:
    """What `Client.transact_session()` gives. Leaves the group with `close`, its `with` or its client."""

    def __init__(
        self,
        session: AsyncTransactSession,
        driver: Driver,
        runtime: Runtime,
        produce: Callable[..., Delivery],
    ) -> None:
        self._session = session
        self._driver = driver
        self.produce = produce
        """As `produce` of the client, which may be used as well."""
        self.consumer = GroupConsumer(session.consumer, driver, runtime)
        """What reads: for `assignment()`, `health()`, `pause()` and the like. It commits nothing itself."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._driver.call(self._session.leave(error))

    def poll(self, max_records: int | None = None, timeout: float | None = None) -> list[Any]:
        """The next records, as `poll` of a consumer gives them."""
        was_polled = self._session.about_to_poll()
        records = self.consumer.poll(max_records, timeout)
        self._session.polled(was_polled, records)
        return records

    def begin(self, timeout: float | None = None) -> None:
        """Begins a transaction, for what was polled since the last one ended."""
        self._driver.call(self._session.begin(timeout))

    def end(self, commit: bool = True, timeout: float | None = None) -> bool:
        """Commits what was produced, with the offsets of what was polled; whether it is committed.

        False: it was aborted, since that was wanted or a rebalance has taken partitions; the same records come again.
        """
        check_timeout(timeout)
        session = self._session
        try:
            return self._driver.call(session.finish(commit, session.consumer.uncommitted(), timeout))
        finally:
            if session.must_rewind:
                session.rewind()

    def close(self) -> None:
        """Aborts a transaction that is open, and leaves the group."""
        self._driver.call(self._session.close())
