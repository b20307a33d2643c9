"""Metadata: the brokers that are alive, the topics that are named, and who leads their partitions.

`topics` null is all of them, since version 1 an empty list is none (before, it was all). Topics are named, or since
version 12 given by id (KIP-516); one id in the request, and names count no more. A topic that does not exist is
created on the side where both broker and request allow it, and UNKNOWN_TOPIC_OR_PARTITION in any case: the client
requests it again. In version 0 replicas that are down are left out and reported as an error; later ones list them as
offline (since 5). What one may do (KIP-430) is everything, here; said of the cluster in versions 8 to 10 only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.internal_topics import creatable, is_internal
from ottla.broker.metadata.describe import (
    alive_broker,
    controller_id,
    leader_of,
    offline_replicas,
)
from ottla.broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.broker.metadata.names import why_invalid
from ottla.broker.metadata.records import NO_LEADER
from ottla.broker.security.acl import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from ottla.broker.server.faults import NO_PARTITION
from ottla.broker.server.registry import handles
from ottla.errors import (
    BrokerError,
    InvalidRequestError,
    InvalidTopicError,
    LeaderNotAvailableError,
    ReplicaNotAvailableError,
    UnknownServerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.messages import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_log = logging.getLogger("ottla.broker.handlers.metadata")

_EMPTY_IS_NONE_SINCE: Final = 1
_BY_ID_SINCE: Final = 12
_CLUSTER_OPERATIONS_IN: Final = range(8, 11)

DescribedTopic = MetadataResponse.MetadataResponseTopic
DescribedPartition = MetadataResponse.MetadataResponsePartition


def _refuse(request: MetadataRequest, error: BrokerError) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            DescribedTopic(name=topic.name or "", topic_id=topic.topic_id, error_code=error.code)
            for topic in request.topics or []
        ],
        error_code=error.code,
    )


@handles(MetadataRequest, versions=range(14), refuse=_refuse)
def metadata(node: NodeContext, request: MetadataRequest, call: Call) -> MetadataResponse:
    image = node.image
    response = MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=broker.id, host=broker.host, port=broker.port, rack=broker.rack
            )
            for broker in image.alive_brokers()
        ],
        cluster_id=node.cluster_id,
        controller_id=controller_id(image),
        topics=_topics(node, request, call),
    )
    if request.include_cluster_authorized_operations and call.version in _CLUSTER_OPERATIONS_IN:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _topics(node: NodeContext, request: MetadataRequest, call: Call) -> list[DescribedTopic]:
    image = node.image
    if not request.topics and (request.topics is None or call.version < _EMPTY_IS_NONE_SINCE):
        return _described(image.topics.values(), node, request, call)
    requested = request.topics or []
    if call.version < _BY_ID_SINCE:
        _check_named(requested, call.version)
    ids = dict.fromkeys(topic.topic_id for topic in requested if topic.topic_id != ZERO_UUID)
    if ids:
        known = [image.topics_by_id[topic_id] for topic_id in ids if topic_id in image.topics_by_id]
        return _unknown_ids(image, ids) + _described(known, node, request, call)
    names = dict.fromkeys(_name(topic) for topic in requested)
    known = [image.topics[name] for name in names if name in image.topics]
    missing = [name for name in names if name not in image.topics]
    if missing and request.allow_auto_topic_creation and node.configs.value("auto.create.topics.enable"):
        _create(node, [name for name in missing if why_invalid(name) is None])
    return _described(known, node, request, call) + [_missing(name, request) for name in missing]


def _check_named(requested: Iterable[MetadataRequest.MetadataRequestTopic], version: int) -> None:
    """Versions 10 and 11 have the field for ids, but were never allowed to use it."""
    for topic in requested:
        if topic.name is None:
            raise InvalidRequestError(f"Topic name can not be null for version {version}")
        if topic.topic_id != ZERO_UUID:
            raise InvalidRequestError(f"Topic IDs are not supported in requests for version {version}")


def _name(topic: MetadataRequest.MetadataRequestTopic) -> str:
    if topic.name is None:
        raise UnknownServerError("a topic has neither a name nor an id")  # what Kafka stumbles over
    return topic.name


def _unknown_ids(image: MetadataImage, ids: Iterable[Uuid]) -> list[DescribedTopic]:
    return [
        DescribedTopic(error_code=UnknownTopicIdError.code, name=None, topic_id=topic_id)
        for topic_id in ids
        if topic_id not in image.topics_by_id
    ]


def _missing(name: str, request: MetadataRequest) -> DescribedTopic:
    error = UnknownTopicOrPartitionError if why_invalid(name) is None else InvalidTopicError
    topic = DescribedTopic(error_code=error.code, name=name, is_internal=is_internal(name))
    if request.include_topic_authorized_operations:
        topic.topic_authorized_operations = TOPIC_OPERATIONS
    return topic


def _described(
    topics: Iterable[TopicImage], node: NodeContext, request: MetadataRequest, call: Call
) -> list[DescribedTopic]:
    described = []
    for topic in topics:
        result = DescribedTopic(name=topic.name, topic_id=topic.id, is_internal=is_internal(topic.name))
        if request.include_topic_authorized_operations:
            result.topic_authorized_operations = TOPIC_OPERATIONS
        try:
            call.check(topic.name, NO_PARTITION)
            result.partitions = [
                _partition(node.image, index, partition, call.version)
                for index, partition in sorted(topic.partitions.items())
            ]
        except BrokerError as error:
            result.error_code = error.code
        described.append(result)
    return described


def _partition(
    image: MetadataImage, index: int, partition: PartitionImage, version: int
) -> DescribedPartition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    if version == 0:
        replicas = [replica for replica in replicas if alive_broker(image, replica) is not None]
        isr = [replica for replica in isr if alive_broker(image, replica) is not None]
    described = DescribedPartition(
        partition_index=index,
        leader_id=leader_of(image, partition),
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline_replicas(image, partition),
    )
    if described.leader_id == NO_LEADER:
        described.error_code = LeaderNotAvailableError.code
    elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
        described.error_code = ReplicaNotAvailableError.code
    return described


def _create(node: NodeContext, names: list[str]) -> None:
    if names:
        node.background.spawn(_created(node, names))


async def _created(node: NodeContext, names: list[str]) -> None:
    response = await node.controller.create_topics([creatable(name, node.configs) for name in names])
    for topic in response.topics:
        if topic.error_code:
            _log.info("node %s: topic %s was not created: %s", node.id, topic.name, topic.error_message)
