"""What a connection is for: up to five per broker, so that nothing waits behind what is slower than itself.

A broker serves the requests of a connection one after the other. A fetch may wait for data, a JoinGroup for the
whole group, the creation of a topic for its replicas: none of them must hold up a heartbeat or a batch.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ottla.wire import Message, api_key


class Purpose(Enum):
    """The kinds of connections to one broker."""

    PRODUCE = "produce"
    FETCH = "fetch"
    GROUP = "group"
    """What waits for the other members of a group: JoinGroup and SyncGroup. Heartbeats are not among it."""
    SLOW = "slow"
    """What may wait for other brokers, up to a timeout that the request itself names."""
    GENERAL = "general"


_BY_API: Final = {
    api_key("Produce"): Purpose.PRODUCE,
    api_key("Fetch"): Purpose.FETCH,
    api_key("ShareFetch"): Purpose.FETCH,
    api_key("JoinGroup"): Purpose.GROUP,
    api_key("SyncGroup"): Purpose.GROUP,
}


def purpose_of(request: Message) -> Purpose:
    """The connection that a request goes over."""
    return purpose_of_class(type(request))


def purpose_of_class(request_class: type[Message]) -> Purpose:
    """The same for a request that is not made yet."""
    purpose = _BY_API.get(request_class.API_KEY)
    if purpose is None:
        purpose = Purpose.SLOW if "timeout_ms" in request_class.FIELDS else Purpose.GENERAL
    return purpose
