"""Frames: requests and responses as they stand on a connection, a size, a header and a body.

Both sides are here and share one description of the header, that of the schema, so that they cannot drift apart. What
a class of messages needs at one version, its codec and the version of its header, is looked up once and kept.
Splitting a stream into frames is the connection's (net/connection.py).
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, NamedTuple

from ottla.errors import DecodeError, EncodeError, ProtocolError
from ottla.wire.apis import API_VERSIONS_KEY, Api, api_for_key
from ottla.wire.decoder import Decoder
from ottla.wire.encoder import Encoder
from ottla.wire.message import Message
from ottla.wire.messages import RequestHeader, ResponseHeader
from ottla.wire.primitives import Buffer

DEFAULT_MAX_FRAME_SIZE: Final = 100 * 1024 * 1024
"""Kafka's own bound on a request (socket.request.max.bytes)."""

CORRELATION_ID: Final = struct.Struct(">i")
"""What a response begins with."""

PROTOCOL_MAX_SIZE: Final = 0x7FFFFFFF + 4
"""What the protocol can express: a size, and as many bytes as it can name."""
_SIZE: Final = struct.Struct(">i")
_REQUEST_START: Final = struct.Struct(">ihhi")
"""Of a request with its size: the size, the API's key, the version, the correlation id."""
_KEY_AND_VERSION: Final = struct.Struct(">hh")
_UNSUPPORTED_VERSION: Final = (35).to_bytes(2)
_NO_TAGS: Final = b"\0"


class _Writing(NamedTuple):
    """How requests, or responses, of one API are written at one version."""

    encode: Encoder
    header_version: int


class _Reading(NamedTuple):
    """How responses of one API are read at one version."""

    decode: Decoder
    header_version: int


# Filled as versions are used. Only versions that exist get in, so that no peer can make them grow.
_requests: dict[tuple[type[Message], int], _Writing] = {}
_responses: dict[tuple[type[Message], int], _Writing] = {}
_readings: dict[tuple[int, int], _Reading] = {}
_request_headers: dict[tuple[int, int], Decoder] = {}


def encode_request(
    request: Message,
    version: int,
    correlation_id: int,
    client_id: str | None,
    max_size: int = PROTOCOL_MAX_SIZE,
) -> list[Buffer]:
    """A request as pieces to be written one after the other, size first.

    Pieces, because `records` are passed on and not copied: `transport.writelines(encode_request(...))`. One of more
    than `max_size` bytes is an EncodeError.
    """
    kind = request.__class__
    writing = _requests.get((kind, version)) or _request_writing(kind, version)
    parts: list[Buffer] = [b"", _rest_of_header(client_id, writing.header_version)]
    writing.encode(request, parts.append)
    size = sum(map(len, parts)) + _REQUEST_START.size - _SIZE.size
    if size > max_size - _SIZE.size:
        raise _too_large(request, size + _SIZE.size, max_size)
    parts[0] = _REQUEST_START.pack(size, kind.API_KEY, version, correlation_id)
    return parts


def encode_response(response: Message, version: int, correlation_id: int) -> list[Buffer]:
    """A response as pieces to be written one after the other, size first."""
    kind = response.__class__
    writing = _responses.get((kind, version)) or _response_writing(kind, version)
    parts: list[Buffer] = [b"", CORRELATION_ID.pack(correlation_id)]
    if writing.header_version:
        parts.append(_NO_TAGS)
    writing.encode(response, parts.append)
    size = sum(map(len, parts))
    if size > PROTOCOL_MAX_SIZE - _SIZE.size:
        raise _too_large(response, size, PROTOCOL_MAX_SIZE)
    parts[0] = _SIZE.pack(size)
    return parts


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header of a request, and where its body begins.

    On its own, because a broker responds to some requests whose body it cannot read: ApiVersions of a version that
    it does not know. `frame` is what follows the size.
    """
    try:
        key, version = _KEY_AND_VERSION.unpack_from(frame)
    except struct.error:
        raise DecodeError(f"a request of {len(frame)} bytes has no room for a header") from None
    decode = _request_headers.get((key, version)) or _request_header_decoder(key, version)
    return decode(frame, 0, len(frame))


def decode_request(frame: Buffer) -> tuple[RequestHeader, Message]:
    """The header and the body of a request. `frame` is what follows the size."""
    header, pos = decode_request_header(frame)
    kind, version = api_for_key(header.request_api_key).request, header.request_api_version
    body, stop = kind.decoder(version)(frame, pos, len(frame))
    if stop != len(frame):
        raise _trailing_bytes(kind, version, stop, len(frame))
    return header, body


def correlation_id_of(frame: Buffer) -> int:
    """Which request a response belongs to; known before what it is a response to."""
    try:
        correlation_id: int = CORRELATION_ID.unpack_from(frame)[0]
    except struct.error:
        raise DecodeError(f"a response of {len(frame)} bytes has no room for a header") from None
    return correlation_id


def decode_response(api: Api, version: int, frame: Buffer) -> Message:
    """The body of a response to a request of this API and version."""
    reading = _readings.get((api.key, version)) or _response_reading(api, version)
    end = len(frame)
    if reading.header_version and end > CORRELATION_ID.size and not frame[CORRELATION_ID.size]:
        pos = CORRELATION_ID.size + 1  # no tags, as always so far
    else:
        pos = ResponseHeader.decoder(reading.header_version)(frame, 0, end)[1]
    if api.key == API_VERSIONS_KEY and version and frame[pos : pos + 2] == _UNSUPPORTED_VERSION:
        # A broker that does not know the version says so in version 0 (KIP-511).
        version = 0
        reading = _response_reading(api, version)
    body: Message
    body, stop = reading.decode(frame, pos, end)
    if stop != end:
        raise _trailing_bytes(api.response, version, stop, end)
    return body


def _request_writing(kind: type[Message], version: int) -> _Writing:
    header_version = _api_of(kind).request_header_version(version)
    writing = _requests[kind, version] = _Writing(kind.encoder(version), header_version)
    return writing


def _response_writing(kind: type[Message], version: int) -> _Writing:
    header_version = _api_of(kind).response_header_version(version)
    writing = _responses[kind, version] = _Writing(kind.encoder(version), header_version)
    return writing


def _response_reading(api: Api, version: int) -> _Reading:
    header_version = api.response_header_version(version)
    reading = _readings[api.key, version] = _Reading(api.response.decoder(version), header_version)
    return reading


def _request_header_decoder(key: int, version: int) -> Decoder:
    api = _known_api(key)
    decoder = RequestHeader.decoder(api.request_header_version(version))
    if version in api.versions:
        _request_headers[key, version] = decoder
    return decoder


@lru_cache
def _rest_of_header(client_id: str | None, header_version: int) -> bytes:
    """A request's header behind the correlation id: the same for all requests of a client."""
    header = RequestHeader(client_id=client_id).encode(header_version)
    return header[_REQUEST_START.size - _SIZE.size :]


def _api_of(kind: type[Message]) -> Api:
    if kind.API_KEY < 0:
        raise ProtocolError(f"{kind.__name__} is neither a request nor a response")
    return api_for_key(kind.API_KEY)


def _known_api(key: int) -> Api:
    try:
        return api_for_key(key)
    except ProtocolError as error:
        raise DecodeError(str(error)) from None


def _too_large(message: Message, size: int, most: int) -> ProtocolError:
    if most == PROTOCOL_MAX_SIZE:
        return ProtocolError(f"a frame of {size} bytes is more than the protocol can express")
    return EncodeError(
        f"a {type(message).__name__} of {size} bytes is not sent: brokers refuse more than {most}"
    )


def _trailing_bytes(kind: type[Message], version: int, stop: int, end: int) -> DecodeError:
    return DecodeError(f"{kind.__name__} v{version}: {end - stop} bytes too many, it ends at byte {stop}")
