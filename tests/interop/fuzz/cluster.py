"""Random questions about the cluster: Metadata, DescribeTopicPartitions, FindCoordinator, DescribeCluster, ACLs."""

from __future__ import annotations

from ottla.wire import ZERO_UUID, Message, Uuid
from ottla.wire.messages import (
    DescribeAclsRequest,
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
)
from tests.interop.comparison.world import World
from tests.interop.fuzz.drawing import ODD, PLAIN, Draw, FuzzStep, plain_step, step, topic_id


def metadata(draw: Draw) -> FuzzStep:
    version = draw.version("Metadata")
    names = [draw.mostly(draw.topic(), "..", "a b") for _ in range(draw.mostly(1, 2, 3))]
    by_id = version >= 10 and draw.often(0.3)
    both = draw.often(0.1)
    other: Uuid | None = draw.mostly(None, ZERO_UUID, chance=0.9)
    operations = draw.often(0.2)

    def build(world: World) -> Message:
        def topic(name: str) -> MetadataRequest.MetadataRequestTopic:
            if not by_id:
                return MetadataRequest.MetadataRequestTopic(name=name)
            found = topic_id(world, name) if other is None else other
            return MetadataRequest.MetadataRequestTopic(name=name if both else None, topic_id=found)

        return MetadataRequest(
            topics=[topic(name) for name in names],
            allow_auto_topic_creation=version < 4,
            include_topic_authorized_operations=operations,
            include_cluster_authorized_operations=operations,
        )

    return step(f"Metadata {names}{' by id' if by_id else ''}{' and name' if both else ''}", version, build)


def topic_partitions(draw: Draw) -> FuzzStep:
    cursor = draw.mostly(
        None,
        DescribeTopicPartitionsRequest.Cursor(
            topic_name=draw.one(PLAIN, ODD), partition_index=draw.partition()
        ),
        DescribeTopicPartitionsRequest.Cursor(topic_name="", partition_index=0),
    )
    names = [draw.topic() for _ in range(draw.mostly(1, 2, 3))]
    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names],
        response_partition_limit=draw.mostly(2000, 1, 2, 0, -1),
        cursor=cursor,
    )
    begin = cursor and (cursor.topic_name, cursor.partition_index)
    words = f"{names} limit {request.response_partition_limit} from {begin}"
    return plain_step(draw, request, words)


def coordinator(draw: Draw) -> FuzzStep:
    version = draw.version("FindCoordinator")
    kind = draw.mostly(0, 3, -1, 5, chance=0.7)
    keys = [draw.one("group", "", "other") for _ in range(draw.mostly(1, 2, 0))]
    request = FindCoordinatorRequest(key_type=kind)
    if version >= 4:
        request.coordinator_keys = keys
    else:
        request.key = keys[0] if keys else ""
    return step(f"FindCoordinator type {kind} of {keys}", version, lambda _world: request)


def describe(draw: Draw) -> FuzzStep:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=draw.often(0.3),
        endpoint_type=draw.mostly(1, 2, 0, 5, -1),
        include_fenced_brokers=draw.often(0.3),
    )
    return plain_step(draw, request, f"endpoints {request.endpoint_type}")


def acls(draw: Draw) -> FuzzStep:
    request = DescribeAclsRequest(
        resource_type_filter=draw.mostly(1, 2, 4),
        resource_name_filter=draw.mostly(None, PLAIN),
        pattern_type_filter=draw.mostly(3, 1),
        principal_filter=draw.mostly(None, "User:a"),
        host_filter=draw.mostly(None, "*"),
        operation=draw.mostly(1, 3),
        permission_type=draw.mostly(1, 3),
    )
    words = f"{request.resource_type_filter} {request.resource_name_filter}"
    return plain_step(draw, request, words)
