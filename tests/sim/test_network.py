"""The simulated network: the seed decides what arrives when, and links can be cut and healed."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from ottla.errors import ConnectionLostError
from ottla.net.channel import Channel
from ottla.net.connection import Connection
from ottla.runtime import Listener
from ottla.sim.network import CONNECT_TIMEOUT, Conditions, CutMode
from ottla.sim.runtime import SimRuntime, run
from ottla.wire.messages import HeartbeatRequest, HeartbeatResponse
from tests.net.peers import RawPeer, Recorder, framed
from tests.net.test_channel import Answering

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


async def node(runtime: SimRuntime, name: str, port: int = 9092) -> Listener:
    server = Answering()
    return await runtime.at(name).listen("10.0.0.1", port, lambda: Connection(server))


async def channel_from(runtime: SimRuntime, name: str, port: int = 9092) -> Channel:
    return await Channel.open(runtime.at(name), "10.0.0.1", port)


def test_what_arrives_takes_time_and_a_round_trip_twice_as_much() -> None:
    async def main(runtime: SimRuntime) -> None:
        await node(runtime, "node-1")
        channel = await channel_from(runtime, "client")
        began = runtime.clock.monotonic()
        assert await channel.request(HEARTBEAT, 4) == HeartbeatResponse(error_code=1)
        assert runtime.clock.monotonic() - began == pytest.approx(0.020)
        channel.close()
        await channel.wait_closed()

    run(main, seed=1, conditions=Conditions(min_latency=0.01, max_latency=0.01, jitter=0))


def test_a_link_can_be_slowed_down_in_one_direction() -> None:
    async def main(runtime: SimRuntime) -> None:
        await node(runtime, "node-1")
        channel = await channel_from(runtime, "client")

        async def round_trip() -> float:
            began = runtime.clock.monotonic()
            await channel.request(HEARTBEAT, 4)
            return runtime.clock.monotonic() - began

        runtime.network.slow_down("node-1", "client", 2.0)
        assert await round_trip() == pytest.approx(2.020)
        runtime.network.slow_down("client", "node-1", 1.0)
        assert await round_trip() == pytest.approx(3.020)
        runtime.network.speed_up("client", "node-1")
        assert await round_trip() == pytest.approx(2.020)
        runtime.network.heal_all()
        assert await round_trip() == pytest.approx(0.020)
        await close(channel)

    run(main, seed=1, conditions=Conditions(min_latency=0.01, max_latency=0.01, jitter=0))


def test_data_arrives_in_order_although_it_is_delayed_and_cut_up() -> None:
    async def main(runtime: SimRuntime) -> None:
        server = Recorder()
        listener = await runtime.listen("a", 0, lambda: Connection(server))
        peer = cast(RawPeer, await runtime.connect("a", listener.port, RawPeer))
        frames = [b"%d" % number * (number % 50) for number in range(500)]
        for frame in frames:
            peer.transport.write(framed(frame))
        await server.until_frames(500)
        assert server.frames == frames
        kinds = [delivery.kind for delivery in runtime.network.trace.latest]
        assert len(kinds) > 800
        assert kinds[:2] == ["open", "accept"]
        peer.transport.close()
        await server.until_lost()

    run(main, seed=3, conditions=Conditions(cut_up=1.0, jitter=0.01))


@pytest.mark.parametrize(
    "places", [("client", "node-1"), ("node-1", "client"), ("client", 9092), (9092, "client")]
)
def test_behind_a_silent_cut_everything_waits_until_it_is_healed(places: tuple[str | int, str | int]) -> None:
    async def main(runtime: SimRuntime) -> None:
        await node(runtime, "node-1")
        await node(runtime, "node-2", 9093)
        channel, other = await channel_from(runtime, "client"), await channel_from(runtime, "client", 9093)
        runtime.network.cut(*places)
        asking = asyncio.ensure_future(channel.request(HEARTBEAT, 4))
        await other.request(HEARTBEAT, 4)
        await runtime.clock.sleep(60)
        assert not asking.done()
        runtime.network.heal(*places)
        began = runtime.clock.monotonic()
        assert await asking == HeartbeatResponse(error_code=1)
        assert runtime.clock.monotonic() - began < 0.1
        await close(channel, other)

    run(main, seed=1)


def test_a_one_way_cut_lets_the_other_way_through() -> None:
    async def main(runtime: SimRuntime) -> None:
        await node(runtime, "node-1")
        channel = await channel_from(runtime, "client")
        runtime.network.cut("node-1", "client", "one way")
        asking = asyncio.ensure_future(channel.request(HEARTBEAT, 4))
        await runtime.clock.sleep(10)
        assert not asking.done()
        latest = runtime.network.trace.latest[-1]
        assert (latest.sender.partition("/")[0], latest.kind) == ("client", "data")
        runtime.network.heal_all()
        await asking
        await close(channel)

    run(main, seed=1)


def test_a_link_cut_twice_is_healed_when_both_are() -> None:
    async def main(runtime: SimRuntime) -> None:
        await node(runtime, "node-1")
        channel = await channel_from(runtime, "client")
        runtime.network.cut("client", "node-1")
        runtime.network.cut("client", 9092)
        asking = asyncio.ensure_future(channel.request(HEARTBEAT, 4))
        await runtime.clock.sleep(1)
        runtime.network.heal("client", "node-1")
        await runtime.clock.sleep(1)
        assert not asking.done()
        runtime.network.heal("client", 9092)
        await asking
        await close(channel)

    run(main, seed=1)


def test_a_cut_that_resets_breaks_what_is_there_and_refuses_what_is_new() -> None:
    async def main(runtime: SimRuntime) -> None:
        await node(runtime, "node-1")
        channel, other = await channel_from(runtime, "client"), await channel_from(runtime, "bystander")
        asking = asyncio.ensure_future(channel.request(HEARTBEAT, 4))
        await asyncio.sleep(0)
        runtime.network.cut("client", "node-1", "reset")
        with pytest.raises(ConnectionLostError, match="reset"):
            await asking
        with pytest.raises(ConnectionRefusedError):
            await channel_from(runtime, "client")
        await other.request(HEARTBEAT, 4)
        runtime.network.heal("client", "node-1")
        again = await channel_from(runtime, "client")
        await again.request(HEARTBEAT, 4)
        await close(again, other)

    run(main, seed=1)


def test_connections_can_be_reset_without_a_cut() -> None:
    async def main(runtime: SimRuntime) -> None:
        await node(runtime, "node-1")
        channel = await channel_from(runtime, "client")
        runtime.network.reset("node-1", "client")
        await channel.wait_closed()
        again = await channel_from(runtime, "client")
        await again.request(HEARTBEAT, 4)
        await close(again)

    run(main, seed=1)


@pytest.mark.parametrize("mode", ["silent", "one way"])
def test_connecting_across_a_silent_cut_times_out_as_on_linux(mode: CutMode) -> None:
    async def main(runtime: SimRuntime) -> None:
        await node(runtime, "node-1")
        runtime.network.cut("node-1", "client", mode)
        with pytest.raises(TimeoutError, match="does not answer client"):
            await channel_from(runtime, "client")
        assert runtime.clock.monotonic() == pytest.approx(CONNECT_TIMEOUT)
        runtime.network.heal("node-1", "client")
        channel = await channel_from(runtime, "client")
        await channel.request(HEARTBEAT, 4)
        await close(channel)

    run(main, seed=1)


def test_a_slow_reader_stops_the_writer_across_the_network() -> None:
    async def main(runtime: SimRuntime) -> None:
        server = Recorder()
        listener = await runtime.listen("a", 0, lambda: Connection(server))
        peer = cast(RawPeer, await runtime.connect("a", listener.port, RawPeer))
        peer.transport.pause_reading()
        await server.until(lambda: bool(server.connections))
        server.connection.send([bytes(100_000)])
        await runtime.clock.sleep(1)
        assert server.connection.pending_bytes == 100_000 - 5000
        peer.transport.resume_reading()
        await server.until(lambda: server.drains == 1)
        peer.transport.close()
        await server.until_lost()

    run(main, seed=1, conditions=Conditions(window=5000))


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_network_does_frames_stay_whole_and_in_order(seed: int) -> None:
    """Small windows, data in pieces, and receivers that pause at random, in both directions at once."""

    async def main(runtime: SimRuntime) -> None:
        random = runtime.at("test").random

        def dawdle(connection: Connection, _: memoryview) -> None:
            if random.random() < 0.3:
                connection.pause()
                runtime.clock.call_later(random.random() / 100, connection.resume)

        def echo(connection: Connection, frame: memoryview) -> None:
            connection.send([framed(bytes(frame))])
            dawdle(connection, frame)

        server, client = Recorder(on_frame=echo), Recorder(on_frame=dawdle)
        listener = await runtime.listen("a", 0, lambda: Connection(server))
        connection = cast(Connection, await runtime.connect("a", listener.port, lambda: Connection(client)))
        frames = [random.randbytes(random.choice([0, 1, 10, 3000, 100_000])) for _ in range(100)]
        for frame in frames:
            connection.send([framed(frame)])
            await runtime.clock.sleep(random.choice([0, 0, 0.001]))
        await client.until_frames(len(frames))
        assert server.frames == client.frames == frames
        connection.close()
        await client.until_lost()
        await server.until_lost()
        assert (client.losses, server.losses) == ([None], [None])

    window = [2000, 5000, 50_000, 200_000][seed % 4] + 1000 * (seed % 3)
    run(main, seed=seed, conditions=Conditions(cut_up=0.8, jitter=0.001, window=window))


async def close(*channels: Channel) -> None:
    for channel in channels:
        channel.close()
        await channel.wait_closed()


def test_messages_are_delayed_and_arrive_in_order_as_the_objects_that_they_are() -> None:
    async def main(runtime: SimRuntime) -> None:
        arrived: list[tuple[object, float]] = []
        messages = [object() for _ in range(20)]
        path = runtime.at("node-1").path_to("node-2")
        begin = runtime.clock.monotonic()
        for message in messages:
            path.carry("Fetch", lambda it: arrived.append((it, runtime.clock.monotonic())), message)
        assert not arrived
        await runtime.clock.sleep(1)
        assert [message for message, _ in arrived] == messages
        assert all(at - begin >= runtime.network.conditions.min_latency for _, at in arrived)

    run(main, seed=1)


def test_messages_wait_behind_a_cut_and_arrive_in_order_when_it_is_healed() -> None:
    async def main(runtime: SimRuntime) -> None:
        arrived: list[str] = []
        there = runtime.at("node-1").path_to("node-2")
        back = runtime.at("node-2").path_to("node-1")
        runtime.network.cut("node-1", "node-2", "one way")
        for number in range(3):
            there.carry("Fetch", arrived.append, f"there {number}")
            back.carry("Fetch", arrived.append, f"back {number}")
        await runtime.clock.sleep(10)
        assert arrived == ["back 0", "back 1", "back 2"]
        runtime.network.heal("node-1", "node-2")
        await runtime.clock.sleep(1)
        assert arrived[3:] == ["there 0", "there 1", "there 2"]

    run(main, seed=1)


def test_a_trace_has_the_names_of_messages_and_not_what_they_hold() -> None:
    def digest(name: str, message: object) -> str:
        async def main(runtime: SimRuntime) -> str:
            runtime.at("node-1").path_to("node-2").carry(name, lambda _: None, message)
            await runtime.clock.sleep(1)
            (arrival,) = runtime.network.trace.latest
            assert (arrival.sender.partition("/")[0], arrival.kind, arrival.size) == ("node-1", "message", 5)
            return runtime.network.trace.digest()

        return run(main, seed=1)

    assert digest("Fetch", 1) == digest("Fetch", 2) != digest("hurry", 1)


def test_a_machine_is_waited_for_until_something_arrives_that_it_sent() -> None:
    async def main(runtime: SimRuntime) -> None:
        loop = asyncio.get_running_loop()
        arrived: list[str] = []

        async def wait_for(machine: str) -> None:
            await runtime.network.next_arrival_from(machine)
            arrived.append(machine)

        waiting = [loop.create_task(wait_for(machine)) for machine in ("a", "b")]
        await asyncio.sleep(0)
        runtime.network.message_path("a", "c").carry("hello", int)
        await waiting[0]
        assert arrived == ["a"]
        runtime.network.message_path("b", "c").carry("hello", int)
        await waiting[1]

    run(main, seed=1)
