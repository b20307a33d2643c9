"""Requests and responses as they stand on a connection."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.errors import DecodeError, EncodeError, ProtocolError
from ottla.wire import (
    Message,
    api_for_key,
    api_named,
    correlation_id_of,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from ottla.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    HeartbeatRequest,
    ProduceRequest,
    RequestHeader,
)
from tests.facts import third_party_vectors
from tests.wire.vectors import framed_vectors, from_json


def ids(vector: dict[str, Any]) -> str:
    return f"{vector['area']}-{vector['id']}"


def body_of(vector: dict[str, Any], cls: type[Message]) -> Message:
    return from_json(cls, vector["input"]["body"])


REQUESTS = [v for v in framed_vectors() if v["area"] == "framed-request"]
RESPONSES = [v for v in framed_vectors() if v["area"] == "framed-response"]


def test_the_known_answers_are_all_there() -> None:
    assert (len(REQUESTS), len(RESPONSES)) == (16, 5)


@pytest.mark.parametrize("vector", REQUESTS, ids=ids)
def test_requests_are_framed_as_kafka_frames_them(vector: dict[str, Any]) -> None:
    facts, frame = vector["input"], bytes.fromhex(vector["expected"])
    api = api_for_key(facts["apiKey"])
    assert api.name == facts["name"]
    assert api.request_header_version(facts["version"]) == facts["headerVersion"]
    request = body_of(vector, api.request)
    parts = encode_request(request, facts["version"], facts["correlationId"], facts["clientId"])
    assert b"".join(parts).hex() == frame.hex()
    header, decoded = decode_request(frame[4:])
    assert decoded == request
    assert header == RequestHeader(
        request_api_key=facts["apiKey"],
        request_api_version=facts["version"],
        correlation_id=facts["correlationId"],
        client_id=facts["clientId"],
    )


@pytest.mark.parametrize("vector", RESPONSES, ids=ids)
def test_responses_are_framed_as_kafka_frames_them(vector: dict[str, Any]) -> None:
    facts, frame = vector["input"], bytes.fromhex(vector["expected"])
    api = api_for_key(facts["apiKey"])
    assert api.response_header_version(facts["version"]) == facts["headerVersion"]
    response = body_of(vector, api.response)
    assert b"".join(encode_response(response, facts["version"], facts["correlationId"])).hex() == frame.hex()
    assert decode_response(api, facts["version"], frame[4:]) == response
    assert correlation_id_of(frame[4:]) == facts["correlationId"]


def test_a_header_that_another_project_wrote_is_read() -> None:
    for vector in third_party_vectors("framed-request"):
        facts, data = vector["input"], bytes.fromhex(vector["expected"])
        header, end = decode_request_header(data)
        assert (header.client_id, header.correlation_id) == (facts["clientId"], facts["correlationId"])
        assert end == len(data)


def test_records_are_passed_on_without_a_copy() -> None:
    records = bytearray(b"r" * 1000)
    partition = ProduceRequest.PartitionProduceData(index=0, records=records)
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[partition])
    parts = encode_request(ProduceRequest(topic_data=[topic]), 9, 1, "c")
    records[0] = ord("R")
    assert b"R" + b"r" * 999 in b"".join(parts)
    view = decode_request(b"".join(parts)[4:])[1]
    assert isinstance(view, ProduceRequest)
    assert isinstance(view.topic_data[0].partition_data[0].records, memoryview)


def test_an_old_broker_refuses_a_new_api_versions_request_in_version_0() -> None:
    """KIP-511: the client learns from that answer which version to use."""
    ranges = [ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=2)]
    answer = ApiVersionsResponse(error_code=35, api_keys=ranges)
    frame = b"".join(encode_response(answer, 0, 7))
    assert decode_response(api_named("ApiVersions"), 4, frame[4:]) == answer
    assert correlation_id_of(frame[4:]) == 7


def test_the_header_of_a_version_from_the_future_is_readable() -> None:
    """A broker must answer an ApiVersions request that it does not know."""
    frame = bytearray(b"".join(encode_request(ApiVersionsRequest(), 4, 9, "newer")))[4:]
    frame[2:4] = (99).to_bytes(2)
    header, _ = decode_request_header(bytes(frame))
    assert (header.request_api_version, header.correlation_id, header.client_id) == (99, 9, "newer")
    with pytest.raises(DecodeError, match="ApiVersionsRequest has no version 99, only 0-4"):
        decode_request(bytes(frame))


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "0 bytes has no room for a header"),
        (b"\0\1\0", "3 bytes has no room for a header"),
        (b"\x03\xe7\0\0" + bytes(10), "no API with key 999"),
        (b"\0\4\0\0" + bytes(10), "no API with key 4"),
        (b"\xff\xff\0\0" + bytes(10), "no API with key -1"),
    ],
)
def test_a_request_that_is_none_says_why(frame: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_request(frame)


def test_a_response_without_a_header_says_so() -> None:
    with pytest.raises(DecodeError, match="2 bytes has no room for a header"):
        correlation_id_of(b"\0\0")
    with pytest.raises(DecodeError, match="ResponseHeader v0"):
        decode_response(api_named("Metadata"), 1, b"\0\0")


def test_bytes_behind_a_message_are_an_error() -> None:
    frame = b"".join(encode_request(HeartbeatRequest(), 4, 1, None))[4:]
    with pytest.raises(DecodeError, match="HeartbeatRequest v4: 3 bytes too many"):
        decode_request(frame + b"abc")


def test_only_requests_and_responses_are_framed() -> None:
    with pytest.raises(ProtocolError, match="RequestHeader is neither a request nor a response"):
        encode_request(RequestHeader(), 2, 1, None)
    with pytest.raises(EncodeError, match="HeartbeatRequest has no version 9, only 0-4"):
        encode_request(HeartbeatRequest(), 9, 1, None)
