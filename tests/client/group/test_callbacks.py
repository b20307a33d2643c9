"""RebalanceCallbacks: plain and asynchronous ones, what they raise, and which is called when there is no other."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from ottla.client.group.callbacks import RebalanceCallbacks, RebalanceListeners, run_on_loop
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ConfigurationError

PARTITIONS = [TopicPartition("orders", 1), TopicPartition("orders", 0)]


def call(listeners: RebalanceListeners, *what: str) -> list[Exception]:
    failed: list[Exception] = []

    async def main() -> None:
        callbacks = RebalanceCallbacks(listeners, partial(run_on_loop, "consumer"), failed.append)
        for each in what:
            await getattr(callbacks, each)(PARTITIONS)
            assert not callbacks.is_running

    asyncio.run(main())
    return failed


def test_plain_and_asynchronous_functions_get_the_consumer_and_its_partitions_in_order() -> None:
    log: list[Any] = []

    async def revoked(consumer: object, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0)
        log.append(("revoked", consumer, partitions))

    def assigned(consumer: object, partitions: list[TopicPartition]) -> None:
        log.append(("assigned", consumer, partitions))

    assert call(RebalanceListeners(assigned, revoked), "assigned", "revoked") == []
    both = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    assert log == [("assigned", "consumer", both), ("revoked", "consumer", both)]


def test_what_is_lost_is_revoked_for_a_program_that_does_not_tell_them_apart() -> None:
    log: list[str] = []
    listeners = RebalanceListeners(on_revoked=lambda *_: log.append("revoked"))
    call(listeners, "lost")
    call(RebalanceListeners(on_revoked=listeners.on_revoked, on_lost=lambda *_: log.append("lost")), "lost")
    assert log == ["revoked", "lost"]


def test_what_one_raises_goes_to_the_program_and_the_group_goes_on() -> None:
    def fails(*_: object) -> None:
        raise ValueError("out of my depth")

    failed = call(RebalanceListeners(fails, fails), "assigned", "revoked")
    assert [str(error) for error in failed] == ["out of my depth"] * 2


def test_nothing_is_called_for_no_partitions() -> None:
    async def main() -> None:
        called: list[object] = []
        listeners = RebalanceListeners(on_assigned=lambda *given: called.append(given))
        await RebalanceCallbacks(listeners, partial(run_on_loop, None), called.append).assigned([])
        assert called == []

    asyncio.run(main())


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="on_lost='x'"):
        RebalanceListeners(on_lost="x")  # type: ignore[arg-type]
