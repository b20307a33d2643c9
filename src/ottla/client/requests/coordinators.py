"""Which broker coordinates a group or a transactional id: looked up once, remembered until it turns out wrong.

One lookup is one attempt; the request that needs the coordinator waits and tries again.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from ottla.client.requests.attempt import NO_BROKER, RequestSender
from ottla.errors import CoordinatorNotAvailableError, KafkaError, from_code
from ottla.wire.messages import FindCoordinatorRequest, FindCoordinatorResponse


class CoordinatorType(IntEnum):
    """Kafka's numbers for what a coordinator coordinates."""

    GROUP = 0
    TRANSACTION = 1


class Coordinators:
    """The coordinators that one client knows."""

    def __init__(self, sender: RequestSender) -> None:
        self._sender = sender
        self._known: dict[tuple[CoordinatorType, str], int] = {}

    async def find(self, kind: CoordinatorType, keys: Sequence[str]) -> dict[str, int | KafkaError]:
        """The node id for each key, or what the broker said instead."""
        # Taken before anything is awaited: another call may forget one meanwhile.
        known = {key: self._known[kind, key] for key in keys if (kind, key) in self._known}
        unknown = [key for key in keys if key not in known]
        found = await self._look_up(kind, unknown) if unknown else {}
        return {key: known[key] if key in known else found[key] for key in keys}

    def known(self, kind: CoordinatorType, key: str) -> int | None:
        """The node id, if a broker has said it."""
        return self._known.get((kind, key))

    def forget(self, kind: CoordinatorType, key: str) -> None:
        """After it has said that it is none, or could not be reached."""
        self._known.pop((kind, key), None)

    async def _look_up(self, kind: CoordinatorType, keys: Sequence[str]) -> dict[str, int | KafkaError]:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        response = await self._sender.send_to_any(request)
        assert isinstance(response.message, FindCoordinatorResponse)
        found: dict[str, int | KafkaError] = {}
        for each in response.message.coordinators:
            error = from_code(each.error_code, each.error_message, broker=response.broker)
            if error is None and each.node_id == NO_BROKER:
                error = CoordinatorNotAvailableError(broker=response.broker)
            found[each.key] = error or each.node_id
            if error is None:
                self._known[kind, each.key] = each.node_id
        for key in keys:
            found.setdefault(key, CoordinatorNotAvailableError(broker=response.broker))
        return found
