"""The connections to one broker: opened when wanted, shared by who wants them, closed with an error for who waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.connections.broker import Broker
from ottla.client.connections.purposes import Purpose
from ottla.errors import (
    ClientClosedError,
    ConnectionFailedError,
    ConnectionLostError,
    UnknownBrokerError,
    UnsupportedApiError,
)
from ottla.hooks import Hook
from ottla.wire import Message
from ottla.wire.messages import (
    ApiVersionsResponse,
    CreateTopicsRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataRequest,
    MetadataResponse,
    RequestHeader,
)
from tests.client.connections.peers import PlayedBroker, answer
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]


def silent(header: RequestHeader) -> list[bytes]:
    return []


async def played_with(
    world: World,
    *hooks: object,
    greet: Callable[[RequestHeader], list[bytes]] | None = None,
    **options: Any,
) -> tuple[PlayedBroker, Broker]:
    played = await PlayedBroker(greet).listen(world)
    return played, world.parts(played.bootstrap, *hooks, **options).brokers.get(-1)


class Attempts(Hook):
    """Keeps what became of attempts to connect, and when."""

    def __init__(self, world: World) -> None:
        self._clock = world.runtime.clock
        self.at: list[float] = []
        self.errors: list[BaseException | None] = []

    def on_broker_connect(
        self, node_id: int, host: str, port: int, seconds: float, error: BaseException | None
    ) -> None:
        self.at.append(self._clock.monotonic() - seconds)
        self.errors.append(error)


async def somewhere_dead(world: World) -> str:
    """An address where nobody listens."""
    played = await PlayedBroker().listen(world)
    await played.close()
    return played.bootstrap


def test_each_purpose_and_lane_has_a_connection_of_its_own_which_stays(run: Run) -> None:
    async def body(world: World) -> None:
        played, broker = await played_with(world)
        before = broker.is_connected
        wanted = [*((purpose, 0) for purpose in Purpose), (Purpose.FETCH, 1)]
        opened = [await broker.connection(purpose, lane) for purpose, lane in wanted]
        assert [await broker.connection(purpose, lane) for purpose, lane in wanted] == opened
        assert len(played.connections) == len(wanted) == len({id(each) for each in opened})
        assert [each.purpose for each in opened] == [purpose for purpose, _ in wanted]
        assert (before, broker.is_connected) == (False, True)
        await played.close()

    run(body)


def test_all_who_want_a_connection_share_one_attempt_and_one_may_give_up(run: Run) -> None:
    async def body(world: World) -> None:
        played, broker = await played_with(world)
        waiters = [asyncio.ensure_future(broker.connection(Purpose.FETCH)) for _ in range(5)]
        await asyncio.sleep(0)
        waiters[0].cancel()
        first, *rest = await asyncio.gather(*waiters, return_exceptions=True)
        assert isinstance(first, asyncio.CancelledError)
        assert [each is rest[0] for each in rest] == [True] * 4
        assert len(played.connections) == 1
        await played.close()

    run(body)


def test_an_attempt_that_nobody_waits_for_any_more_leaves_nothing_behind(run: Run) -> None:
    async def body(world: World) -> None:
        broker = world.parts(await somewhere_dead(world)).brokers.get(-1)
        waiting = asyncio.ensure_future(broker.connection(Purpose.FETCH))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        with pytest.raises(ConnectionFailedError):
            await broker.connection(Purpose.FETCH)

    run(body)


def test_a_refused_connection_is_an_error_that_says_where_and_why(run: Run) -> None:
    async def body(world: World) -> None:
        dead = await somewhere_dead(world)
        broker = world.parts(dead).brokers.get(-1)
        waiters = [broker.connection(Purpose.GENERAL) for _ in range(2)]
        first, second = await asyncio.gather(*waiters, return_exceptions=True)
        assert isinstance(first, ConnectionFailedError)
        assert isinstance(second, ConnectionFailedError)
        assert first is not second
        assert f"cannot connect to bootstrap server ({dead}): " in str(first)
        assert isinstance(first.__cause__, ConnectionRefusedError)
        assert broker.is_failing

    run(body)


def test_attempts_keep_their_distance_which_grows(run: Run) -> None:
    async def body(world: World) -> None:
        attempts = Attempts(world)
        options = {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 60}
        broker = world.parts(await somewhere_dead(world), attempts, **options).brokers.get(-1)
        for _ in range(5):
            with pytest.raises(ConnectionFailedError):
                await broker.connection(Purpose.GENERAL)
        distances = [after - before for before, after in zip(attempts.at, attempts.at[1:], strict=False)]
        least = [0.8 * each for each in (0.02, 0.04, 0.06, 0.06)]
        assert all(distance >= bound for distance, bound in zip(distances, least, strict=True))
        if world.simulated:
            assert all(distance < bound * 2 for distance, bound in zip(distances, least, strict=True))

    run(body)


def test_the_back_off_is_waited_out_and_then_it_works_again(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            options = {"reconnect_backoff_ms": 3_600_000, "reconnect_backoff_max_ms": 3_600_000}
            parts = world.parts(cluster, **options)
            broker = parts.brokers.get(-1)
            await cluster.stop_node(1)
            with pytest.raises(ConnectionFailedError):
                await broker.connection(Purpose.GENERAL)
            await cluster.start_node(1)
            waiting = asyncio.ensure_future(broker.request(MetadataRequest(topics=[])))
            await asyncio.sleep(0)
            assert not waiting.done()
            world.clock.advance(2 * 3600)
            assert isinstance(await waiting, MetadataResponse)
            assert not broker.is_failing

    run(body)


def test_a_connection_that_was_lost_is_not_reopened_in_a_storm(run: Run) -> None:
    async def body(world: World) -> None:
        attempts = Attempts(world)
        played, broker = await played_with(world, attempts, reconnect_backoff_ms=20)
        for _ in range(3):
            connection = await broker.connection(Purpose.GENERAL)
            played.connection.close()
            await connection.wait_closed()
        distances = [after - before for before, after in zip(attempts.at, attempts.at[1:], strict=False)]
        assert min(distances) >= 0.8 * 0.02
        await played.close()

    run(body)


def test_a_place_that_does_not_answer_is_given_up_after_the_setup_timeout() -> None:
    async def body(world: World) -> None:
        attempts = Attempts(world)
        async with world.cluster() as cluster:
            network: Any = world.runtime
            network.network.cut("client", "node-1", "silent")
            broker = world.parts(cluster, attempts).brokers.get(-1)
            for _ in range(2):
                with pytest.raises(ConnectionFailedError, match="socket_connection_setup_timeout_ms"):
                    await broker.connection(Purpose.GENERAL)
            first, second = attempts.at
            assert 8 <= second - first <= 12.1
            network.network.heal_all()
            await broker.connection(Purpose.GENERAL)

    in_simulation(body)


@pytest.mark.parametrize(
    ("greet", "text"),
    [
        (
            lambda header: [b"HTTP/1.1 400 Bad Request\r\n\r\n"],
            "instead of answering ApiVersions.*1213486160",
        ),
        (lambda header: answer(header, ApiVersionsResponse(error_code=31)), "does not say what it speaks"),
        (lambda header: [b"\0\0\0\4" + header.correlation_id.to_bytes(4)], "does not speak Kafka's protocol"),
    ],
)
def test_a_peer_that_is_no_broker_is_a_failure_to_connect(
    run: Run, greet: Callable[[RequestHeader], list[bytes]], text: str
) -> None:
    async def body(world: World) -> None:
        played, broker = await played_with(world, greet=greet)
        with pytest.raises(ConnectionFailedError, match=text):
            await broker.connection(Purpose.GENERAL)
        assert not broker.is_connected
        await played.close()

    run(body)


def test_a_broker_that_hangs_up_at_the_first_request_is_a_failure_with_a_hint(run: Run) -> None:
    async def body(world: World) -> None:
        def greet(header: RequestHeader) -> list[bytes]:
            played.connection.close()
            return []

        played, broker = await played_with(world, greet=greet)
        with pytest.raises(ConnectionFailedError, match="is it a listener of Kafka, without TLS and SASL"):
            await broker.connection(Purpose.GENERAL)
        await played.close()

    run(body)


def test_a_broker_that_never_greets_is_given_up(run: Run) -> None:
    async def body(world: World) -> None:
        played, broker = await played_with(world, greet=silent)
        waiting = asyncio.ensure_future(broker.connection(Purpose.GENERAL))
        await played.until_frames(1)
        world.clock.advance(31)
        with pytest.raises(ConnectionFailedError, match="did not answer ApiVersions"):
            await waiting
        await played.close()

    run(body)


def test_ask_goes_over_the_connection_of_its_api_at_the_best_version(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(max_versions={"Metadata": 9}) as cluster:
            broker = world.parts(cluster).brokers.get(-1)
            assert isinstance(await broker.request(MetadataRequest(topics=[])), MetadataResponse)
            assert [purpose for purpose, _ in broker._open] == [Purpose.GENERAL]
            await broker.request(CreateTopicsRequest(timeout_ms=1000))
            assert [purpose for purpose, _ in broker._open] == [Purpose.GENERAL, Purpose.SLOW]
            connection = await broker.connection(Purpose.GENERAL)
            assert connection.version(MetadataRequest) == 9

    run(body)


def test_an_api_that_the_broker_does_not_have_is_an_error_and_the_connection_stays(run: Run) -> None:
    async def body(world: World) -> None:
        only = ApiVersionsResponse.ApiVersion(api_key=3, min_version=0, max_version=12)
        played, broker = await played_with(
            world, greet=lambda header: answer(header, ApiVersionsResponse(api_keys=[only]))
        )
        with pytest.raises(UnsupportedApiError, match="has no Heartbeat API"):
            await broker.request(HeartbeatRequest())
        assert broker.is_connected
        await played.close()

    run(body)


async def _outcome(awaitable: asyncio.Future[Any]) -> type[Any]:
    outcomes: list[object] = list(await asyncio.gather(awaitable, return_exceptions=True))
    return type(outcomes[0])


def test_closing_fails_who_asks_who_connects_and_who_comes_later(run: Run) -> None:
    async def body(world: World) -> None:
        played, broker = await played_with(world)
        connection = await broker.connection(Purpose.GENERAL)
        asked: asyncio.Future[Message] = connection.send(HeartbeatRequest(), 4)
        await played.until_requests(1)
        connecting = asyncio.ensure_future(broker.connection(Purpose.FETCH))
        await asyncio.sleep(0)
        broker.close()
        assert await _outcome(asked) is ConnectionLostError
        assert await _outcome(connecting) is ClientClosedError
        with pytest.raises(ClientClosedError):
            await broker.connection(Purpose.PRODUCE)
        await played.close()

    run(body)


def test_closing_wakes_who_waits_for_a_back_off_or_a_pause(run: Run) -> None:
    async def body(world: World) -> None:
        options = {"reconnect_backoff_ms": 3_600_000, "reconnect_backoff_max_ms": 3_600_000}
        dead = world.parts(await somewhere_dead(world), **options).brokers.get(-1)
        with pytest.raises(ConnectionFailedError):
            await dead.connection(Purpose.GENERAL)
        backing_off = asyncio.ensure_future(dead.connection(Purpose.GENERAL))

        played, broker = await played_with(world)
        asked = asyncio.ensure_future(broker.request(HeartbeatRequest()))
        await played.until_requests(1)
        played.reply(0, HeartbeatResponse(throttle_time_ms=3_600_000))
        await asked
        pausing = asyncio.ensure_future(broker.connection(Purpose.GENERAL))

        await asyncio.sleep(0)
        dead.close()
        broker.close(UnknownBrokerError("broker 1 has left the cluster"))
        assert await _outcome(backing_off) is ClientClosedError
        assert await _outcome(pausing) is UnknownBrokerError
        await played.close()

    run(body)


def test_a_broker_that_moves_is_the_same_broker_at_its_new_address(run: Run) -> None:
    async def body(world: World) -> None:
        here, broker = await played_with(world)
        there = await PlayedBroker().listen(world)
        connection = await broker.connection(Purpose.GENERAL)
        broker.move(broker.host, broker.port, "rack-1")
        before = connection.is_closed
        assert broker.rack == "rack-1"
        connecting = asyncio.ensure_future(broker.connection(Purpose.FETCH))
        await asyncio.sleep(0)
        broker.move(there.listener.host, there.listener.port, "rack-1")
        assert (before, connection.is_closed) == (False, True)
        assert await _outcome(connecting) is ConnectionFailedError
        await broker.connection(Purpose.GENERAL)
        assert len(there.connections) == 1
        await here.close()
        await there.close()

    run(body)
