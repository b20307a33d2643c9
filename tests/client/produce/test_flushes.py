"""Flush counts: it is done when all that it has named is, and not before everything is named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.client.produce.flushes import Flush
from tests.client.produce.batches import batch_of


def in_a_loop(body: Callable[[], None]) -> None:
    async def main() -> None:
        body()

    asyncio.run(main())


def test_nothing_to_wait_for_is_done_once_that_is_known() -> None:
    def body() -> None:
        flush = Flush()
        assert not flush.done.done()
        flush.complete()
        assert flush.done.done()

    in_a_loop(body)


def test_a_batch_that_ends_while_others_are_still_being_named_ends_nothing() -> None:
    def body() -> None:
        flush = Flush()
        first, _ = batch_of(1)
        second, _ = batch_of(1)
        flush.watch(first)
        first.complete(0, -1, None)
        assert (flush.left, flush.done.done()) == (0, False)
        flush.watch(second)
        flush.complete()
        assert not flush.done.done()
        second.complete(-1, -1, ValueError())
        assert flush.done.done()

    in_a_loop(body)


def test_every_part_of_a_split_batch_is_waited_for() -> None:
    def body() -> None:
        flush = Flush()
        batch, _ = batch_of(4)
        flush.watch(batch)
        flush.complete()
        parts = batch.split()
        assert len(parts) > 1
        for part in parts:
            assert not flush.done.done()
            part.complete(0, -1, None)
        assert flush.done.done()

    in_a_loop(body)


def test_held_records_are_waited_for_until_they_are_batches() -> None:
    def body() -> None:
        flush = Flush()
        flush.hold()
        flush.complete()
        batch, _ = batch_of(1)
        flush.watch(batch)
        flush.release()
        assert not flush.done.done()
        batch.complete(0, -1, None)
        assert flush.done.done()

    in_a_loop(body)


def test_a_flush_that_nobody_waits_for_any_more_takes_the_end() -> None:
    def body() -> None:
        flush = Flush()
        batch, _ = batch_of(1)
        flush.watch(batch)
        flush.complete()
        flush.done.cancel()
        batch.complete(0, -1, None)
        assert flush.left == 0

    in_a_loop(body)
