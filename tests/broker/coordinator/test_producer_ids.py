"""Producer ids of a node: from the controller's blocks, none twice."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.coordinator.producer_ids import ProducerIdBlock
from ottla.errors import RequestTimedOutError


class Controller:
    """Hands out blocks of three, when it can be reached."""

    def __init__(self) -> None:
        self.blocks = 0
        self.reachable = True

    async def allocate_producer_ids(self) -> tuple[int, int]:
        await asyncio.sleep(0)
        if not self.reachable:
            raise RequestTimedOutError("the controller cannot be reached")
        self.blocks += 1
        return self.blocks * 1000, self.blocks * 1000 + 3


def test_a_block_is_used_up_before_the_next_is_requested() -> None:
    async def main() -> None:
        controller = Controller()
        ids = ProducerIdBlock(controller)
        assert [await ids.next() for _ in range(4)] == [1000, 1001, 1002, 2000]
        assert controller.blocks == 2

    asyncio.run(main())


def test_producers_that_come_at_once_share_a_block() -> None:
    async def main() -> None:
        controller = Controller()
        ids = ProducerIdBlock(controller)
        assert sorted(await asyncio.gather(*(ids.next() for _ in range(4)))) == [1000, 1001, 1002, 2000]
        assert controller.blocks == 2

    asyncio.run(main())


def test_without_the_controller_there_is_an_error_and_later_an_id() -> None:
    async def main() -> None:
        controller = Controller()
        ids = ProducerIdBlock(controller)
        controller.reachable = False
        with pytest.raises(RequestTimedOutError):
            await ids.next()
        controller.reachable = True
        assert await ids.next() == 1000

    asyncio.run(main())
