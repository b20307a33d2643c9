"""Administration through Ottla's own client, on the embedded cluster and on Apache Kafka."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable

import pytest

from ottla.client.admin import ConfigSource, NewTopic
from ottla.client.client import AsyncClient
from ottla.client.consume.offset_spec import Timestamp
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    InvalidConfigError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedApiError,
)
from ottla.wire.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.interop import nodes
from tests.interop.brokers import Broker
from tests.interop.peers import PEERS, Sent

CONFLUENT = PEERS[0]
WITHIN_S = 60.0


def with_client(broker: Broker, body: Callable[[AsyncClient], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(WITHIN_S), AsyncClient(broker.bootstrap) as kafka:
            await body(kafka)

    asyncio.run(main())


async def until(reached: Callable[[], Awaitable[bool]]) -> None:
    """Brokers of Apache Kafka learn of a change a moment after the controller has answered."""
    while True:
        if await reached():
            return
        await asyncio.sleep(0.01)


def new_name() -> str:
    return f"own-{uuid.uuid4().hex[:12]}"


def test_topics_are_created_grown_described_and_deleted(broker3: Broker) -> None:
    async def body(kafka: AsyncClient) -> None:
        topic = new_name()
        created = await kafka.admin.create_topic(topic, 2, 3, configs={"retention.ms": 1234})
        assert (created.partitions, created.replication_factor) == (2, 3)
        await kafka.admin.create_partitions(topic, 4)
        # Each of these may be answered by a node that has not heard of the change yet.
        nodes.wait_until_served(broker3.bootstrap, topic, 4)
        described = await kafka.admin.describe_topic(topic)
        assert described.topic_id == created.topic_id
        assert [sorted(each.replicas) for each in described.partitions] == [broker3.node_ids] * 4
        assert topic in await kafka.admin.list_topics()
        await kafka.admin.delete_topic(topic)

        async def gone() -> bool:
            return topic not in await kafka.admin.list_topics()

        await until(gone)

    with_client(broker3, body)


def test_topics_fail_one_by_one(broker: Broker) -> None:
    async def body(kafka: AsyncClient) -> None:
        there, topic = broker.create_topic(), new_name()
        results = await kafka.admin.create_topics(
            [topic, there, NewTopic(new_name(), 1, 7), "bad/name"], errors="collect"
        )
        assert list(results) == [topic]
        assert [type(error) for error in results.errors.values()] == [
            TopicAlreadyExistsError,
            InvalidReplicationFactorError,
            InvalidTopicError,
        ]
        gone = await kafka.admin.delete_topics([topic, "nothing-of-that-name"], errors="collect")
        assert (list(gone), list(gone.errors)) == ([topic], ["nothing-of-that-name"])

    with_client(broker, body)


def test_configs_are_described_and_altered(broker: Broker) -> None:
    async def body(kafka: AsyncClient) -> None:
        topic = new_name()
        await kafka.admin.create_topic(topic, configs={"retention.ms": 12345})
        configs = await kafka.admin.describe_configs(topic=topic, documentation=True, synonyms=True)
        assert (configs["retention.ms"].value, configs["retention.ms"].source) == (
            "12345",
            ConfigSource.TOPIC,
        )
        assert configs["cleanup.policy"].is_default
        assert configs["cleanup.policy"].documentation
        await kafka.admin.alter_configs(
            topic=topic, append={"cleanup.policy": "compact"}, delete=["retention.ms"], set={"segment.ms": 99}
        )

        async def changed() -> bool:
            now = await kafka.admin.describe_configs(topic=topic)
            found = [now[name].value for name in ("cleanup.policy", "retention.ms", "segment.ms")]
            return found == ["delete,compact", "604800000", "99"]

        await until(changed)
        with pytest.raises(InvalidConfigError, match=topic):
            await kafka.admin.alter_configs(topic=topic, set={"retention.ms": "soon"})

    with_client(broker, body)


def test_configs_of_each_broker_come_from_that_broker(broker3: Broker) -> None:
    async def body(kafka: AsyncClient) -> None:
        for node in broker3.node_ids:
            configs = await kafka.admin.describe_configs(broker=node, names=["node.id"])
            assert configs["node.id"].value == str(node)

    with_client(broker3, body)


def test_offsets_are_listed_and_records_deleted_over_all_leaders(broker3: Broker) -> None:
    async def body(kafka: AsyncClient) -> None:
        topic = broker3.create_topic(partitions=6)
        times = [1_700_000_000_000, 1_700_000_009_000, 1_700_000_005_000]
        for number in range(6):
            records = [Sent(b"x", timestamp=time) for time in times]
            await asyncio.to_thread(CONFLUENT.produce, broker3.bootstrap, topic, records, partition=number)
        every = [TopicPartition(topic, number) for number in range(6)]

        async def listed(at: str | Timestamp) -> list[int | None]:
            found = await kafka.admin.list_offsets(topic, at)
            assert list(found) == every
            return [each.offset for each in found.values()]

        assert await listed("latest") == [3] * 6
        assert await listed("max_timestamp") == [1] * 6
        assert await listed(Timestamp(times[0] + 1)) == [1] * 6
        assert await listed(Timestamp(times[1] + 1)) == [None] * 6
        assert await kafka.admin.delete_records({every[1]: 2, every[4]: None}) == {every[1]: 2, every[4]: 3}
        assert await listed("earliest") == [0, 2, 0, 0, 3, 0]
        with pytest.raises(OffsetOutOfRangeError, match=topic):
            await kafka.admin.delete_records({every[0]: 4})
        with pytest.raises(UnknownTopicOrPartitionError):
            await kafka.admin.list_offsets("nothing-of-that-name")

    with_client(broker3, body)


def test_the_leaders_that_moved_are_found(broker3: Broker) -> None:
    async def body(kafka: AsyncClient) -> None:
        topic = broker3.create_topic(partitions=2)
        await kafka.admin.list_offsets(topic)
        leader = broker3.leader(topic, 0)
        other = next(node for node in broker3.node_ids if node != leader)
        await asyncio.to_thread(broker3.move_leader, topic, 0, other)
        found = await kafka.admin.list_offsets(topic)
        assert [each.offset for each in found.values()] == [0, 0]
        described = await kafka.admin.describe_topic(topic)
        assert described.partitions[0].leader == other

    with_client(broker3, body)


def test_the_cluster_is_described(broker3: Broker) -> None:
    async def body(kafka: AsyncClient) -> None:
        described = await kafka.admin.describe_cluster()
        assert [each.node_id for each in described.brokers] == broker3.node_ids
        assert [each.node_id for each in await kafka.admin.list_brokers()] == broker3.node_ids
        features = await kafka.admin.describe_features()
        assert features.finalized["metadata.version"].high >= 7
        versions = await kafka.admin.api_versions(broker3.node_ids[-1])
        assert versions["Metadata"].high >= 12

        async def nothing_moves() -> bool:
            return await kafka.admin.list_partition_reassignments() == {}

        # What other tests have begun ends by itself.
        await until(nothing_moves)
        assert sorted(await kafka.admin.describe_log_dirs()) == broker3.node_ids

    with_client(broker3, body)


def test_replicas_are_reassigned_and_leaders_elected(broker3: Broker) -> None:
    async def body(kafka: AsyncClient) -> None:
        topic = broker3.create_topic()
        first = TopicPartition(topic, 0)
        order = list((await kafka.admin.describe_topic(topic)).partitions[0].replicas)
        turned = order[1:] + order[:1]
        await kafka.admin.alter_partition_reassignments({first: turned})

        async def moved() -> bool:
            return not await kafka.admin.list_partition_reassignments([first])

        async def led() -> bool:
            return (await kafka.admin.describe_topic(topic)).partitions[0].leader == turned[0]

        await until(moved)
        assert await kafka.admin.elect_leaders([first]) in ({first: True}, {first: False})
        await until(led)
        producers = await kafka.admin.describe_producers(topic)
        assert producers == {first: ()}

    with_client(broker3, body)


def test_raw_requests_about_groups_go_to_their_coordinators(broker3: Broker) -> None:
    async def body(kafka: AsyncClient) -> None:
        topic = broker3.create_topic()
        groups = [new_name() for _ in range(6)]
        found = await kafka.request(FindCoordinatorRequest(coordinator_keys=groups))
        assert isinstance(found, FindCoordinatorResponse)
        assert [each.key for each in found.coordinators] == groups

        named = OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
        group_of = OffsetFetchRequest.OffsetFetchRequestGroup
        request = OffsetFetchRequest(groups=[group_of(group_id=group, topics=[named]) for group in groups])
        answer = await kafka.request(request)
        assert isinstance(answer, OffsetFetchResponse)
        assert [(each.group_id, each.error_code) for each in answer.groups] == [
            (group, 0) for group in groups
        ]
        shards = await kafka.request_sharded(request)
        nodes = {each.key: each.node_id for each in found.coordinators}
        for shard in shards:
            assert isinstance(shard.request, OffsetFetchRequest)
            assert [nodes[each.group_id] for each in shard.request.groups] == (
                [shard.broker] * len(shard.request.groups)
            )

    with_client(broker3, body)


def test_raw_requests_to_every_broker_are_merged(broker3: Broker) -> None:
    async def body(kafka: AsyncClient) -> None:
        try:
            answer = await kafka.request(ListGroupsRequest())
        except UnsupportedApiError:
            assert broker3.kind == "ottla"
            return
        assert isinstance(answer, ListGroupsResponse)
        shards = await kafka.request_sharded(ListGroupsRequest())
        assert [shard.broker for shard in shards] == broker3.node_ids
        described = await kafka.request(DescribeGroupsRequest(groups=["b", "a"]))
        assert isinstance(described, DescribeGroupsResponse)
        assert [each.group_id for each in described.groups] == ["b", "a"]

    with_client(broker3, body)
