"""When the program asks for more: who waits for that, and when it has taken too long."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.group.polling import Polling
from tests.client.consume.test_reader import ORDERS, Reading


class Program:
    def __init__(self, *, blocks: bool = True) -> None:
        self.now = 0.0
        self.reading = Reading()
        self.is_called_back = False
        self.polling = Polling(
            self.reading.reader,
            self.reading.queue,
            lambda: self.now,
            10.0,
            blocks=blocks,
            is_called_back=lambda: self.is_called_back,
        )


def test_a_callback_that_asks_is_refused() -> None:
    program = Program()
    program.is_called_back = True
    with pytest.raises(RuntimeError, match="a callback of a rebalance has asked for records"):
        program.polling.asks()
    program.is_called_back = False
    assert not program.polling.asks()


def test_a_rebalance_waits_for_what_was_handed_out_and_the_next_poll_waits_for_the_rebalance() -> None:
    async def main() -> None:
        polling = Program().polling
        assert not polling.asks()
        polling.hands_out()
        rebalance = asyncio.ensure_future(polling.may_rebalance())
        await asyncio.sleep(0)
        assert not rebalance.done()
        assert polling.asks()
        poll = asyncio.ensure_future(polling.passed())
        await rebalance
        await asyncio.sleep(0)
        assert not poll.done()
        polling.rebalanced()
        await poll

    asyncio.run(main())


def test_a_poll_that_failed_or_brought_nothing_holds_nothing_up() -> None:
    async def main() -> None:
        polling = Program().polling
        polling.hands_out()
        polling.asks()  # and raises, or times out: nothing is handed out
        await polling.may_rebalance()
        polling.rebalanced()
        assert not polling.asks()
        assert not polling.asks()

    asyncio.run(main())


def test_a_program_may_allow_a_rebalance_before_it_polls() -> None:
    async def main() -> None:
        polling = Program().polling
        polling.hands_out()
        rebalance = asyncio.ensure_future(polling.may_rebalance())
        await asyncio.sleep(0)
        polling.allow()
        await rebalance
        polling.rebalanced()

    asyncio.run(main())


def test_a_rebalance_that_is_given_up_while_it_waits_lets_polls_go_on() -> None:
    async def main() -> None:
        polling = Program().polling
        polling.hands_out()
        rebalance = asyncio.ensure_future(polling.may_rebalance())
        await asyncio.sleep(0)
        rebalance.cancel()
        await asyncio.gather(rebalance, return_exceptions=True)
        assert not polling.asks()

    asyncio.run(main())


def test_without_the_option_nothing_waits() -> None:
    async def main() -> None:
        polling = Program(blocks=False).polling
        polling.hands_out()
        await polling.may_rebalance()

    asyncio.run(main())


def test_a_rebalance_that_waits_has_an_iteration_ask_at_its_next_record() -> None:
    async def main() -> None:
        program = Program()
        program.reading.put(ORDERS, 0, 10)
        assert program.reading.iterate(most=1)
        program.polling.hands_out()
        rebalance = asyncio.ensure_future(program.polling.may_rebalance())
        await asyncio.sleep(0)
        assert program.reading.reader.iterator is None
        program.polling.asks()
        await rebalance

    asyncio.run(main())


def test_a_program_is_overdue_when_it_neither_asks_nor_waits_nor_gets_on() -> None:
    async def main() -> None:
        program = Program()
        polling = program.polling
        program.now = 10.0
        assert not polling.is_overdue()
        program.now = 10.5
        assert polling.is_overdue()
        polling.asks()
        assert not polling.is_overdue()
        polling.is_waiting, program.now = True, 50.0
        assert not polling.is_overdue()
        polling.is_waiting, program.now = False, 59.0
        assert not polling.is_overdue()
        program.reading.put(ORDERS, 0, 10)
        program.reading.iterate(most=1)
        assert not polling.is_overdue()
        program.now = 69.5
        assert polling.is_overdue()
        program.reading.iterate(most=1)
        assert not polling.is_overdue()

    asyncio.run(main())
