"""A template gives the bytes that the encoder gives, at every version."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire import Uuid
from ottla.wire.frames import encode_request, encode_response
from ottla.wire.messages import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from ottla.wire.templates import (
    INT32,
    INT64,
    RECORDS,
    Acknowledged,
    AcknowledgementTemplate,
    FetchedTemplate,
    NumbersTemplate,
    RecordsTemplate,
)

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
    assert template.encode(memoryview(records), 77) == expected
    assert (template.api.name, template.version) == ("Produce", version)


def acknowledged(**changed: Any) -> ProduceResponse:
    throttle = changed.pop("throttle", 0)
    topic_id = changed.pop("topic_id", TOPIC_ID)
    fields = {"index": 3, "base_offset": 5, "log_append_time_ms": -1, "log_start_offset": 2, **changed}
    partition = ProduceResponse.PartitionProduceResponse(**fields)
    topic = ProduceResponse.TopicProduceResponse(
        name="orders", topic_id=topic_id, partition_responses=[partition]
    )
    return ProduceResponse(responses=[topic], throttle_time_ms=throttle)


def response(message: ProduceResponse, version: int) -> memoryview:
    return memoryview(bytearray(b"".join(encode_response(message, version, 9))[4:]))


VERSIONS = [3, 7, 8, 9, 10, 11, 12, 13]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_acknowledgement_is_recognized(version: int) -> None:
    template = AcknowledgementTemplate(produce(RECORDS), version)
    for offset, time in ((0, -1), (5, 1_700_000_000_000), ((1 << 63) - 1, 0), (INT64, INT64)):
        frame = response(acknowledged(base_offset=offset, log_append_time_ms=time), version)
        assert template.decode(frame) == Acknowledged(offset, time)


@pytest.mark.parametrize("version", VERSIONS)
def test_any_other_response_is_not_taken_for_one(version: int) -> None:
    template = AcknowledgementTemplate(produce(RECORDS), version)
    record_error = ProduceResponse.BatchIndexAndErrorMessage(batch_index=0)
    others: list[dict[str, Any]] = [{"index": 4}, {"error_code": 1}, {"throttle": 1}]
    if version >= 8:
        others += [{"record_errors": [record_error]}, {"error_message": "no"}]
    if version >= 13:
        others.append({"topic_id": Uuid(bytes(16))})
    for other in others:
        assert template.decode(response(acknowledged(**other), version)) is None, other
    whole = response(acknowledged(), version)
    for end in range(len(whole)):
        assert template.decode(whole[:end]) is None
    assert template.decode(response(ProduceResponse(responses=[]), version)) is None


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


def fetched(records: bytes, **changed: Any) -> FetchResponse:
    outside: dict[str, Any] = {"session_id": 0x1234}
    outside |= {name: changed.pop(name) for name in ("throttle_time_ms", "session_id") if name in changed}
    fields = {
        "partition_index": 3,
        "high_watermark": 9,
        "last_stable_offset": 8,
        "log_start_offset": 1,
        "records": records,
        **changed,
    }
    topic = FetchResponse.FetchableTopicResponse(
        topic="orders", topic_id=TOPIC_ID, partitions=[FetchResponse.PartitionData(**fields)]
    )
    return FetchResponse(responses=[topic], **outside)


def fetch_frame(message: FetchResponse, version: int) -> memoryview:
    return memoryview(bytearray(b"".join(encode_response(message, version, 9))[4:]))


@pytest.mark.parametrize("version", range(7, 19))
@pytest.mark.parametrize("size", [61, 126, 127, 128, 16_383, 16_384, 3_000_000])
@pytest.mark.parametrize("aborted", [None, []])
def test_records_that_were_fetched_are_recognized(version: int, size: int, aborted: list[Any] | None) -> None:
    template = FetchedTemplate(fetch(1, 5), version)
    records = bytes(number % 251 for number in range(size))
    found = template.decode(fetch_frame(fetched(records, aborted_transactions=aborted), version))
    assert found is not None
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (9, 8, 1)
    assert found.records == records
    usual = FetchResponse.PartitionData()
    assert (found.error_code, found.diverging_epoch) == (usual.error_code, usual.diverging_epoch)
    assert found.preferred_read_replica == usual.preferred_read_replica


@pytest.mark.parametrize("version", range(7, 19))
def test_any_other_response_to_a_fetch_is_decoded_as_usual(version: int) -> None:
    template = FetchedTemplate(fetch(1, 5), version)
    aborted = FetchResponse.AbortedTransaction(producer_id=1, first_offset=2)
    others: list[dict[str, Any]] = [
        {"partition_index": 4},
        {"aborted_transactions": [aborted]},
        {"throttle_time_ms": 1},
        {"session_id": 5},
        {"error_code": 70},
        {"records": None},
    ]
    if version >= 11:
        others.append({"preferred_read_replica": 2})
    if version >= 12:
        others.append({"diverging_epoch": FetchResponse.EpochEndOffset(epoch=1, end_offset=2)})
        others.append({"current_leader": FetchResponse.LeaderIdAndEpoch(leader_id=2, leader_epoch=5)})
    for other in others:
        assert template.decode(fetch_frame(fetched(**({"records": b"x" * 70} | other)), version)) is None, (
            other
        )
    assert template.decode(fetch_frame(FetchResponse(session_id=0x1234), version)) is None


@pytest.mark.parametrize("version", [7, 12, 18])
def test_of_a_damaged_response_only_numbers_and_records_are_taken(version: int) -> None:
    template = FetchedTemplate(fetch(1, 5), version)
    whole = fetch_frame(fetched(b"x" * 70), version)
    for end in range(len(whole)):
        assert template.decode(whole[:end]) is None
    for at in range(4, len(whole)):
        damaged = memoryview(bytearray(whole))
        damaged[at] ^= 0xFF
        found = template.decode(damaged)
        # What may be damaged unnoticed are numbers and records; checksums are for those.
        assert found is None or len(found.records) == 70
