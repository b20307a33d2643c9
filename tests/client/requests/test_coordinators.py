"""Coordinators: what is known of them while several calls look them up and forget."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.client.requests.attempt import BrokerResponse
from ottla.client.requests.coordinators import Coordinators, CoordinatorType
from ottla.wire.messages import FindCoordinatorRequest, FindCoordinatorResponse


class Sender:
    """Responds when it is told to: broker 1 coordinates everything."""

    def __init__(self) -> None:
        self.responds = asyncio.Event()

    async def send_to_any(self, request: FindCoordinatorRequest) -> Any:
        await self.responds.wait()
        found = [
            FindCoordinatorResponse.Coordinator(key=key, node_id=1, host="h", port=1, error_code=0)
            for key in request.coordinator_keys
        ]
        return BrokerResponse(1, FindCoordinatorResponse(coordinators=found))


def test_a_coordinator_that_another_call_forgets_meanwhile_is_still_an_answer() -> None:
    async def body() -> None:
        sender: Any = Sender()
        coordinators = Coordinators(sender)
        sender.responds.set()
        await coordinators.find(CoordinatorType.GROUP, ["known"])
        sender.responds.clear()
        call = asyncio.ensure_future(coordinators.find(CoordinatorType.GROUP, ["known", "new"]))
        await asyncio.sleep(0)
        coordinators.forget(CoordinatorType.GROUP, "known")
        sender.responds.set()
        assert await call == {"known": 1, "new": 1}

    asyncio.run(body())
