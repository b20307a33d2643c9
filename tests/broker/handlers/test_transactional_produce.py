"""Produce with transactional data: what the coordinator is asked, and what the producer hears of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.errors import ConnectionLostError
from ottla.wire.messages import ProduceRequest, ProduceResponse
from tests.broker.coordinator.scripted import ScriptedCoordinator
from tests.broker.handlers.transactions import TV1, TV2, Producer, transactional_batch
from tests.broker.worlds import Body as WorldBody
from tests.broker.worlds import World, batch, in_simulation

Run = Callable[[WorldBody], object]
Body = Callable[[World, AsyncCluster, Producer], Awaitable[None]]

NOT_ENOUGH_REPLICAS, OUT_OF_ORDER, INVALID_EPOCH, INVALID_STATE, CONCURRENT, ABORTABLE = (
    19,
    45,
    47,
    48,
    51,
    120,
)
UNKNOWN_PARTITION, ID_DENIED, ID_MAPPING = 3, 53, 49


def played(run: Run, coordinator: ScriptedCoordinator, body: Body, brokers: int = 1) -> None:
    async def main(world: World) -> None:
        async with world.cluster(brokers, topics={"orders": 2}) as cluster:
            coordinator.install([cluster.node(number) for number in range(1, brokers + 1)])
            client = await world.client(cluster, cluster.leader("orders"))
            await body(world, cluster, Producer(client))

    run(main)


def test_the_first_data_of_a_transaction_asks_and_the_rest_does_not(run: Run) -> None:
    coordinator = ScriptedCoordinator()

    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        assert [(await producer.send(b"1", b"2")).base_offset for _ in range(3)] == [0, 2, 4]
        assert coordinator.asked == [("tx", 1, 0, False, [("orders", 0)])]
        assert await producer.end() == [0]
        assert (await producer.send(b"3")).base_offset == 7
        assert coordinator.asked[1:] == [("tx", 1, 1, False, [("orders", 0)])]
        state = cluster.partition("orders").log.producers.get(1)
        assert state is not None
        assert (state.epoch, state.last_sequence, state.transaction_first_offset) == (1, 0, 7)

    played(run, coordinator, body)


def test_older_producers_are_only_verified_and_their_sequences_go_on(run: Run) -> None:
    coordinator = ScriptedCoordinator()

    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        producer.version = TV1
        await producer.send(b"1", b"2", b"3")
        assert await producer.end() == [0]
        assert producer.sequence == 3
        assert (await producer.send(b"4")).base_offset == 4
        assert [asked[3] for asked in coordinator.asked] == [True, True]

    played(run, coordinator, body)


@pytest.mark.parametrize(
    ("answer", "version", "expected", "message"),
    [
        (90, 12, INVALID_EPOCH, None),
        (90, 10, INVALID_EPOCH, None),
        (ABORTABLE, 12, ABORTABLE, None),
        (ABORTABLE, 11, ABORTABLE, None),
        (ABORTABLE, 10, INVALID_STATE, "Partition was not added to the transaction"),
        (ABORTABLE, 3, INVALID_STATE, None),
        (14, 12, NOT_ENOUGH_REPLICAS, "Unable to verify"),
        (15, 12, NOT_ENOUGH_REPLICAS, "Unable to verify"),
        (16, 12, NOT_ENOUGH_REPLICAS, "Unable to verify"),
        (13, 12, NOT_ENOUGH_REPLICAS, "Unable to verify"),
        (CONCURRENT, 11, NOT_ENOUGH_REPLICAS, "Unable to verify"),
        (CONCURRENT, 12, CONCURRENT, None),
        (ID_MAPPING, 12, ID_MAPPING, None),
    ],
)
def test_an_error_of_the_coordinator_reaches_the_producer_as_it_can_use_it(
    answer: int, version: int, expected: int, message: str | None
) -> None:
    coordinator = ScriptedCoordinator(answer)

    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        producer.version = version
        produced = await producer.send(b"1")
        assert (produced.error_code, produced.base_offset, produced.log_start_offset) == (expected, -1, -1)
        if message is not None:
            assert (produced.error_message or "").startswith(message)
        assert cluster.partition("orders").log.log_end_offset == 0

    played(in_simulation, coordinator, body)


def test_a_coordinator_that_is_gone_lets_the_producer_try_again() -> None:
    coordinator = ScriptedCoordinator()
    coordinator.failure = ConnectionRefusedError()

    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        assert (await producer.send(b"1")).error_code == NOT_ENOUGH_REPLICAS
        coordinator.failure = None
        assert (await producer.send(b"1")).base_offset == 0

    played(in_simulation, coordinator, body)


def test_data_that_comes_while_the_last_transaction_ends_waits_for_it(run: Run) -> None:
    coordinator = ScriptedCoordinator(CONCURRENT, CONCURRENT, 0)

    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        assert (await producer.send(b"1")).base_offset == 0
        assert len(coordinator.asked) == 3

    played(run, coordinator, body)


def test_data_of_an_epoch_that_has_ended_is_fenced_without_a_question() -> None:
    coordinator = ScriptedCoordinator()

    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        await producer.send(b"1")
        assert await producer.end(commit=False) == [0]
        producer.epoch, producer.sequence = 0, 1
        assert (await producer.send(b"2")).error_code == INVALID_EPOCH
        assert len(coordinator.asked) == 1
        assert cluster.partition("orders").log.log_end_offset == 2

    played(in_simulation, coordinator, body)


def test_a_marker_that_comes_before_the_answer_lets_nothing_in() -> None:
    coordinator = ScriptedCoordinator()

    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        other = Producer(await world.client(cluster), version=TV1)
        ending: list[asyncio.Task[list[int]]] = []
        coordinator.before_answer = lambda: ending.append(asyncio.ensure_future(other.end(commit=False)))
        answered = asyncio.Event()
        ask = coordinator.request

        async def slow(*args: object) -> object:
            response = await ask(*args)  # type: ignore[arg-type]
            await ending[0]
            answered.set()
            return response

        coordinator.request = slow  # type: ignore[method-assign, assignment]
        producer.version = TV1
        assert (await producer.send(b"1")).error_code == INVALID_STATE
        assert answered.is_set()
        assert cluster.partition("orders").log.log_end_offset == 1

    played(in_simulation, coordinator, body)


def test_a_new_producer_of_version_2_begins_with_sequence_0() -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        producer.sequence = 4
        assert (await producer.send(b"1")).error_code == OUT_OF_ORDER
        producer.sequence = 0
        assert (await producer.send(b"1")).error_code == 0

    played(in_simulation, ScriptedCoordinator(), body)


def test_a_repetition_gets_its_old_offset_while_its_transaction_is_open() -> None:
    coordinator = ScriptedCoordinator()

    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        await producer.send(b"1")
        producer.sequence = 0
        assert (await producer.send(b"1")).base_offset == 0
        assert cluster.partition("orders").log.log_end_offset == 1
        assert len(coordinator.asked) == 1

    played(in_simulation, coordinator, body)


def test_plain_data_of_a_producer_with_an_open_transaction_is_refused() -> None:
    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        await producer.send(b"1")
        plain = transactional_batch(b"2", producer=(1, 0, 1), transactional=False)
        assert (await producer.client.produce("orders", plain)).error_code == INVALID_STATE

    played(in_simulation, ScriptedCoordinator(), body)


def test_transactional_data_needs_an_id_and_one_producer() -> None:
    coordinator = ScriptedCoordinator()

    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        assert (await producer.send(b"1", transactional_id=None)).error_code == ID_DENIED
        parts = [
            ProduceRequest.PartitionProduceData(
                index=index, records=transactional_batch(b"1", producer=(index + 1, 0, 0))
            )
            for index in (0, 1)
        ]
        request = ProduceRequest(
            transactional_id="tx",
            acks=-1,
            timeout_ms=1000,
            topic_data=[ProduceRequest.TopicProduceData(name="orders", partition_data=parts)],
        )
        response = await producer.client.ask(request, TV2, ProduceResponse)
        results = response.responses[0].partition_responses
        assert [result.error_code for result in results] == [ID_MAPPING, ID_MAPPING]
        expected = "Transactional records contained more than one producer ID"
        assert {result.error_message for result in results} == {expected}
        assert coordinator.asked == []

    played(in_simulation, coordinator, body)


def test_a_request_that_has_partitions_with_and_without_open_transactions_is_answered_for_each() -> None:
    coordinator = ScriptedCoordinator(0, ABORTABLE)

    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        await producer.send(b"1")
        parts = [
            ProduceRequest.PartitionProduceData(
                index=index, records=transactional_batch(b"2", producer=(1, 0, 1 - index))
            )
            for index in (0, 1)
        ]
        request = ProduceRequest(
            transactional_id="tx",
            acks=-1,
            timeout_ms=1000,
            topic_data=[ProduceRequest.TopicProduceData(name="orders", partition_data=parts)],
        )
        response = await producer.client.ask(request, TV2, ProduceResponse)
        results = {each.index: each.error_code for each in response.responses[0].partition_responses}
        assert results == {0: 0, 1: ABORTABLE}
        assert coordinator.asked[1][-1] == [("orders", 1)]

    played(in_simulation, coordinator, body)


def test_plain_data_of_a_transactional_request_is_not_asked_for() -> None:
    coordinator = ScriptedCoordinator()

    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        data = ProduceRequest.PartitionProduceData(index=0, records=batch(b"plain"))
        request = ProduceRequest(
            transactional_id="tx",
            acks=-1,
            timeout_ms=1000,
            topic_data=[ProduceRequest.TopicProduceData(name="orders", partition_data=[data])],
        )
        response = await producer.client.ask(request, TV2, ProduceResponse)
        assert response.responses[0].partition_responses[0].error_code == 0
        assert coordinator.asked == []

    played(in_simulation, coordinator, body)


def test_a_topic_that_is_deleted_while_the_coordinator_is_asked_is_unknown_alone() -> None:
    coordinator = ScriptedCoordinator()

    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        await cluster.create_topic("short-lived", 1)
        ask = coordinator.request

        async def slow(*args: object) -> object:
            await cluster.delete_topic("short-lived")
            return await ask(*args)  # type: ignore[arg-type]

        coordinator.request = slow  # type: ignore[method-assign, assignment]
        request = ProduceRequest(
            transactional_id="tx",
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=name,
                    partition_data=[
                        ProduceRequest.PartitionProduceData(
                            index=0, records=transactional_batch(b"1", producer=(1, 0, 0))
                        )
                    ],
                )
                for name in ("orders", "short-lived")
            ],
        )
        response = await producer.client.ask(request, TV2, ProduceResponse)
        assert {topic.name: topic.partition_responses[0].error_code for topic in response.responses} == {
            "orders": 0,
            "short-lived": UNKNOWN_PARTITION,
        }

    played(in_simulation, coordinator, body)


@pytest.mark.parametrize(("code", "is_open"), [(0, True), (ABORTABLE, False)])
def test_without_acks_there_is_no_response_and_a_refusal_closes_the_connection(
    code: int, is_open: bool
) -> None:
    coordinator = ScriptedCoordinator(code)

    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        data = ProduceRequest.PartitionProduceData(
            index=0, records=transactional_batch(b"1", producer=(1, 0, 0))
        )
        request = ProduceRequest(
            transactional_id="tx",
            acks=0,
            timeout_ms=1000,
            topic_data=[ProduceRequest.TopicProduceData(name="orders", partition_data=[data])],
        )
        channel = producer.client.channel
        no_response = channel.send(request, TV2).future
        if is_open:
            await cluster.wait_for(lambda: cluster.partition("orders").log.log_end_offset == 1)
            assert not channel.is_closed
            assert not no_response.done()
            no_response.cancel()
        else:
            with pytest.raises(ConnectionLostError):
                await no_response
            assert cluster.partition("orders").log.log_end_offset == 0

    played(in_simulation, coordinator, body)


def test_another_leader_goes_on_with_an_open_transaction_and_asks_nothing() -> None:
    coordinator = ScriptedCoordinator()

    async def body(world: World, cluster: AsyncCluster, producer: Producer) -> None:
        await producer.send(b"1")
        other = cluster.leader("orders") % 3 + 1
        await cluster.wait_until_in_sync("orders")
        await cluster.move_leader("orders", 0, other)
        await cluster.wait_for(lambda: cluster.node(other).replicas.partitions["orders", 0].is_leader)
        producer.client = await world.client(cluster, other)
        assert (await producer.send(b"2")).base_offset == 1
        assert len(coordinator.asked) == 1
        assert cluster.partition("orders").last_stable_offset == 0

    played(in_simulation, coordinator, body, brokers=3)
