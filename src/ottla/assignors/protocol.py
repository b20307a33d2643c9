"""The bytes that members of a classic group exchange: subscriptions, assignments, user data of sticky assignors.

An int16 version stands before each message. Later versions only append fields, so a version that is not known yet
is read like the last known one, and bytes behind the fields are left alone. The user data of "sticky" is what the
member owned and in which generation; that of "cooperative-sticky" only the generation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, TypeVar

from ottla.assignors.subscription import NO_GENERATION, MemberSubscription, Partition
from ottla.errors import DecodeError
from ottla.wire.message import Message
from ottla.wire.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription

PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of groups whose members exchange these bytes."""
LATEST_VERSION: Final = 3

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")

M = TypeVar("M", bound=Message)


def encode_subscription(member: MemberSubscription, version: int = LATEST_VERSION) -> bytes:
    """What a member sends when it joins. Fields that `version` lacks are left out."""
    message = ConsumerProtocolSubscription(
        topics=sorted(member.topics),
        user_data=member.user_data,
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(sorted(member.owned)).items()
        ],
        generation_id=member.generation,
        rack_id=member.rack,
    )
    return _INT16.pack(version) + message.encode(version)


def decode_subscription(data: bytes, member_id: str, instance_id: str | None = None) -> MemberSubscription:
    """The subscription that a JoinGroup response or DescribeGroups has of a member; DecodeError for other bytes."""
    message = _decode(ConsumerProtocolSubscription, data, f"the subscription of member {member_id!r}")
    return MemberSubscription(
        member_id=member_id,
        topics=tuple(message.topics),
        instance_id=instance_id,
        rack=message.rack_id or None,
        owned=tuple(
            (owned.topic, number) for owned in message.owned_partitions for number in owned.partitions
        ),
        generation=message.generation_id,
        user_data=message.user_data,
    )


def encode_assignment(
    partitions: Iterable[Partition], user_data: bytes | None = None, version: int = LATEST_VERSION
) -> bytes:
    """What the leader sends for a member, or a coordinator for a classic member of a KIP-848 group."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(partitions).items()
        ],
        user_data=user_data,
    )
    return _INT16.pack(version) + message.encode(version)


def decode_assignment(data: bytes) -> tuple[list[Partition], bytes | None]:
    """The partitions and user data of an assignment; no bytes at all are for a member that the leader left out."""
    if not data:
        return [], None
    message = _decode(ConsumerProtocolAssignment, data, "an assignment")
    assigned = [
        (assigned.topic, number) for assigned in message.assigned_partitions for number in assigned.partitions
    ]
    return assigned, message.user_data


def encode_sticky_data(owned: Iterable[Partition], generation: int) -> bytes:
    """The user data of "sticky": what the last assignment was, since an eager member joins with nothing."""
    topics = by_topic(owned)
    parts = [_INT32.pack(len(topics))]
    for topic, numbers in topics.items():
        name = topic.encode()
        parts += [_INT16.pack(len(name)), name, struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join([*parts, _INT32.pack(generation)])


def decode_sticky_data(data: bytes | None) -> tuple[list[Partition], int]:
    """What a member says it owned, and its generation.

    Clients before generations were added leave the generation out. Data of another kind counts as nothing owned: the
    group must come to an assignment with whatever one of its members sends.
    """
    if not data:
        return [], NO_GENERATION
    try:
        owned, pos = _read_owned(data)
    except (struct.error, UnicodeDecodeError, ValueError):
        return [], NO_GENERATION
    generation: int = _INT32.unpack_from(data, pos)[0] if len(data) >= pos + _INT32.size else NO_GENERATION
    return owned, generation


def encode_cooperative_data(generation: int) -> bytes:
    """The user data of "cooperative-sticky", for leaders that do not read the generation in the subscription."""
    return _INT32.pack(generation)


def decode_cooperative_data(data: bytes | None) -> int:
    return NO_GENERATION if data is None or len(data) < _INT32.size else int(_INT32.unpack_from(data)[0])


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """Partition numbers by topic, both in the order in which they come."""
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics


def _decode(kind: type[M], data: bytes, what: str) -> M:
    if len(data) < _INT16.size:
        raise DecodeError(f"{what} has {len(data)} bytes, not even a version")
    (version,) = _INT16.unpack_from(data)
    if version < 0:
        raise DecodeError(f"{what} has version {version}")
    try:
        message: M
        message, _ = kind.decoder(min(version, LATEST_VERSION))(data, _INT16.size, len(data))
    except DecodeError as error:
        raise DecodeError(f"{what} cannot be read: {error}") from error
    return message


def _read_owned(data: bytes) -> tuple[list[Partition], int]:
    owned: list[Partition] = []
    (topics,) = _INT32.unpack_from(data)
    pos = _INT32.size
    for _ in range(topics):
        (length,) = _INT16.unpack_from(data, pos)
        pos += _INT16.size
        if length < 0 or pos + length > len(data):
            raise ValueError("a topic's name is longer than the data")
        topic = data[pos : pos + length].decode()
        pos += length
        (count,) = _INT32.unpack_from(data, pos)
        pos += _INT32.size
        if count < 0 or pos + count * _INT32.size > len(data):
            raise ValueError("a list of partitions is longer than the data")
        owned += [(topic, number) for number in struct.unpack_from(f">{count}i", data, pos)]
        pos += count * _INT32.size
    return owned, pos
