"""One connection to one broker: order, deadlines, losses, cancellation, pauses, idleness."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any, cast

import pytest

from ottla.broker.server.faults import never
from ottla.client.connections.broker import Broker
from ottla.client.connections.connection import BrokerConnection
from ottla.client.connections.purposes import Purpose
from ottla.errors import (
    ConnectionFailedError,
    ConnectionLostError,
    DecodeError,
    EncodeError,
    ProtocolError,
    RequestTimeoutError,
)
from ottla.hooks import Hook
from ottla.wire import Message
from ottla.wire.messages import HeartbeatRequest, HeartbeatResponse, MetadataRequest, ProduceRequest
from tests.client.connections.peers import PlayedBroker, answer, half_of, stray_answer
from tests.client.worlds import Body, World

Run = Callable[[Body], object]


def heartbeat(number: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=number, member_id="m")


def numbers(broker: PlayedBroker) -> list[int]:
    return [cast(HeartbeatRequest, request).generation_id for _, request in broker.requests]


async def connected(
    world: World, *hooks: object, **options: Any
) -> tuple[PlayedBroker, Broker, BrokerConnection]:
    played = await PlayedBroker().listen(world)
    broker = world.parts(played.bootstrap, *hooks, **options).brokers.get(-1)
    return played, broker, await broker.connection(Purpose.GENERAL)


async def errors_of(*answers: asyncio.Future[Message]) -> list[type[object]]:
    outcomes = await asyncio.gather(*answers, return_exceptions=True)
    return [type(outcome) for outcome in outcomes]


def test_the_order_of_calls_is_the_order_on_the_wire(run: Run) -> None:
    async def body(world: World) -> None:
        played, _, connection = await connected(world)
        answers = [connection.send(heartbeat(number), 4) for number in range(50)]
        connection.send_oneway(heartbeat(50), 4)
        await played.until_requests(51)
        assert numbers(played) == list(range(51))
        for number in reversed(range(50)):
            played.reply(number, HeartbeatResponse(error_code=number))
        assert await asyncio.gather(*answers) == [HeartbeatResponse(error_code=n) for n in range(50)]
        await played.close()

    run(body)


def test_cancelling_one_request_harms_no_other(run: Run) -> None:
    async def body(world: World) -> None:
        played, _, connection = await connected(world)
        answers = [connection.send(heartbeat(number), 4) for number in range(3)]
        await played.until_requests(3)
        answers[1].cancel()
        for number in range(3):
            played.reply(number, HeartbeatResponse(error_code=number))
        assert await answers[0] == HeartbeatResponse(error_code=0)
        assert await answers[2] == HeartbeatResponse(error_code=2)
        assert not connection.is_closed
        await played.close()

    run(body)


def test_a_request_without_an_answer_times_out_and_takes_the_connection_with_it(run: Run) -> None:
    async def body(world: World) -> None:
        played, _, connection = await connected(world)
        late = connection.send(heartbeat(0), 4)
        patient = connection.send(heartbeat(1), 4, timeout=3600)
        await played.until_requests(2)
        world.clock.advance(31)
        with pytest.raises(
            RequestTimeoutError, match=r"did not answer Heartbeat within 3\d.*request_timeout_ms"
        ):
            await late
        with pytest.raises(ConnectionLostError, match="did not answer Heartbeat"):
            await patient
        assert connection.is_closed
        await played.close()

    run(body)


def test_a_shorter_timeout_counts_although_others_are_longer(run: Run) -> None:
    async def body(world: World) -> None:
        played, _, connection = await connected(world)
        first = connection.send(heartbeat(0), 4)
        hasty = connection.send(heartbeat(1), 4, timeout=5)
        await played.until_requests(2)
        world.clock.advance(6)
        assert await errors_of(first, hasty) == [ConnectionLostError, RequestTimeoutError]
        await played.close()

    run(body)


def test_a_deadline_is_that_of_the_request_and_not_of_the_one_before(run: Run) -> None:
    async def body(world: World) -> None:
        played, _, connection = await connected(world)
        first = connection.send(heartbeat(0), 4)
        await played.until_requests(1)
        played.reply(0, HeartbeatResponse())
        await first
        world.clock.advance(20)
        second = connection.send(heartbeat(1), 4)
        await played.until_requests(2)
        world.clock.advance(20)
        played.reply(1, HeartbeatResponse())
        await second
        assert not connection.is_closed
        await played.close()

    run(body)


def test_a_broker_of_a_cluster_that_never_answers_is_given_up(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            broker = world.parts(cluster).brokers.get(-1)
            fault = cluster.faults.add("Metadata", action=never, count=1)
            asking = asyncio.ensure_future(broker.request(MetadataRequest(topics=[])))
            await fault.wait()
            world.clock.advance(31)
            with pytest.raises(RequestTimeoutError):
                await asking
            await broker.request(MetadataRequest(topics=[]))

    run(body)


def hang_up(played: PlayedBroker) -> None:
    played.hang_up(0)


def die_within_an_answer(played: PlayedBroker) -> None:
    played.send(0, half_of(answer(played.requests[0][0], HeartbeatResponse())))
    played.hang_up(0)


def answer_what_nobody_asked(played: PlayedBroker) -> None:
    played.send(0, stray_answer())


def send_no_frame(played: PlayedBroker) -> None:
    played.send(0, [b"HTTP/1.1 400 Bad Request\r\n\r\n"])


@pytest.mark.parametrize("harm", [hang_up, die_within_an_answer, answer_what_nobody_asked, send_no_frame])
def test_a_lost_connection_means_unknown_to_all_who_asked(
    run: Run, harm: Callable[[PlayedBroker], None]
) -> None:
    async def body(world: World) -> None:
        played, broker, connection = await connected(world)
        answers = [connection.send(heartbeat(number), 4) for number in range(3)]
        await played.until_requests(3)
        harm(played)
        assert await errors_of(*answers) == [ConnectionLostError] * 3
        assert connection.is_closed
        assert await broker.connection(Purpose.GENERAL) is not connection
        await played.close()

    run(body)


def test_an_answer_that_cannot_be_read_is_an_error_of_its_request_and_ends_the_connection(run: Run) -> None:
    async def body(world: World) -> None:
        played, _, connection = await connected(world)
        answers = [connection.send(heartbeat(number), 4) for number in range(2)]
        await played.until_requests(2)
        played.send(0, [struct.pack(">ii", 4, played.requests[0][0].correlation_id)])
        assert await errors_of(*answers) == [DecodeError, ConnectionLostError]
        assert connection.is_closed
        await played.close()

    run(body)


def test_on_a_closed_connection_nothing_is_sent_and_the_error_says_so(run: Run) -> None:
    async def body(world: World) -> None:
        played, _, connection = await connected(world)
        asked = connection.send(heartbeat(0), 4)
        connection.close()
        assert await errors_of(asked) == [ConnectionLostError]
        with pytest.raises(ConnectionFailedError, match="nothing was sent to broker -1"):
            await connection.send(heartbeat(1), 4)
        with pytest.raises(ConnectionFailedError, match="nothing was sent to broker -1"):
            connection.send_oneway(heartbeat(1), 4)
        await connection.wait_closed()
        await played.close()

    run(body)


def test_a_request_that_brokers_would_refuse_for_its_size_is_not_sent(run: Run) -> None:
    async def body(world: World) -> None:
        played, _, connection = await connected(world)
        huge = ProduceRequest(
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name="orders",
                    partition_data=[ProduceRequest.PartitionProduceData(records=bytes(100 << 20))],
                )
            ]
        )
        with pytest.raises(EncodeError, match=r"ProduceRequest of 1048576.. bytes is not sent"):
            await connection.send(huge, 9)
        with pytest.raises(EncodeError):
            connection.send_oneway(huge, 9)
        with pytest.raises(ProtocolError):
            await connection.send(heartbeat(1), 99)
        asked = connection.send(heartbeat(0), 4)
        await played.until_requests(1)
        played.reply(0, HeartbeatResponse())
        await asked
        await played.close()

    run(body)


def test_an_idle_connection_closes_itself_and_a_used_one_does_not(run: Run) -> None:
    async def body(world: World) -> None:
        played, broker, connection = await connected(world, connections_max_idle_ms=60_000)
        for number in range(3):
            world.clock.advance(45)
            asked = connection.send(heartbeat(number), 4)
            await played.until_requests(number + 1)
            played.reply(number, HeartbeatResponse())
            await asked
        world.clock.advance(61)
        await connection.wait_closed()
        assert not broker.is_connected
        assert await broker.connection(Purpose.GENERAL) is not connection
        await played.close()

    run(body)


def test_waiting_for_an_answer_is_not_idleness(run: Run) -> None:
    async def body(world: World) -> None:
        played, _, connection = await connected(world, connections_max_idle_ms=1_000)
        asked = connection.send(heartbeat(0), 4)
        await played.until_requests(1)
        world.clock.advance(20)
        played.reply(0, HeartbeatResponse())
        await asked
        await played.close()

    run(body)


def test_without_a_limit_an_idle_connection_stays(run: Run) -> None:
    async def body(world: World) -> None:
        played, broker, connection = await connected(world, connections_max_idle_ms=-1)
        world.clock.advance(1e6)
        assert await broker.connection(Purpose.GENERAL) is connection
        await played.close()

    run(body)


class Log(Hook):
    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def on_broker_connect(
        self, node_id: int, host: str, port: int, seconds: float, error: BaseException | None
    ) -> None:
        self.events.append(("connect", node_id, host, error))

    def on_broker_disconnect(self, node_id: int, peer: str, error: BaseException | None) -> None:
        self.events.append(("disconnect", node_id, type(error)))

    def on_broker_write(self, node_id: int, api_key: int, size: int, error: BaseException | None) -> None:
        self.events.append(("write", api_key, size > 0, error))

    def on_broker_read(
        self, node_id: int, api_key: int, size: int, seconds: float, error: BaseException | None
    ) -> None:
        self.events.append(("read", api_key, size > 0, type(error)))

    def on_broker_throttle(self, node_id: int, seconds: float) -> None:
        self.events.append(("throttle", node_id, seconds))


def test_the_next_request_waits_for_the_pause_that_the_broker_asks_for(run: Run) -> None:
    async def body(world: World) -> None:
        log = Log()
        played, broker, connection = await connected(world, log)
        asked = connection.send(heartbeat(0), 4)
        await played.until_requests(1)
        played.reply(0, HeartbeatResponse(throttle_time_ms=3_600_000))
        await asked
        assert ("throttle", -1, 3600.0) in log.events
        # Heartbeats and fetches go on: it was this connection that was over its quota.
        assert not (await broker.connection(Purpose.FETCH)).paused_until
        waiting = asyncio.ensure_future(broker.request(heartbeat(1), purpose=Purpose.GENERAL))
        await broker.connection(Purpose.GROUP)
        assert not waiting.done()
        world.clock.advance(3601)
        await played.until_requests(2)
        played.reply(1, HeartbeatResponse())
        await waiting
        await played.close()

    run(body)


def test_hooks_hear_of_every_step(run: Run) -> None:
    async def body(world: World) -> None:
        log = Log()
        played, _, connection = await connected(world, log)
        asked, lost = connection.send(heartbeat(0), 4), connection.send(heartbeat(1), 4)
        await played.until_requests(2)
        played.reply(0, HeartbeatResponse())
        await asked
        played.hang_up(0)
        assert await errors_of(lost) == [ConnectionLostError]
        await connection.wait_closed()
        assert log.events == [
            ("write", 18, True, None),
            ("read", 18, True, type(None)),
            ("connect", -1, "127.0.0.1", None),
            ("write", 12, True, None),
            ("write", 12, True, None),
            ("read", 12, True, type(None)),
            ("read", 12, False, ConnectionLostError),
            ("disconnect", -1, ConnectionLostError),
        ]
        await played.close()

    run(body)


def test_closing_is_over_soon_although_the_peer_never_reads(run: Run) -> None:
    async def body(world: World) -> None:
        played, _, connection = await connected(world)
        played.connection.pause()
        records = bytes(50 << 20)
        data = ProduceRequest.PartitionProduceData(records=records)
        topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[data])
        connection.send_oneway(ProduceRequest(acks=0, topic_data=[topic]), 9)
        connection.close()
        closing = asyncio.ensure_future(connection.wait_closed())
        await asyncio.sleep(0)
        assert not closing.done()
        world.clock.advance(6)
        await closing
        played.connection.abort()
        await played.close()

    run(body)
