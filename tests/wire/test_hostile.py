"""Bytes from someone who means harm: one exception type, bounded memory, bounded time."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import DecodeError
from ottla.wire import api_keys, api_named, decode_request, decode_response
from ottla.wire.message import Message, message_class
from ottla.wire.messages import ApiVersionsResponse, FetchResponse, MetadataResponse
from ottla.wire.schema import message_names
from tests.wire import fuzz
from tests.wire.vectors import message_vectors

every_message = st.sampled_from(message_names()).map(message_class)


@st.composite
def message_and_version(draw: st.DrawFn) -> tuple[type[Message], int]:
    cls = draw(every_message)
    return cls, draw(st.sampled_from(list(cls.VERSIONS)))


@given(message_and_version(), st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_decode_error(target: tuple[type[Message], int], data: bytes) -> None:
    fuzz.check(*target, data)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_a_decode_error(frame: bytes) -> None:
    try:
        decode_request(frame)
    except DecodeError:
        return


@given(st.sampled_from(api_keys()), st.integers(-5, 30), st.binary(max_size=60))
def test_any_body_is_a_request_or_a_decode_error(key: int, version: int, body: bytes) -> None:
    frame = key.to_bytes(2) + version.to_bytes(2, signed=True) + bytes(4) + b"\xff\xff\0" + body
    try:
        decode_request(frame)
    except DecodeError:
        return


@given(st.sampled_from(["ApiVersions", "Metadata", "Fetch"]), st.integers(0, 4), st.binary(max_size=100))
def test_any_bytes_are_a_response_or_a_decode_error(name: str, version: int, frame: bytes) -> None:
    try:
        decode_response(api_named(name), version, frame)
    except DecodeError:
        return


@pytest.mark.parametrize("name", message_names())
def test_a_message_cut_short_anywhere_is_a_decode_error(name: str) -> None:
    vectors = [v for v in message_vectors() if v.cls.__name__ == name and v.case == "full"]
    for vector in (vectors[0], vectors[-1]):
        for end in range(len(vector.data)):
            with pytest.raises(DecodeError):
                vector.cls.decode(vector.data[:end], vector.version)


def peak_of(cls: type[Message], version: int, data: bytes) -> int:
    """The most memory that refusing `data` takes; the codec itself is compiled before."""
    cls.decoder(version)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            cls.decode(data, version)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("version", [1, 12])
@pytest.mark.parametrize("length", [2**31 - 1, 2**31 - 2, 2**24, 1000])
def test_an_array_of_two_billion_in_forty_bytes_is_refused_unallocated(version: int, length: int) -> None:
    if version == 1:
        data = length.to_bytes(4) + bytes(36)
    else:
        data = bytes(4) + fuzz.uvarint(length + 1) + bytes(31)
    assert peak_of(MetadataResponse, version, data) < 4096


@pytest.mark.parametrize("length", [2**31 - 1, 2**32 - 2, 10**6])
def test_a_string_or_records_of_two_billion_in_forty_bytes_is_refused_unallocated(length: int) -> None:
    string = bytes(4) + b"\2" + bytes(4) + fuzz.uvarint(length + 1) + bytes(20)
    assert peak_of(MetadataResponse, 12, string) < 4096
    head = (
        bytes(4) + bytes(2) + bytes(4) + b"\2" + b"\2t" + b"\2" + bytes(4 + 2 + 8 + 8 + 8) + b"\1" + bytes(4)
    )
    assert peak_of(FetchResponse, 12, head + fuzz.uvarint(length + 1) + bytes(20)) < 4096


def test_numbers_of_tags_are_not_believed_either() -> None:
    body = bytes(2) + b"\1" + bytes(4)
    for tags in (fuzz.uvarint(2**32 - 1), fuzz.uvarint(2**31) + b"\0\0" * 5, b"\1\7" + fuzz.uvarint(2**31)):
        assert peak_of(ApiVersionsResponse, 3, body + tags) < 8192


def test_memory_stays_in_proportion_to_the_bytes() -> None:
    """The worst that fits in: arrays of the smallest elements, each of which becomes an object."""
    elements = 20_000
    data = bytes(4) + fuzz.uvarint(elements + 1) + (bytes(4) + b"\1" + bytes(4) + b"\0\0") * elements
    assert peak_of(MetadataResponse, 12, data) < 40 * len(data)


@pytest.mark.parametrize(
    ("version", "data", "reason"),
    [
        (12, bytes(4) + b"\1\0" + bytes(4) + b"\1" + b"\0\0", "1 bytes too many, it ends at byte 12"),
        (12, bytes(4) + b"\xff\xff\xff\xff\xff", "byte 5 of 9: a varint runs on for more than 5 bytes"),
        (12, bytes(4) + b"\2" + bytes(4) + b"\3\xff\xff" + bytes(6), "a string is not UTF-8"),
        (12, bytes(4) + b"\0", "Brokers is null, which this version does not allow"),
        (12, b"\0\0", "byte 0 of 2: it ends too early"),
        (1, (-2).to_bytes(4, signed=True), "Brokers has length -2"),
        (1, (5).to_bytes(4), "Brokers claims a length of 5, with 0 bytes left"),
    ],
)
def test_the_error_says_where_and_what(version: int, data: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=f"MetadataResponse v{version}.*{reason}"):
        MetadataResponse.decode(data, version)


def test_a_tagged_field_must_have_the_size_it_claims() -> None:
    good = ApiVersionsResponse(finalized_features_epoch=1).encode(3)
    assert good[-11:-8] == b"\1\1\x08"
    for size, reason in ((9, "claims a length of 9"), (7, "tagged field 1 claims 7 bytes and has 8")):
        with pytest.raises(DecodeError, match=reason):
            ApiVersionsResponse.decode(good[:-9] + bytes([size]) + good[-8:], 3)


def test_structs_whose_arrays_never_have_the_same_lengths_leave_nothing_behind() -> None:
    """See runs.py: some of these are decoded in a run, some end it."""
    random = Random(7)
    partition = MetadataResponse.MetadataResponsePartition
    partitions = [
        partition(
            partition_index=index,
            replica_nodes=[1] * random.randrange(40),
            isr_nodes=[2] * random.randrange(12),
            offline_replicas=[3] * random.randrange(12),
        )
        for index in range(2000)
    ]
    message = MetadataResponse(
        topics=[MetadataResponse.MetadataResponseTopic(name="t", partitions=partitions)]
    )
    data = message.encode(11)
    assert MetadataResponse.decode(data, 11) == message
    tracemalloc.start()
    try:
        MetadataResponse.decode(data, 11)
        assert tracemalloc.get_traced_memory()[0] < 200_000  # nothing new is kept
    finally:
        tracemalloc.stop()
