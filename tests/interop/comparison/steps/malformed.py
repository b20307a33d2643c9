"""Bytes that are no request of this protocol, and requests that no broker serves."""

from __future__ import annotations

import struct

from ottla.wire import Message, encode_request
from ottla.wire.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from tests.interop.comparison.script import Raw, section

METADATA = MetadataRequest(topics=[])


def frame(request: Message, version: int, *, api_key: int | None = None, says: int | None = None) -> bytes:
    """A request whose header may name another API or another version than its body has."""
    data = bytearray(b"".join(encode_request(request, version, 7, "comparison")))
    if api_key is not None:
        data[4:6] = struct.pack(">h", api_key)
    if says is not None:
        data[6:8] = struct.pack(">h", says)
    return bytes(data)


def cut(data: bytes, by: int) -> bytes:
    """A whole frame whose body ends early."""
    return struct.pack(">i", len(data) - 4 - by) + data[4 : len(data) - by]


def longer(data: bytes, more: bytes) -> bytes:
    """A whole frame with something behind its body."""
    return struct.pack(">i", len(data) - 4 + len(more)) + data[4:] + more


ALL = frame(METADATA, 9)
VERSIONS = frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)

SECTION = section(
    "malformed",
    [
        Raw("nothing", b""),
        Raw("half a size", b"\0\0"),
        Raw("half a request", ALL[:-3]),
        Raw("a size of zero", struct.pack(">i", 0)),
        Raw("a negative size", struct.pack(">i", -1) + b"x" * 8),
        Raw("the largest size", struct.pack(">i", 2**31 - 1) + b"x" * 8),
        Raw("a size just above the bound", struct.pack(">i", 104_857_601) + b"x" * 8),
        Raw("a line of HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        Raw("the start of TLS", bytes.fromhex("16030100c8010000c40303") + b"\x5a" * 194),
        Raw("two bytes", struct.pack(">i", 2) + b"\0\x03"),
        Raw("a header that ends after the version", struct.pack(">ihh", 4, 3, 9)),
        Raw("a header that ends within the client id", struct.pack(">ihhih", 10, 3, 9, 1, 9)),
        Raw(
            "a header without a client id",
            struct.pack(">ihhihb", 16, 3, 9, 1, -1, 0) + b"\1\1\0\0\0",
            ("Metadata", 9),
        ),
        Raw(
            "a client id with a length below minus one",
            struct.pack(">ihhih", 10, 18, 0, 1, -2),
            ("ApiVersions", 0),
        ),
        Raw("an unknown API", frame(METADATA, 9, api_key=999)),
        Raw("a negative API", frame(METADATA, 9, api_key=-1)),
        Raw("an API of controllers", frame(METADATA, 9, api_key=62)),
        Raw("an API that was retired", frame(METADATA, 9, api_key=4)),
        Raw("ApiVersions above the last", frame(ApiVersionsRequest(), 4, says=5), ("ApiVersions", 0)),
        Raw("ApiVersions far above the last", frame(ApiVersionsRequest(), 4, says=99), ("ApiVersions", 0)),
        Raw("ApiVersions below zero", frame(ApiVersionsRequest(), 0, says=-1), ("ApiVersions", 0)),
        Raw("ApiVersions cut short", cut(VERSIONS, 2)),
        Raw("ApiVersions with more behind", longer(VERSIONS, b"more"), ("ApiVersions", 4)),
        Raw("Metadata above the last", frame(METADATA, 13, says=14)),
        Raw("Metadata below zero", frame(METADATA, 1, says=-1)),
        Raw("Metadata cut short", cut(ALL, 2)),
        Raw("Metadata with more behind", longer(ALL, b"\0\0\0"), ("Metadata", 9)),
        Raw("Metadata with an array too long", frame(METADATA, 9)[:-5] + b"\xff\xff\xff\xff\x07"),
        Raw(
            "Metadata with an array below minus one",
            frame(METADATA, 4)[:-5] + struct.pack(">ib", -2, 0),
            ("Metadata", 4),
        ),
        Raw(
            "Metadata with a string that is not UTF-8",
            frame(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="zz")]), 4).replace(
                b"zz", b"\xff\xfe"
            ),
            ("Metadata", 4),
        ),
        Raw("Metadata with an unknown tagged field", longer(ALL[:-1], b"\x01\x63\x02hi"), ("Metadata", 9)),
        Raw("Metadata with a boolean of seven", ALL[:-2] + b"\x07\0", ("Metadata", 9)),
        Raw("Fetch of a retired version", frame(FetchRequest(), 3)),
        Raw("Fetch above the last", frame(FetchRequest(), 18, says=19)),
        Raw("Produce of version 0", frame(ProduceRequest(acks=-1), 0)),
        Raw("Produce of version 2", frame(ProduceRequest(acks=-1), 2)),
        Raw("Produce above the last", frame(ProduceRequest(acks=-1), 13, says=14)),
        Raw("ListOffsets of a retired version", frame(ListOffsetsRequest(), 0)),
        Raw("CreateTopics of a retired version", frame(CreateTopicsRequest(), 1)),
        Raw("CreateTopics above the last", frame(CreateTopicsRequest(), 7, says=8)),
        Raw("a body of zeroes for CreateTopics", struct.pack(">ihhih", 20, 19, 2, 1, 0) + b"\0" * 10),
        Raw("a body of ones for Fetch", struct.pack(">ihhihb", 41, 1, 12, 1, 0, 0) + b"\xff" * 30),
    ],
)
