"""FindCoordinator: the node that coordinates a group, a transactional id or a share partition: a partition leader.

A key belongs to a partition of an internal topic (internal_topics.py), and its leader is the coordinator. The topic
is created when it is first needed; until it has a leader the response is COORDINATOR_NOT_AVAILABLE, and the client
sends it again. Many keys at once since version 4, share groups since 6; an older share key, one that is no
group:topic id:partition, and an unknown type are INVALID_REQUEST.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    coordinator_partition,
    creatable,
)
from ottla.broker.metadata.describe import alive_broker
from ottla.broker.server.refusals import error_message
from ottla.broker.server.registry import handles
from ottla.errors import BrokerError, CoordinatorNotAvailableError, InvalidRequestError
from ottla.wire.messages import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.metadata.image import BrokerImage
    from ottla.broker.server.call import Call

_log = logging.getLogger("ottla.broker.handlers.find_coordinator")

GROUP, TRANSACTION, SHARE = range(3)
_MANY_SINCE: Final = 4
_SHARE_SINCE: Final = 6
_SHARE_KEY: Final = re.compile(r"[^:]*:[A-Za-z0-9_-]{22}:[0-9]+")
_NO_NODE: Final = -1
_NO_ERROR: Final = "NONE"
"""Up to version 3 Kafka sends its standard error message for the code along, also for that of success."""

FoundCoordinator = FindCoordinatorResponse.Coordinator


def _refuse(request: FindCoordinatorRequest, error: BrokerError) -> FindCoordinatorResponse:
    if request.coordinator_keys:
        return FindCoordinatorResponse(
            coordinators=[_refused(key, error.code, error_message(error)) for key in request.coordinator_keys]
        )
    return FindCoordinatorResponse(
        error_code=error.code, error_message=error_message(error), node_id=_NO_NODE, port=_NO_NODE
    )


def _refused(key: str, code: int, message: str) -> FoundCoordinator:
    return FoundCoordinator(key=key, node_id=_NO_NODE, port=_NO_NODE, error_code=code, error_message=message)


@handles(FindCoordinatorRequest, versions=range(7), refuse=_refuse)
def find_coordinator(
    node: NodeContext, request: FindCoordinatorRequest, call: Call
) -> FindCoordinatorResponse:
    if call.version < _MANY_SINCE:
        broker = _coordinator(node, call.version, request.key_type, request.key)
        return FindCoordinatorResponse(
            error_message=_NO_ERROR, node_id=broker.id, host=broker.host, port=broker.port
        )
    return FindCoordinatorResponse(
        coordinators=[_found(node, call.version, request.key_type, key) for key in request.coordinator_keys]
    )


def _found(node: NodeContext, version: int, key_type: int, key: str) -> FoundCoordinator:
    try:
        broker = _coordinator(node, version, key_type, key)
    except BrokerError as error:
        return _refused(key, error.code, error.message or "")
    return FoundCoordinator(key=key, node_id=broker.id, host=broker.host, port=broker.port)


def _coordinator(node: NodeContext, version: int, key_type: int, key: str) -> BrokerImage:
    topic = _topic(version, key_type, key)
    known = node.image.topics.get(topic)
    if known is None:
        node.background.spawn(_create(node, topic))
        raise CoordinatorNotAvailableError(broker=node.id)
    partition = known.partitions.get(coordinator_partition(key, len(known.partitions) or 1))
    broker = None if partition is None else alive_broker(node.image, partition.leader)
    if broker is None:
        raise CoordinatorNotAvailableError(broker=node.id)
    return broker


def _topic(version: int, key_type: int, key: str) -> str:
    if key_type == GROUP:
        return OFFSETS_TOPIC
    if key_type == TRANSACTION:
        return TRANSACTIONS_TOPIC
    if key_type != SHARE:
        raise InvalidRequestError(error_message(InvalidRequestError()))
    if version < _SHARE_SINCE or _SHARE_KEY.fullmatch(key) is None:
        raise InvalidRequestError
    return SHARE_STATE_TOPIC


async def _create(node: NodeContext, topic: str) -> None:
    response = await node.controller.create_topics([creatable(topic, node.configs)])
    for result in response.topics:
        if result.error_code:
            _log.warning("node %s: %s was not created: %s", node.id, topic, result.error_message)
