"""What a message class promises: one class for all versions, defaults, ignorable fields, tags, clear errors."""

from __future__ import annotations

import copy
import pickle
from random import Random
from typing import Any

import pytest

from ottla.errors import DecodeError, EncodeError
from ottla.wire import ZERO_UUID, Message, Uuid, messages
from ottla.wire.message import message_class
from ottla.wire.messages import (
    ApiVersionsResponse,
    ConsumerGroupHeartbeatResponse,
    CreateTopicsRequest,
    FetchRequest,
    FetchResponse,
    InitProducerIdRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    UpdateRaftVoterRequest,
)
from ottla.wire.schema import message_names
from tests.wire.random_messages import Randomly


@pytest.mark.parametrize("name", message_names())
def test_random_messages_come_back_equal_at_every_version(name: str) -> None:
    randomly = Randomly(Random(name), unknown_tags=True)
    cls = message_class(name)
    for version in cls.VERSIONS:
        for _ in range(10):
            message = randomly.message(cls, version)
            data = message.encode(version)
            decoded = cls.decode(data, version)
            assert decoded.encode(version) == data
            assert decoded == message
            assert b"".join(message.encode_parts(version)) == data


def test_defaults_are_those_of_the_schema() -> None:
    request = FetchRequest()
    assert (request.replica_id, request.max_bytes, request.session_epoch) == (-1, 0x7FFFFFFF, -1)
    assert (request.cluster_id, request.rack_id, request.topics) == (None, "", [])
    assert InitProducerIdRequest().producer_id == -1
    assert CreateTopicsRequest().timeout_ms == 60000
    assert FetchRequest.FetchTopic().topic_id == ZERO_UUID
    assert MetadataRequest().allow_auto_topic_creation is True
    assert FetchRequest.FetchPartition().high_watermark == 2**63 - 1
    assert UpdateRaftVoterRequest().kraft_version_feature == UpdateRaftVoterRequest.KRaftVersionFeature()


def test_defaults_are_not_shared() -> None:
    first, second = FetchRequest(), FetchRequest()
    first.topics.append(FetchRequest.FetchTopic(topic="a"))
    assert second.topics == []
    one, other = UpdateRaftVoterRequest(), UpdateRaftVoterRequest()
    one.kraft_version_feature.max_supported_version = 1
    assert other.kraft_version_feature.max_supported_version == 0
    decoded = MetadataResponse.decode(MetadataResponse().encode(12), 12)
    decoded.topics.append(MetadataResponse.MetadataResponseTopic())
    assert MetadataResponse.decode(MetadataResponse().encode(12), 12).topics == []


def test_a_field_that_the_version_lacks_is_refused() -> None:
    request = FetchRequest(replica_state=FetchRequest.ReplicaState(replica_id=3))
    request.encode(15)
    with pytest.raises(
        EncodeError, match=r"FetchRequest v14: replica_state is .*it is in 15-18\): leave it out or use"
    ):
        request.encode(14)


def test_a_nested_field_that_the_version_lacks_is_named_by_its_path() -> None:
    partitions = [FetchRequest.FetchPartition(), FetchRequest.FetchPartition(last_fetched_epoch=4)]
    request = FetchRequest(topics=[FetchRequest.FetchTopic(topic="orders", partitions=partitions)])
    with pytest.raises(EncodeError, match=r"topics\[0\].partitions\[1\].last_fetched_epoch is 4, and this"):
        request.encode(11)


def test_a_field_that_the_version_lacks_may_be_at_its_default() -> None:
    explicit = FetchRequest(replica_state=FetchRequest.ReplicaState())
    assert explicit.encode(4) == FetchRequest().encode(4)


def test_an_ignorable_field_is_dropped_where_the_version_lacks_it() -> None:
    request = FetchRequest(rack_id="r1", session_id=5, topics=[FetchRequest.FetchTopic(topic="orders")])
    decoded = FetchRequest.decode(request.encode(4), 4)
    assert (decoded.rack_id, decoded.session_id, decoded.topics[0].topic) == ("", 0, "orders")


@pytest.mark.parametrize(
    ("message", "version", "reason"),
    [
        (
            MetadataRequest(topics=None),
            0,
            "topics is None, which this version does not allow; it may be in 1-13",
        ),
        (FetchRequest(max_wait_ms="1"), 4, "max_wait_ms is '1', an int32 is expected"),  # type: ignore[arg-type]
        (FetchRequest(max_wait_ms=2**31), 4, "max_wait_ms is 2147483648, an int32 is expected"),
        (FetchRequest(isolation_level=128), 4, "isolation_level is 128, an int8 is expected"),
        (FetchRequest(rack_id=b"r"), 12, "rack_id is b'r', a str is expected"),  # type: ignore[arg-type]
        (FetchRequest(rack_id="r" * 32768), 12, "a str of at most 32767 bytes is expected"),
        (FetchRequest(rack_id="r" * 32768), 11, "a str of at most 32767 bytes is expected"),
        (FetchRequest(rack_id="\ud800"), 12, "text that UTF-8 can express is expected"),
        (FetchRequest(topics=5), 4, "topics is 5, a list is expected"),  # type: ignore[arg-type]
        (
            FetchRequest(topics=["a"]),  # type: ignore[list-item]
            4,
            r"topics\[0\] is 'a', a FetchTopic is expected",
        ),
        (
            FetchRequest(topics=[FetchRequest.FetchTopic(topic_id=b"123")]),  # type: ignore[arg-type]
            13,
            r"topics\[0\].topic_id is b'123', a Uuid or 16 bytes is expected",
        ),
        (
            FetchRequest(
                topics=[FetchRequest.FetchTopic(partitions=[FetchRequest.FetchPartition(), 7])],  # type: ignore[list-item]
            ),
            4,
            r"topics\[0\].partitions\[1\] is 7, a FetchPartition is expected",
        ),
        (
            messages.ConsumerProtocolSubscription(topics="orders"),  # type: ignore[arg-type]
            0,
            "topics is 'orders', a list is expected",
        ),
        (
            messages.ConsumerProtocolSubscription(topics=["a", None]),  # type: ignore[list-item]
            0,
            r"topics\[1\] is None, a str is expected",
        ),
        (
            messages.ConsumerProtocolSubscription(user_data="x"),  # type: ignore[arg-type]
            0,
            "user_data is 'x', bytes or a contiguous buffer is expected",
        ),
        (
            messages.OffsetDeleteRequest(group_id=None),  # type: ignore[arg-type]
            0,
            "group_id is None, which this version does not allow",
        ),
        (FetchRequest(unknown_tagged_fields={1: b""}), 15, "holds tag 1, which this version knows"),
    ],
)
def test_a_value_that_does_not_fit_is_named(message: Message, version: int, reason: str) -> None:
    with pytest.raises(EncodeError, match=rf"{type(message).__name__} v{version}: .*{reason}"):
        message.encode(version)


def test_a_version_that_does_not_exist_is_named() -> None:
    with pytest.raises(EncodeError, match="FetchRequest has no version 19, only 0-18"):
        FetchRequest().encode(19)
    with pytest.raises(DecodeError, match="FetchRequest has no version -1, only 0-18"):
        FetchRequest.decode(b"", -1)


def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(TypeError, match="max_wait"):
        FetchRequest(max_wait=5)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        FetchRequest().max_wait = 5  # type: ignore[attr-defined]


def test_unknown_tagged_fields_are_kept_and_written_again() -> None:
    newer = {7: b"from the future", 3000: b""}
    response = ApiVersionsResponse(
        finalized_features_epoch=8,
        unknown_tagged_fields=newer,
        api_keys=[ApiVersionsResponse.ApiVersion(api_key=1, unknown_tagged_fields={0: b"x"})],
    )
    data = response.encode(4)
    decoded = ApiVersionsResponse.decode(data, 4)
    assert decoded.unknown_tagged_fields == newer
    assert decoded.api_keys[0].unknown_tagged_fields == {0: b"x"}
    assert decoded.finalized_features_epoch == 8
    assert decoded.encode(4) == data


def test_unknown_error_codes_stay_numbers() -> None:
    data = MetadataResponse(error_code=31_000).encode(13)
    assert MetadataResponse.decode(data, 13).error_code == 31_000


def test_tags_are_written_in_ascending_order_with_unknown_ones_between() -> None:
    response = ApiVersionsResponse(zk_migration_ready=True, unknown_tagged_fields={1000: b"k", 4: b"a"})
    assert response.encode(3).hex() == "0000" + "01" + "00000000" + "03" + "030101" + "040161" + "e807016b"


def test_absent_tagged_structs_are_none() -> None:
    topic = FetchResponse.FetchableTopicResponse(partitions=[FetchResponse.PartitionData(partition_index=1)])
    decoded = FetchResponse.decode(FetchResponse(responses=[topic]).encode(16), 16)
    partition = decoded.responses[0].partitions[0]
    assert (partition.current_leader, partition.diverging_epoch) == (None, None)


def test_nullable_structs_are_read_and_written() -> None:
    assert ConsumerGroupHeartbeatResponse().encode(0)[-2:] == b"\xff\0"
    assignment = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=[])
    data = ConsumerGroupHeartbeatResponse(assignment=assignment).encode(0)
    assert ConsumerGroupHeartbeatResponse.decode(data, 0).assignment == assignment
    wrong = data[:-4] + b"\5" + data[-3:]
    with pytest.raises(DecodeError, match=r"Assignment is marked 5, neither present \(1\) nor null"):
        ConsumerGroupHeartbeatResponse.decode(wrong, 0)


def test_records_are_views_and_bytes_are_copies() -> None:
    data = bytearray(produce(b"0123456789").encode(9))
    partition = ProduceRequest.decode(data, 9).topic_data[0].partition_data[0]
    assert isinstance(partition.records, memoryview)
    assert bytes(partition.records) == b"0123456789"
    data[data.index(b"0123")] = ord("x")
    assert bytes(partition.records) == b"x123456789"
    heartbeat = bytearray(messages.SaslAuthenticateRequest(auth_bytes=b"secret").encode(2))
    decoded = messages.SaslAuthenticateRequest.decode(heartbeat, 2)
    heartbeat[:] = bytes(len(heartbeat))
    assert decoded.auth_bytes == b"secret"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_records_may_be_any_buffer(kind: Any) -> None:
    assert produce(kind(b"abcd")).encode(3) == produce(b"abcd").encode(3)


def test_records_of_wide_items_are_counted_in_bytes() -> None:
    wide = memoryview(b"abcdefgh").cast("I")
    assert produce(wide).encode(3) == produce(b"abcdefgh").encode(3)


def produce(records: Any) -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(index=1, records=records)
    return ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[partition])])


def test_messages_compare_by_value_and_can_be_copied_and_pickled() -> None:
    message = produce(b"x")
    assert message == produce(b"x")
    assert message != produce(b"y")
    assert message != "x"
    assert copy.deepcopy(message) == message
    assert pickle.loads(pickle.dumps(message)) == message
    with pytest.raises(TypeError, match="unhashable"):
        hash(message)


def test_a_message_shows_what_differs_from_its_defaults() -> None:
    request = FetchRequest(max_wait_ms=5, topics=[FetchRequest.FetchTopic(topic="orders")])
    assert repr(request) == "FetchRequest(max_wait_ms=5, topics=[FetchRequest.FetchTopic(topic='orders')])"
    assert "records=<100 bytes>" in repr(produce(bytes(100)))
    assert repr(FetchRequest()) == "FetchRequest()"


def test_names_that_the_protocol_lacks_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no message 'FetchRequst'"):
        messages.FetchRequst  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError):
        from ottla.wire.messages import LeaderAndIsrRequest  # type: ignore[attr-defined]  # noqa: F401
    assert "FetchRequest" in dir(messages)


def test_ids_print_as_kafka_prints_them() -> None:
    topic_id = Uuid.parse("AAAAAAAAACIAAAAAAAAAYg")
    assert topic_id.hex() == "00000000000000220000000000000062"
    assert (str(topic_id), repr(topic_id)) == ("AAAAAAAAACIAAAAAAAAAYg", "Uuid('AAAAAAAAACIAAAAAAAAAYg')")
    for wrong in ("", "short", "AAAAAAAAACIAAAAAAAAAYgAA", "äöü"):
        with pytest.raises(ValueError, match="is not a Kafka id"):
            Uuid.parse(wrong)
