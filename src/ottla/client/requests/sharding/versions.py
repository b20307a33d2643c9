"""The same request at other versions: where Kafka moved what is said from one field to another.

A request is brought to its newest shape first (`in_newest_shape`), so that everything else knows one shape only.
What is sent to a broker of an older version has the shape of that version (`at_version`), which may take several
requests, and the response comes back in the newest shape (`from_version`). With a forced version there is neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.client.requests.sharding.items import replaced
from ottla.errors import UnsupportedApiError
from ottla.wire import ZERO_UUID, Message
from ottla.wire.messages import (
    AddPartitionsToTxnRequest,
    DeleteTopicsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    LeaveGroupRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    ProduceRequest,
)

_DELETED_BY_ID_SINCE: Final = 6
_MANY_COORDINATORS_SINCE: Final = 4
_MANY_GROUPS_SINCE: Final = 8
_MANY_LEAVE_SINCE: Final = 3
_STABLE_OFFSETS_SINCE: Final = 7
_TRANSACTIONS_OF_CLIENTS: Final = 3
"""From version 4 on AddPartitionsToTxn is what brokers say to one another (KIP-890)."""


def in_newest_shape(request: Message) -> Message:
    if isinstance(request, DeleteTopicsRequest) and request.topic_names and not request.topics:
        named = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in request.topic_names]
        return replaced(request, topics=named, topic_names=[])
    if isinstance(request, FindCoordinatorRequest) and request.key and not request.coordinator_keys:
        return replaced(request, coordinator_keys=[request.key], key="")
    if isinstance(request, LeaveGroupRequest) and request.member_id and not request.members:
        member = LeaveGroupRequest.MemberIdentity(member_id=request.member_id)
        return replaced(request, members=[member], member_id="")
    if isinstance(request, OffsetFetchRequest) and request.group_id and not request.groups:
        return replaced(request, groups=[_group_of(request)], group_id="", topics=[])
    return request


def _group_of(request: OffsetFetchRequest) -> OffsetFetchRequest.OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopics(
                name=topic.name, partition_indexes=topic.partition_indexes
            )
            for topic in request.topics
        ]
    return OffsetFetchRequest.OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def max_version(request: Message) -> int | None:
    """The highest version that can say this request; None where any can.

    Newer versions of some APIs know topics by id only. A request with names is never sent with empty ids.
    """
    if isinstance(request, AddPartitionsToTxnRequest):
        return _TRANSACTIONS_OF_CLIENTS
    by_name = _BY_NAME_UNTIL.get(request.API_KEY)
    if by_name is None:
        return None
    highest, topics_of = by_name
    return highest if any(topic.topic_id == ZERO_UUID for topic in topics_of(request)) else None


def _fetched_groups(request: Any) -> list[Any]:
    # All topics of a group (None) come back by id from version 10 on, and callers want their names.
    by_name = OffsetFetchRequest.OffsetFetchRequestTopics()
    return [
        topic for group in request.groups for topic in ([by_name] if group.topics is None else group.topics)
    ]


_BY_NAME_UNTIL: Final[Mapping[int, tuple[int, Callable[[Any], list[Any]]]]] = {
    ProduceRequest.API_KEY: (12, lambda request: request.topic_data),
    FetchRequest.API_KEY: (12, lambda request: request.topics),
    OffsetCommitRequest.API_KEY: (9, lambda request: request.topics),
    OffsetFetchRequest.API_KEY: (9, _fetched_groups),
}


_TIMES_SINCE: Final = {-3: 7, -4: 8, -5: 9, -6: 11}
"""The versions of ListOffsets that know each of the times which stand for something else than a time."""


def check_version(request: Message, version: int, broker: int) -> None:
    """UnsupportedApiError where an older version would take the request for something else."""
    if not isinstance(request, ListOffsetsRequest):
        return
    times = [partition.timestamp for topic in request.topics for partition in topic.partitions]
    needed = max((_TIMES_SINCE.get(time, 0) for time in times), default=0)
    if version < needed:
        raise UnsupportedApiError(
            f"this needs ListOffsets version {needed}, and broker {broker} has {version} at most:"
            " use another time, or upgrade the broker"
        )


def at_version(request: Message, version: int) -> list[Message]:
    """What to send at `version` in order to say this; one request, or one for each item."""
    if isinstance(request, DeleteTopicsRequest) and version < _DELETED_BY_ID_SINCE:
        names = [topic.name for topic in request.topics]
        if None not in names:  # without a name, the encoder says that the version has no ids
            return [replaced(request, topics=[], topic_names=names)]
    if isinstance(request, FindCoordinatorRequest) and version < _MANY_COORDINATORS_SINCE:
        return [replaced(request, key=key, coordinator_keys=[]) for key in request.coordinator_keys]
    if isinstance(request, LeaveGroupRequest) and version < _MANY_LEAVE_SINCE:
        return [replaced(request, member_id=member.member_id, members=[]) for member in request.members]
    if isinstance(request, OffsetFetchRequest) and version < _STABLE_OFFSETS_SINCE:
        # As in Java: these brokers cannot wait for open transactions, and give what is committed.
        request = replaced(request, require_stable=False)
    if isinstance(request, OffsetFetchRequest) and version < _MANY_GROUPS_SINCE:
        return [_of_one_group(request, group) for group in request.groups]
    return [request]


def _of_one_group(
    request: OffsetFetchRequest, group: OffsetFetchRequest.OffsetFetchRequestGroup
) -> OffsetFetchRequest:
    topics = None
    if group.topics is not None:
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopic(
                name=topic.name, partition_indexes=topic.partition_indexes
            )
            for topic in group.topics
        ]
    return replaced(request, groups=[], group_id=group.group_id, topics=topics)


def from_version(sent: Message, response: Message, version: int) -> Message:
    """The response to one request of `at_version`, in the newest shape."""
    if isinstance(response, FindCoordinatorResponse) and version < _MANY_COORDINATORS_SINCE:
        assert isinstance(sent, FindCoordinatorRequest)
        found = FindCoordinatorResponse.Coordinator(
            key=sent.key,
            node_id=response.node_id,
            host=response.host,
            port=response.port,
            error_code=response.error_code,
            error_message=response.error_message,
        )
        return replaced(response, coordinators=[found], error_code=0, error_message=None)
    if isinstance(response, OffsetFetchResponse) and version < _MANY_GROUPS_SINCE:
        assert isinstance(sent, OffsetFetchRequest)
        return _as_one_group(sent.group_id, response)
    return response


def _as_one_group(group_id: str, response: OffsetFetchResponse) -> OffsetFetchResponse:
    topics = [
        OffsetFetchResponse.OffsetFetchResponseTopics(
            name=topic.name,
            partitions=[
                OffsetFetchResponse.OffsetFetchResponsePartitions(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error_code=partition.error_code,
                )
                for partition in topic.partitions
            ],
        )
        for topic in response.topics
    ]
    group = OffsetFetchResponse.OffsetFetchResponseGroup(
        group_id=group_id, topics=topics, error_code=response.error_code
    )
    return replaced(response, groups=[group], topics=[], error_code=0)
