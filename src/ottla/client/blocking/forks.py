"""A forked child has its parent's client in memory, but neither its threads nor a right to its connections.

Clients and consumers register with `on_fork`; no call looks for a fork, so that it costs nothing.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakKeyDictionary

from ottla.errors import ForkedError


class Forkable(Protocol):
    """A client or a consumer: what a forked child has a copy of."""

    def forked(self) -> None:
        """Called in the child, before any of its own code runs."""


_clients: WeakKeyDictionary[Forkable, None] = WeakKeyDictionary()


def on_fork(client: Forkable) -> None:
    """Has `client.forked()` called in every child that is forked while the client lives."""
    _clients[client] = None


def forked_error() -> ForkedError:
    return ForkedError(
        "this client belongs to the process that this one was forked from; its connections cannot be shared: "
        "make a new client after the fork"
    )


def _notify_all() -> None:
    for client in list(_clients):
        client.forked()


os.register_at_fork(after_in_child=_notify_all)
