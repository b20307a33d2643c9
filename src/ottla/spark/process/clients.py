"""One client per process and configuration, kept for the next task.

Spark reuses its Python workers: a task that finds a client here neither connects nor requests metadata. A task
uses its client and leaves it open; idle ones end with their process, which Spark ends a minute after its last task.

The client, which is most of what there is to import, comes in with the first one that is made: a process that only
plans or commits starts without it.

Invariants: a client that is handed out was made in this process and is open. At most `MOST` are kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ottla.client.blocking.forks import on_fork
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.blocking.client import Client
    from ottla.config import ClientConfig

MOST: Final = 8
"""A worker that meets more configurations than this meets a new one each time, and must not collect connections."""

_CLOSE_TIMEOUT: Final = 1.0
"""Seconds, for pending requests: a task that has failed should say so, not wait for brokers."""


def client(config: ClientConfig, partitioner: str = "default") -> Client:
    """The client of this process for this configuration; never to be closed by its user."""
    return _clients.get(config, partitioner)


def discard(config: ClientConfig, partitioner: str = "default") -> None:
    """Lets the next task have a new client: after an error that leaves the state of this one in doubt."""
    _clients.discard(config, partitioner)


class _Clients:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[ClientConfig, str], Client] = OrderedDict()
        on_fork(self)

    def get(self, config: ClientConfig, partitioner: str) -> Client:
        from ottla.client.blocking.client import Client

        key = (config, partitioner)
        with self._lock:
            found = self._kept.get(key)
            if found is None or found.is_closed:
                found = self._kept[key] = Client(config=config, partitioner=partitioner)
            self._kept.move_to_end(key)
            surplus = self._kept.popitem(last=False)[1] if len(self._kept) > MOST else None
        _close(surplus)
        return found

    def discard(self, config: ClientConfig, partitioner: str) -> None:
        with self._lock:
            dropped = self._kept.pop((config, partitioner), None)
        _close(dropped)

    def forked(self) -> None:
        """In a forked child: the clients are the parent's, and so is the thread that holds the lock."""
        self._lock = threading.Lock()
        self._kept = OrderedDict()


def _close(dropped: Client | None) -> None:
    if dropped is None:
        return
    # What it had not delivered belongs to a task that has failed already.
    with suppress(KafkaError):
        dropped.close(_CLOSE_TIMEOUT)


_clients: Final = _Clients()
