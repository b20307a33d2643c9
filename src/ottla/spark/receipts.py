"""Receipts: what a task has handed over and does not know to be stored yet.

A receipt is filled in by the client's thread while it is looked at here. So whether it is done is asked before what
its error is: the other way round, a failure that comes in between would be forgotten.

Invariants: one that failed is never forgotten; those that are stored are, wherever they stand, so that a partition
that hangs does not let them pile up.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.produce.batch_delivery import BatchDelivery


class Receipts:
    """Those that are open, in the order in which they were handed over."""

    def __init__(self) -> None:
        self._open: list[BatchDelivery] = []

    def __len__(self) -> int:
        return len(self._open)

    @property
    def oldest(self) -> BatchDelivery:
        return self._open[0]

    @property
    def rows(self) -> int:
        return sum(delivery.count for delivery in self._open)

    def add(self, deliveries: Iterable[BatchDelivery]) -> None:
        self._open.extend(deliveries)

    def first_failed(self) -> BatchDelivery | None:
        """Forgets those that are stored; one that has an error, if there is any."""
        still_open = []
        for delivery in self._open:
            is_done = delivery.done()
            if delivery.error is not None:
                return delivery
            if not is_done:
                still_open.append(delivery)
        self._open = still_open
        return None
