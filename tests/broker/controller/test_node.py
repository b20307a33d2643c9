"""The controller as a server: the metadata log, who has fetched it, broker sessions, and how it stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from ottla import sim
from ottla.broker.controller import elections
from ottla.broker.controller.node import ControllerNode
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.names import METADATA_TOPIC
from ottla.broker.metadata.records import read_records
from ottla.errors import KafkaStorageError, NotControllerError
from ottla.net.channel import Channel
from tests.broker.controller.lone import SESSION, beat, create, join, with_controller
from tests.broker.log.failing import FailingFileSystem
from tests.broker.worlds import Body, World

Run = Callable[[Body], object]

MOST = 1 << 20
LONG = 60.0


def planted(*args: Any, **options: Any) -> NoReturn:
    raise LookupError("planted")


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


async def following(controller: ControllerNode, broker_id: int) -> asyncio.Task[Any]:
    """A fetch of a broker that has everything: it waits for the next decision."""
    fetch = asyncio.ensure_future(controller.read(broker_id, controller.log_end_offset, MOST, LONG))
    await asyncio.sleep(0)
    assert not fetch.done()
    return fetch


async def seconds_to_create(runtime: sim.SimRuntime, controller: ControllerNode, *replicas: int) -> float:
    began = runtime.clock.monotonic()
    await create(controller, "orders", *replicas)
    return runtime.clock.monotonic() - began


# The metadata log


def test_what_is_committed_is_applied_and_replays_into_the_same_image() -> None:
    async def body(runtime: sim.SimRuntime, controller: ControllerNode) -> None:
        bootstrap = controller.log_end_offset
        assert bootstrap == controller.state.image.offset + 1 > 0
        join(controller, 1)
        await create(controller, "orders", 1)
        assert controller.commit([]) == controller.log_end_offset == controller.state.image.offset + 1
        replayed = MetadataImage()
        while (data := await controller.read(2, replayed.offset + 1, 100, 0)) != b"":
            replayed.apply_all(read_records(data, replayed.offset + 1))
        assert replayed.offset == controller.state.image.offset > bootstrap
        assert replayed.topics == controller.state.image.topics
        assert replayed.brokers == controller.state.image.brokers

    with_controller(body)


def test_a_read_of_the_log_waits_for_the_next_decision() -> None:
    async def body(runtime: sim.SimRuntime, controller: ControllerNode) -> None:
        end = controller.log_end_offset
        fetch = await following(controller, 1)
        await runtime.clock.sleep(5)
        assert not fetch.done()
        join(controller, 1)
        began = runtime.clock.monotonic()
        records = list(read_records(await fetch, end))
        assert records
        assert runtime.clock.monotonic() == began

    with_controller(body)


def test_a_read_of_the_log_comes_back_with_nothing_when_its_time_is_up() -> None:
    async def body(runtime: sim.SimRuntime, controller: ControllerNode) -> None:
        began = runtime.clock.monotonic()
        assert await controller.read(1, controller.log_end_offset, MOST, 10) == b""
        assert runtime.clock.monotonic() - began == pytest.approx(10)

    with_controller(body)


# Who has fetched it


def test_a_response_waits_until_a_connected_node_has_fetched_the_decision() -> None:
    async def body(runtime: sim.SimRuntime, controller: ControllerNode) -> None:
        join(controller, 1)
        fetch = await following(controller, 1)
        creating = asyncio.ensure_future(create(controller, "orders", 1))
        await fetch
        await runtime.clock.sleep(0.5)
        assert not creating.done(), "what was sent may not have arrived"
        fetch = await following(controller, 1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert creating.done()
        await creating
        fetch.cancel()

    with_controller(body)


def test_a_response_waits_for_a_second_at_most() -> None:
    async def body(runtime: sim.SimRuntime, controller: ControllerNode) -> None:
        join(controller, 1)
        fetch = await following(controller, 1)
        assert await seconds_to_create(runtime, controller, 1) == pytest.approx(1)
        assert fetch.done()

    with_controller(body)


@pytest.mark.parametrize("why", ["never connected", "fenced", "connection lost", "stopped by itself"])
def test_no_response_waits_for_a_node_that_cannot_fetch(why: str) -> None:
    async def body(runtime: sim.SimRuntime, controller: ControllerNode) -> None:
        join(controller, 1, 2)
        if why != "never connected":
            fetch = await following(controller, 2)
            if why == "fenced":
                controller.commit(controller.state.fence_broker(2))
            elif why == "connection lost":
                fetch.cancel()
                await asyncio.sleep(0)
            else:
                controller.forget(2)
        assert await seconds_to_create(runtime, controller, 1) == 0

    with_controller(body)


def test_a_fetch_on_a_connection_that_was_replaced_ends_without_a_trace() -> None:
    async def body(runtime: sim.SimRuntime, controller: ControllerNode) -> None:
        join(controller, 1)
        old = await following(controller, 1)
        await following(controller, 1)
        old.cancel()
        await asyncio.sleep(0)
        assert await seconds_to_create(runtime, controller, 1) == pytest.approx(1), (
            "the node is still connected"
        )

    with_controller(body)


# Sessions


def test_a_broker_that_falls_silent_is_fenced_when_its_session_is_over() -> None:
    async def body(runtime: sim.SimRuntime, controller: ControllerNode) -> None:
        brokers = controller.state.image.brokers
        join(controller, 1, 2)
        for _ in range(10):
            await runtime.clock.sleep(SESSION / 5)
            beat(controller, 1)
        assert (brokers[1].fenced, brokers[2].fenced) == (False, True)
        await runtime.clock.sleep(SESSION - 0.1)
        assert not brokers[1].fenced
        await runtime.clock.sleep(0.2)
        assert brokers[1].fenced

    with_controller(body)


@pytest.mark.parametrize("alive", [True, False])
def test_a_controller_that_was_asleep_gives_brokers_the_time_for_a_heartbeat(alive: bool) -> None:
    async def body(runtime: sim.SimRuntime, controller: ControllerNode) -> None:
        join(controller, 1)
        runtime.clock.advance(100)
        await runtime.clock.sleep(0.1)
        assert not controller.state.image.brokers[1].fenced
        if alive:
            beat(controller, 1)
        await runtime.clock.sleep(0.2)
        assert controller.state.image.brokers[1].fenced is not alive

    with_controller(body)


# Its end


def test_a_controller_that_was_stopped_does_nothing_by_itself() -> None:
    async def body(runtime: sim.SimRuntime, controller: ControllerNode) -> None:
        join(controller, 1)
        await controller.stop()
        await runtime.clock.sleep(2 * SESSION)
        assert not controller.state.image.brokers[1].fenced
        assert controller.failure is None

    with_controller(body)


def test_a_controller_that_fails_decides_and_serves_nothing_more() -> None:
    async def body(runtime: sim.SimRuntime, controller: ControllerNode) -> None:
        join(controller, 1)
        end = controller.log_end_offset
        controller.fail("a test wants it", LookupError("planted"))
        assert controller.failure == "a test wants it: LookupError: planted"
        controller.fail("and once more", LookupError("planted"))
        assert controller.failure.startswith("a test wants it"), "the first failure is the reason"
        with pytest.raises(NotControllerError, match="a test wants it: LookupError: planted"):
            await create(controller, "orders", 1)
        await asyncio.gather(controller.stop(), controller.stop())
        assert controller.state.image.offset == end - 1
        with pytest.raises(ConnectionRefusedError):
            await Channel.open(runtime, controller.host, controller.port, client_id="test")
        await runtime.clock.sleep(2 * SESSION)
        assert not controller.state.image.brokers[1].fenced, "its timers have ended"

    with_controller(body)


def test_a_decision_that_cannot_be_written_is_none(run: Run) -> None:
    async def body(world: World) -> None:
        fs = FailingFileSystem()
        cluster = world.cluster(1)
        cluster.volumes.controller = fs
        async with cluster:
            fs.fail_if(lambda call, path: call == "append" and METADATA_TOPIC in path)
            for refused in (cluster.create_topic("orders"), cluster.create_topic("orders")):
                with pytest.raises(KafkaStorageError):
                    await refused
            fs.mend()
            await cluster.create_topic("orders")
            assert cluster.failures == {}
            assert cluster.leader("orders") == 1

    run(body)


@pytest.mark.parametrize("loop", ["sessions", "preferred leaders", "unclean leaders", "decision"])
def test_a_controller_stops_when_one_of_its_loops_fails(
    run: Run, loop: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics=["orders"]) as cluster:
            controller = cluster.controller
            with monkeypatch.context() as patch:
                if loop == "sessions":
                    patch.setattr(controller.state, "expire", planted)
                    cluster.clock.advance(1)
                elif loop == "preferred leaders":
                    patch.setattr(elections, "preferred", planted)
                    cluster.clock.advance(301)
                elif loop == "unclean leaders":
                    patch.setattr(elections, "unclean", planted)
                    cluster.clock.advance(301)
                else:
                    patch.setattr(controller.state, "apply", planted)
                    with pytest.raises(LookupError):
                        await cluster.delete_topic("orders")
                await cluster.wait_for(lambda: controller.failure is not None, "the end of the controller")
            assert "the controller stops" in "".join(errors(caplog))
            with pytest.raises(RuntimeError, match=r"controller has stopped: .*LookupError: planted"):
                await cluster.create_topic("late")
            await controller.stop()
            with pytest.raises(ConnectionRefusedError):
                await Channel.open(world.runtime, controller.host, controller.port, client_id="test")

    run(body)
