"""DescribeProducers: what a replica remembers of producers."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker import Cluster
from ottla.wire.batches import ControlType
from ottla.wire.messages import DescribeProducersRequest, DescribeProducersResponse
from tests.broker.handlers.requests import TIME, batch, produce, send
from tests.broker.log.support import append_marker, append_to, make_batch
from tests.broker.worlds import World, in_simulation


def describe(
    cluster: Cluster, topic: str, *partitions: int, node: int = 1
) -> list[DescribeProducersResponse.PartitionResponse]:
    wanted = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=list(partitions))
    request = DescribeProducersRequest(topics=[wanted])
    (response,) = send(cluster, request, 0, DescribeProducersResponse, node=node).topics
    assert response.name == topic
    assert [part.partition_index for part in response.partitions] == list(partitions)
    return response.partitions


def test_a_producer_is_remembered_with_its_last_batch(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 2)
    produce(kafka, topic, batch([b"a", b"b"], producer=(1234, 0, 0)))
    produce(kafka, topic, batch([b"c"], producer=(1234, 0, 2), time=TIME + 9))
    produce(kafka, topic, batch([b"without an id"]))
    written, unwritten = describe(kafka, topic, 0, 1)
    assert written.error_code == 0
    assert [
        (
            *(state.producer_id, state.producer_epoch, state.last_sequence, state.last_timestamp),
            *(state.coordinator_epoch, state.current_txn_start_offset),
        )
        for state in written.active_producers
    ] == [(1234, 0, 2, TIME + 9, -1, -1)]
    assert (unwritten.error_code, unwritten.active_producers) == (0, [])


def test_what_does_not_exist_is_unknown(kafka: Cluster, new_topic: Callable[..., str]) -> None:
    (part,) = describe(kafka, new_topic(kafka), 5)
    assert (part.error_code, part.error_message) == (3, None)
    (part,) = describe(kafka, "nowhere", 0)
    assert (part.error_code, part.error_message) == (3, "This server does not host this topic-partition.")
    (part,) = describe(kafka, "b b", 0)
    assert part.error_code == 17
    assert (part.error_message or "").startswith("Topic name is invalid: 'b b' contains")


def test_any_replica_answers_and_no_other_node(kafka3: Cluster, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka3, replicas=2)
    produce(kafka3, topic, batch([b"1"], producer=(7, 0, 0)))
    answers = {}
    for node in (1, 2, 3):
        (part,) = describe(kafka3, topic, 0, node=node)
        answers[node] = (part.error_code, [state.producer_id for state in part.active_producers])
    with_replica = [answer for answer in answers.values() if not answer[0]]
    assert with_replica == [(0, [7])] * 2
    assert sorted(code for code, _ in answers.values()) == [0, 0, 6]


def test_an_open_transaction_is_told_with_its_beginning(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(kafka)
    produce(kafka, topic, batch([b"1"]))

    def write() -> None:
        partition = kafka._cluster.partition(topic)
        append_to(partition, make_batch(2, producer=(7, 3, 0), transactional=True))
        append_marker(partition.log, ControlType.COMMIT, 8, epoch=1, coordinator_epoch=5)

    kafka.call(write)
    (part,) = describe(kafka, topic, 0)
    assert [
        (
            state.producer_id,
            state.producer_epoch,
            state.last_sequence,
            state.coordinator_epoch,
            state.current_txn_start_offset,
        )
        for state in part.active_producers
    ] == [(7, 3, 1, -1, 1), (8, 1, -1, 5, -1)]


def test_a_producer_is_forgotten_when_its_id_is_looked_for_and_has_expired() -> None:
    async def body(world: World) -> None:
        config = {"producer.id.expiration.ms": "60000", "producer.id.expiration.check.interval.ms": "10000"}
        async with world.cluster(topics={"orders": 1}, config=config) as cluster:
            client = await world.client(cluster)
            now = int(world.runtime.clock.time() * 1000)

            async def remembered() -> list[int]:
                wanted = DescribeProducersRequest.TopicRequest(name="orders", partition_indexes=[0])
                request = DescribeProducersRequest(topics=[wanted])
                response = await client.ask(request, 0, DescribeProducersResponse)
                return [state.producer_id for state in response.topics[0].partitions[0].active_producers]

            for producer, age in ((1, 0), (2, 55_000), (3, 61_000)):
                records = batch([b"v"], time=now - age, producer=(producer, 0, 0))
                assert (await client.produce("orders", records)).error_code == 0
            assert await remembered() == [1, 2, 3]
            await world.runtime.clock.sleep(11)
            assert await remembered() == [1]
            # A producer that was forgotten may go on with any sequence.
            again = batch([b"v"], time=now, producer=(3, 0, 9))
            assert (await client.produce("orders", again)).error_code == 0
            await world.runtime.clock.sleep(60)
            assert await remembered() == []

    in_simulation(body)
