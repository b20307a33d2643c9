"""The sink against a broker that the test plays: which requests it builds, and what it makes of odd answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from ottla.net.connection import Connection
from ottla.wire import Uuid
from ottla.wire.batches import batch_headers
from ottla.wire.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from tests.client.connections.peers import PlayedBroker, answer
from tests.client.produce.producing import Rig, producing
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
TOPIC_ID = Uuid(b"orders" + bytes(10))
PARTITIONS = 3
NONE, NOT_LEADER = 0, 6


class Leader(PlayedBroker):
    """Leads everything and gives out producer ids; what becomes of a produce request is the test's."""

    def _take(self, connection: Connection, frame: memoryview) -> None:
        super()._take(connection, frame)
        if self.requests:
            header, request = self.requests[-1]
            said = self._said(request)
            if said is not None:
                del self.requests[-1]
                del self._asked_on[-1]
                connection.send(answer(header, said))

    def _said(self, request: object) -> MetadataResponse | InitProducerIdResponse | None:
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(producer_id=7, producer_epoch=0)
        if not isinstance(request, MetadataRequest):
            return None
        partitions = [
            MetadataResponse.MetadataResponsePartition(
                partition_index=number, leader_id=1, replica_nodes=[1], isr_nodes=[1]
            )
            for number in range(PARTITIONS)
        ]
        topic = MetadataResponse.MetadataResponseTopic(
            name="orders", topic_id=TOPIC_ID, partitions=partitions
        )
        broker = MetadataResponse.MetadataResponseBroker(
            node_id=1, host=self.listener.host, port=self.listener.port
        )
        return MetadataResponse(brokers=[broker], controller_id=1, topics=[topic] if request.topics else [])

    def produced(self, number: int) -> dict[int, list[int]]:
        """Of produce request `number`: the sequences by partition."""
        request = self.requests[number][1]
        assert isinstance(request, ProduceRequest)
        return {
            partition.index: [
                header.base_sequence for header in batch_headers(bytes(partition.records or b""))
            ]
            for topic in request.topic_data
            for partition in topic.partition_data
        }

    def say(self, number: int, *partitions: tuple[int, int, int], **fields: Any) -> None:
        """Answers it with (partition, error, offset)."""
        responses = [
            ProduceResponse.PartitionProduceResponse(index=index, error_code=code, base_offset=offset)
            for index, code, offset in partitions
        ]
        topic = ProduceResponse.TopicProduceResponse(
            name="orders", topic_id=TOPIC_ID, partition_responses=responses
        )
        self.reply(number, ProduceResponse(responses=[topic], **fields))


@asynccontextmanager
async def leading(world: World, **options: Any) -> AsyncIterator[tuple[Leader, Rig]]:
    leader = Leader()
    await leader.listen(world)
    async with producing(world, leader.bootstrap, linger_ms=0, close_timeout=0.0, **options) as rig:
        yield leader, rig
    await rig.parts.brokers.close()
    await leader.close()


def test_one_request_has_a_batch_of_every_partition_that_is_ready(run: Run) -> None:
    async def body(world: World) -> None:
        async with leading(world) as (leader, rig):
            deliveries = [rig.producer.produce("orders", b"v", partition=number) for number in range(3)]
            await leader.until_requests(1)
            assert leader.produced(0) == {0: [0], 1: [0], 2: [0]}
            leader.say(0, (2, NONE, 30), (0, NONE, 10), (1, NONE, 20))
            assert [(await each).offset for each in deliveries] == [10, 20, 30]

    run(body)


def test_a_partition_that_the_answer_leaves_out_is_sent_again_with_its_sequence(run: Run) -> None:
    async def body(world: World) -> None:
        async with leading(world) as (leader, rig):
            deliveries = [rig.producer.produce("orders", b"v", partition=number) for number in range(2)]
            await leader.until_requests(1)
            leader.say(0, (0, NONE, 10))
            assert (await deliveries[0]).offset == 10
            await leader.until_requests(2)
            assert leader.produced(1) == {1: [0]}
            leader.say(1, (1, NONE, 20))
            assert (await deliveries[1]).offset == 20

    run(body)


def test_an_answer_for_a_partition_that_was_not_asked_about_is_nobodys(run: Run) -> None:
    async def body(world: World) -> None:
        async with leading(world) as (leader, rig):
            delivery = rig.producer.produce("orders", b"v", partition=0)
            await leader.until_requests(1)
            leader.say(0, (2, NOT_LEADER, -1), (0, NONE, 10))
            assert (await delivery).offset == 10

    run(body)


def test_a_partition_that_is_refused_does_not_hold_up_the_others(run: Run) -> None:
    async def body(world: World) -> None:
        async with leading(world) as (leader, rig):
            deliveries = [rig.producer.produce("orders", b"v", partition=number) for number in range(2)]
            await leader.until_requests(1)
            leader.say(0, (0, NOT_LEADER, -1), (1, NONE, 20))
            assert (await deliveries[1]).offset == 20
            deliveries.append(rig.producer.produce("orders", b"w", partition=1))
            while len(leader.requests) < 3:
                await leader.until_requests(len(leader.requests) + 1)
                number = len(leader.requests) - 1
                leader.say(number, *((index, NONE, 50 + number) for index in leader.produced(number)))
                if all(each.done() for each in deliveries):
                    break
            for each in deliveries:
                await each

    run(body)


def test_a_broker_that_asks_for_a_pause_gets_it(run: Run) -> None:
    async def body(world: World) -> None:
        async with leading(world) as (leader, rig):
            first = rig.producer.produce("orders", b"1", partition=0)
            await leader.until_requests(1)
            leader.say(0, (0, NONE, 10), throttle_time_ms=60_000)
            await first
            second = rig.producer.produce("orders", b"2", partition=0)
            for _ in range(10):
                await world.runtime.clock.sleep(0)
            assert len(leader.requests) == 1
            world.clock.advance(61)
            await leader.until_requests(2)
            leader.say(1, (0, NONE, 11))
            assert (await second).offset == 11

    run(body)
