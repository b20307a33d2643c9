"""Coordinators: what is known of them while several calls ask and forget."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.client.requests.attempt import Answer
from ottla.client.requests.coordinators import Coordinators, CoordinatorType
from ottla.wire.messages import FindCoordinatorRequest, FindCoordinatorResponse


class Asking:
    """Answers when it is told to: broker 1 coordinates everything."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()

    async def ask_any(self, request: FindCoordinatorRequest) -> Any:
        await self.answers.wait()
        found = [
            FindCoordinatorResponse.Coordinator(key=key, node_id=1, host="h", port=1, error_code=0)
            for key in request.coordinator_keys
        ]
        return Answer(1, FindCoordinatorResponse(coordinators=found))


def test_a_coordinator_that_another_call_forgets_meanwhile_is_still_an_answer() -> None:
    async def body() -> None:
        asking: Any = Asking()
        coordinators = Coordinators(asking)
        asking.answers.set()
        await coordinators.find(CoordinatorType.GROUP, ["known"])
        asking.answers.clear()
        call = asyncio.ensure_future(coordinators.find(CoordinatorType.GROUP, ["known", "new"]))
        await asyncio.sleep(0)
        coordinators.forget(CoordinatorType.GROUP, "known")
        asking.answers.set()
        assert await call == {"known": 1, "new": 1}

    asyncio.run(body())
