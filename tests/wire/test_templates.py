"""A template gives the bytes that the encoder gives, at every version."""

from __future__ import annotations

import pytest

from ottla.wire import Uuid
from ottla.wire.frames import encode_request
from ottla.wire.messages import FetchRequest, ProduceRequest
from ottla.wire.templates import INT32, INT64, RECORDS, NumbersTemplate, RecordsTemplate

TOPIC_ID = Uuid(bytes(range(16)))
CLIENT_ID = "a client"


def produce(records: bytes | memoryview, acks: int = -1) -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(index=3, records=records)
    topic = ProduceRequest.TopicProduceData(name="orders", topic_id=TOPIC_ID, partition_data=[partition])
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[topic])


def fetch(epoch: int, offset: int) -> FetchRequest:
    partition = FetchRequest.FetchPartition(
        partition=3, current_leader_epoch=7, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    topic = FetchRequest.FetchTopic(topic="orders", topic_id=TOPIC_ID, partitions=[partition])
    return FetchRequest(max_wait_ms=500, session_id=0x1234, session_epoch=epoch, topics=[topic])


@pytest.mark.parametrize("version", [3, 7, 8, 9, 10, 11, 12, 13])
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_382, 16_383, 16_384, 100_000])
def test_records_are_filled_in(version: int, size: int) -> None:
    records = bytes(number % 251 for number in range(size))
    template = RecordsTemplate(produce(RECORDS), version, CLIENT_ID)
    expected = b"".join(encode_request(produce(records), version, 77, CLIENT_ID))
    assert template.encode(77, memoryview(records)) == expected
    assert (template.api.name, template.version) == ("Produce", version)


# Sessions came with version 7.
@pytest.mark.parametrize("version", range(7, 19))
@pytest.mark.parametrize(("epoch", "offset"), [(1, 0), (2, 5), (0x7FFFFFFF, 1 << 62), (INT32, INT64)])
def test_numbers_are_filled_in_again_and_again(version: int, epoch: int, offset: int) -> None:
    template = NumbersTemplate(fetch(INT32, INT64), version, None)
    for correlation_id in (0, 9, 0x7FFFFFFF):
        expected = b"".join(encode_request(fetch(epoch, offset), version, correlation_id, None))
        assert template.encode(correlation_id, epoch, offset) == expected
        assert template.encode(correlation_id, 1, 1) != expected or (epoch, offset) == (1, 1)


def test_a_place_that_is_not_there_or_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="not exactly once"):
        NumbersTemplate(fetch(INT32, 5), 12, None)
    with pytest.raises(ValueError, match="not exactly once"):
        NumbersTemplate(fetch(INT32, INT32 << 32), 12, None)
