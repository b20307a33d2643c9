"""Simulations replay: from the seed alone, whatever process they run in. And they end properly, or say why not."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial

import pytest

from ottla.errors import KafkaError
from ottla.net.channel import Channel
from ottla.net.connection import Connection
from ottla.sim import SimRuntime, SimulationCallbackError, UnfinishedTasksError, run
from ottla.wire.messages import HeartbeatRequest
from tests.net.test_channel import Answering


async def traffic(runtime: SimRuntime) -> str:
    """Some machines that talk across a network that fails now and then."""
    for number in (1, 2):
        factory = partial(Connection, Answering())
        await runtime.at(f"node-{number}").listen("10.0.0.1", 9091 + number, factory)

    async def talk(name: str) -> None:
        client = runtime.at(name)
        for _ in range(5):
            channel = await Channel.open(client, "10.0.0.1", 9092 + client.random.randrange(2))
            for _ in range(client.random.randrange(5)):
                request = HeartbeatRequest(group_id="g" * client.random.randrange(500), generation_id=1)
                await channel.request(request, 4)
            channel.close()
            await channel.wait_closed()

    async def fail() -> None:
        for _ in range(3):
            await runtime.clock.sleep(runtime.random.random() * 0.01)
            runtime.network.cut("client-1", "node-1")
            await runtime.clock.sleep(0.01)
            runtime.network.heal("client-1", "node-1")

    await asyncio.gather(*[talk(f"client-{number}") for number in range(4)], fail())
    await runtime.clock.sleep(1)
    return runtime.network.trace.digest()


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    digests = [run(traffic, seed=seed) for seed in (1, 2, 3)]
    assert [run(traffic, seed=seed) for seed in (1, 2, 3)] == digests
    assert len(set(digests)) == 3


@pytest.mark.parametrize("hash_seed", ["0", "1", "12345"])
def test_another_process_gives_the_same_trace(hash_seed: str) -> None:
    program = "from tests.sim.test_runtime import traffic, run; print(run(traffic, seed=7))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == run(traffic, seed=7)


def test_debug_mode_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(traffic, seed=5)
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")
    assert run(traffic, seed=5) == expected


def test_every_simulation_begins_on_the_same_day() -> None:
    async def main(runtime: SimRuntime) -> datetime:
        await runtime.clock.sleep(86_400)
        return datetime.fromtimestamp(runtime.clock.time(), UTC)

    assert run(main, seed=1) == datetime(2026, 1, 2, tzinfo=UTC)


def test_machines_share_time_and_network_and_draw_for_themselves() -> None:
    async def main(runtime: SimRuntime) -> tuple[float, float, float]:
        one, two = runtime.at("one"), runtime.at("two")
        assert one is runtime.at("one") is two.at("one")
        assert one.clock is two.clock is runtime.clock
        assert one.network is two.network is runtime.network
        assert one.machine == "one"
        return one.random.random(), two.random.random(), runtime.random.random()

    drawn = run(main, seed=1)
    assert run(main, seed=1) == drawn
    assert len({*drawn, *run(main, seed=2)}) == 6


def test_what_main_returns_or_raises_comes_out() -> None:
    async def returns(runtime: SimRuntime) -> int:
        return runtime.seed

    async def fails(runtime: SimRuntime) -> None:
        raise LookupError("its own")

    assert run(returns, seed=42) == 42
    with pytest.raises(LookupError, match="its own"):
        run(fails, seed=1)


def test_tasks_left_behind_are_an_error_and_are_cancelled() -> None:
    ended: list[str] = []

    async def linger(name: str) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(1)
            ended.append(name)

    async def main(runtime: SimRuntime) -> None:
        tasks = [asyncio.create_task(linger(name), name=name) for name in ("first", "second", "third")]
        await asyncio.sleep(1)
        tasks.clear()

    with pytest.raises(
        UnfinishedTasksError, match=r"3 tasks wait: first in .*; second in .*; third in "
    ) as caught:
        run(main, seed=1)
    assert isinstance(caught.value, KafkaError)
    assert ended == ["first", "second", "third"]


def test_a_task_that_does_not_end_is_logged_and_left(caplog: pytest.LogCaptureFixture) -> None:
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                if asyncio.get_running_loop().is_closed():
                    raise

    async def main(runtime: SimRuntime) -> None:
        main.task = asyncio.create_task(stubborn(), name="stubborn")  # type: ignore[attr-defined]
        await asyncio.sleep(1)

    with pytest.raises(UnfinishedTasksError):
        run(main, seed=1)
    (record,) = (record for record in caplog.records if record.name == "ottla.sim")
    assert "ends with tasks that do not: " in record.getMessage()
    assert "stubborn in " in record.getMessage()


def test_a_failure_that_nobody_awaits_is_an_error() -> None:
    async def main(runtime: SimRuntime) -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    with pytest.raises(SimulationCallbackError) as caught:
        run(main, seed=1)
    assert "ZeroDivisionError" in caught.value.__notes__[0]


def test_an_error_of_main_comes_with_the_failures_that_led_to_it() -> None:
    async def main(runtime: SimRuntime) -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)
        raise LookupError

    with pytest.raises(LookupError) as caught:
        run(main, seed=1)
    assert "ZeroDivisionError" in caught.value.__notes__[0]
