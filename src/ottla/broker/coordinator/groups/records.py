"""The records of __consumer_offsets, in the bytes of Apache Kafka 4.3: keys and values, and what stands in front.

A key begins with the number of its type, a value with its version; a record without a value is a tombstone. Records
of a type that this release does not know are left by a newer one and skipped, as Kafka does; a value of an unknown
version is an error, because what it replaces would stay.

The classes are written out for those who read and check them; the codecs are compiled from the schema below, as
those of the protocol's messages are (ottla/wire). That both have the same fields is checked by a test.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from ottla.broker.coordinator.shard import CoordinatorRecord
from ottla.errors import DecodeError
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.decoder import Decoder, compile_decoder
from ottla.wire.encoder import Encoder, compile_encoder
from ottla.wire.primitives import Buffer
from ottla.wire.schema import MessageSchema, parse_message

_INT16: Final = struct.Struct(">h")


@dataclass(slots=True, kw_only=True)
class RecordStruct:
    """Fields of a record; what a newer release has added behind a tag is kept and written again."""

    unknown_tagged_fields: dict[int, bytes] | None = field(default=None, repr=False)


# Offsets


@dataclass(slots=True, kw_only=True)
class OffsetCommitKey(RecordStruct):
    group: str
    topic: str
    partition: int


@dataclass(slots=True, kw_only=True)
class OffsetCommitValue(RecordStruct):
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1
    topic_id: Uuid = ZERO_UUID


# Classic groups


@dataclass(slots=True, kw_only=True)
class GroupMetadataKey(RecordStruct):
    group: str


@dataclass(slots=True, kw_only=True)
class MemberMetadata(RecordStruct):
    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    session_timeout: int = 0
    subscription: bytes = b""
    assignment: bytes = b""


@dataclass(slots=True, kw_only=True)
class GroupMetadataValue(RecordStruct):
    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: int = -1
    members: list[MemberMetadata] = field(default_factory=list)


# Consumer groups (KIP-848)


@dataclass(slots=True, kw_only=True)
class ConsumerGroupMetadataKey(RecordStruct):
    group_id: str


@dataclass(slots=True, kw_only=True)
class ConsumerGroupMetadataValue(RecordStruct):
    epoch: int
    metadata_hash: int = 0


@dataclass(slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataKey(RecordStruct):
    group_id: str


@dataclass(slots=True, kw_only=True)
class PartitionMetadata(RecordStruct):
    partition: int
    racks: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class TopicMetadata(RecordStruct):
    topic_id: Uuid
    topic_name: str
    num_partitions: int
    partition_metadata: list[PartitionMetadata] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataValue(RecordStruct):
    """Kafka 4.1 and later write tombstones of it only."""

    topics: list[TopicMetadata] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ConsumerGroupMemberMetadataKey(RecordStruct):
    group_id: str
    member_id: str


@dataclass(slots=True, kw_only=True)
class ClassicProtocol(RecordStruct):
    name: str
    metadata: bytes = b""


@dataclass(slots=True, kw_only=True)
class ClassicMemberMetadata(RecordStruct):
    session_timeout_ms: int = 0
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue(RecordStruct):
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic_member_metadata: ClassicMemberMetadata | None = None
    """Of a member of the classic protocol. That there is none is written, because Kafka's default is an empty one."""


@dataclass(slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataKey(RecordStruct):
    group_id: str


@dataclass(slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataValue(RecordStruct):
    assignment_epoch: int
    assignment_timestamp: int = 0


@dataclass(slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberKey(RecordStruct):
    group_id: str
    member_id: str


@dataclass(slots=True, kw_only=True)
class TargetTopicPartitions(RecordStruct):
    topic_id: Uuid
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberValue(RecordStruct):
    topic_partitions: list[TargetTopicPartitions] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentKey(RecordStruct):
    group_id: str
    member_id: str


@dataclass(slots=True, kw_only=True)
class AssignedTopicPartitions(RecordStruct):
    topic_id: Uuid
    partitions: list[int] = field(default_factory=list)
    assignment_epochs: list[int] | None = None
    """The epoch at which each partition was assigned (KIP-1251)."""


@dataclass(slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue(RecordStruct):
    member_epoch: int
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[AssignedTopicPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[AssignedTopicPartitions] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ConsumerGroupRegularExpressionKey(RecordStruct):
    group_id: str
    regular_expression: str


@dataclass(slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue(RecordStruct):
    topics: list[str] = field(default_factory=list)
    version: int = 0
    timestamp: int = 0


_GROUP_ID: Final = "  GroupId string"
_GROUP_AND_MEMBER: Final = "  GroupId string\n  MemberId string"

_SCHEMA: Final = f"""\
data OffsetCommitKey 0 flexible=none
  Group string
  Topic string
  Partition int32

data OffsetCommitValue 0-4 flexible=4+
  Offset int64
  LeaderEpoch int32 3+ default=-1 ignorable
  Metadata string
  CommitTimestamp int64
  ExpireTimestamp int64 1 default=-1 ignorable
  TopicId uuid 4+ tag=0 ignorable

data GroupMetadataKey 0 flexible=none
  Group string

data GroupMetadataValue 0-4 flexible=4+
  ProtocolType string
  Generation int32
  Protocol string?
  Leader string?
  CurrentStateTimestamp int64 2+ default=-1 ignorable
  Members []MemberMetadata
    MemberId string
    GroupInstanceId string? 3+ default=null ignorable
    ClientId string
    ClientHost string
    RebalanceTimeout int32 1+ default=-1 ignorable
    SessionTimeout int32
    Subscription bytes
    Assignment bytes

data ConsumerGroupMetadataKey 0 flexible=none
{_GROUP_ID}

data ConsumerGroupMetadataValue 0 flexible=0+
  Epoch int32
  MetadataHash int64 tag=0

data ConsumerGroupPartitionMetadataKey 0 flexible=none
{_GROUP_ID}

data ConsumerGroupPartitionMetadataValue 0 flexible=0+
  Topics []TopicMetadata
    TopicId uuid
    TopicName string
    NumPartitions int32
    PartitionMetadata []PartitionMetadata
      Partition int32
      Racks []string

data ConsumerGroupMemberMetadataKey 0 flexible=none
{_GROUP_AND_MEMBER}

data ConsumerGroupMemberMetadataValue 0 flexible=0+
  InstanceId string?
  RackId string?
  ClientId string
  ClientHost string
  SubscribedTopicNames []string
  SubscribedTopicRegex string?
  RebalanceTimeoutMs int32 default=-1
  ServerAssignor string?
  ClassicMemberMetadata ClassicMemberMetadata? tag=0
    SessionTimeoutMs int32
    SupportedProtocols []ClassicProtocol
      Name string
      Metadata bytes

data ConsumerGroupTargetAssignmentMetadataKey 0 flexible=none
{_GROUP_ID}

data ConsumerGroupTargetAssignmentMetadataValue 0 flexible=0+
  AssignmentEpoch int32
  AssignmentTimestamp int64 tag=0

data ConsumerGroupTargetAssignmentMemberKey 0 flexible=none
{_GROUP_AND_MEMBER}

data ConsumerGroupTargetAssignmentMemberValue 0 flexible=0+
  TopicPartitions []TargetTopicPartitions
    TopicId uuid
    Partitions []int32

data ConsumerGroupCurrentMemberAssignmentKey 0 flexible=none
{_GROUP_AND_MEMBER}

data ConsumerGroupCurrentMemberAssignmentValue 0 flexible=0+
  MemberEpoch int32
  PreviousMemberEpoch int32
  State int8
  AssignedPartitions []AssignedTopicPartitions
  PartitionsPendingRevocation []AssignedTopicPartitions
  struct AssignedTopicPartitions
    TopicId uuid
    Partitions []int32
    AssignmentEpochs []int32? tag=0 default=null

data ConsumerGroupRegularExpressionKey 0 flexible=none
  GroupId string
  RegularExpression string

data ConsumerGroupRegularExpressionValue 0 flexible=0+
  Topics []string
  Version int64
  Timestamp int64
"""

RecordKey = (
    OffsetCommitKey
    | GroupMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
RecordValue = (
    OffsetCommitValue
    | GroupMetadataValue
    | ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
)

_TYPES: Final[Mapping[int, tuple[type[RecordStruct], type[RecordStruct]]]] = {
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
_LEGACY_OFFSET_COMMIT: Final = 0  # the key of Kafka 0.8; what it says is what type 1 says
_NUMBERS: Final = {key: number for number, (key, _) in _TYPES.items()}
_WRITTEN: Final[Mapping[type, int]] = {OffsetCommitValue: 4, GroupMetadataValue: 3}
"""The versions that are written, where that is not 0."""
_EXPIRING: Final = 1
"""The only version of an offset that says when it expires."""


class UnknownRecordTypeError(DecodeError):
    """A key of a type that this release does not know."""


def encode(key: RecordKey, value: RecordValue | None) -> CoordinatorRecord:
    """The record; without a value it is a tombstone."""
    parts: list[Buffer] = [_INT16.pack(_NUMBERS[type(key)])]
    _encoder(type(key).__name__, 0)(key, parts.append)
    if value is None:
        return CoordinatorRecord(b"".join(parts), None)
    version = _WRITTEN.get(type(value), 0)
    if isinstance(value, OffsetCommitValue) and value.expire_timestamp >= 0:
        version = _EXPIRING
    body: list[Buffer] = [_INT16.pack(version)]
    _encoder(type(value).__name__, version)(value, body.append)
    return CoordinatorRecord(b"".join(parts), b"".join(body))


def decode(key: bytes, value: bytes | None) -> tuple[RecordKey, RecordValue | None]:
    """What a record says; UnknownRecordTypeError for what is to be skipped."""
    number = _number(key, "key")
    types = _TYPES.get(1 if number == _LEGACY_OFFSET_COMMIT else number)
    if types is None:
        raise UnknownRecordTypeError(f"a record of the unknown type {number}")
    key_type, value_type = types
    decoded: Any = _decode(key_type, 0, key)
    if value is None:
        return decoded, None
    version = _number(value, "value")
    if version not in _schema(value_type.__name__).versions:
        raise DecodeError(f"a {value_type.__name__} of the unknown version {version}")
    return decoded, _decode(value_type, version, value)


def _number(data: bytes, what: str) -> int:
    if len(data) < _INT16.size:
        raise DecodeError(f"a {what} of {len(data)} bytes")
    number: int = _INT16.unpack_from(data)[0]
    return number


def _decode(type_: type[RecordStruct], version: int, data: bytes) -> Any:
    decoded, _ = _decoder(type_.__name__, version)(data, _INT16.size, len(data))
    return decoded


@cache
def _encoder(name: str, version: int) -> Encoder:
    return compile_encoder(_schema(name), version, _CLASSES)


@cache
def _decoder(name: str, version: int) -> Decoder:
    return compile_decoder(_schema(name), version, _CLASSES)


@cache
def _schema(name: str) -> MessageSchema:
    return next(parse_message(block) for block in _SCHEMA.strip().split("\n\n") if block.split()[1] == name)


_CLASSES: Final = {type_.__name__: type_ for type_ in RecordStruct.__subclasses__()}
