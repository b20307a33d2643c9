"""Frames: requests and responses as they stand on a connection, a size, a header and a body.

Both sides are here and share one description of the header, so that they cannot drift apart. Splitting a stream
into frames is here too; reading and writing sockets is not.
"""

from __future__ import annotations

import struct
from typing import Final

from ottla.errors import DecodeError, ProtocolError
from ottla.wire.apis import API_VERSIONS_KEY, Api, api_for_key
from ottla.wire.message import Message
from ottla.wire.messages import RequestHeader, ResponseHeader
from ottla.wire.primitives import Buffer

DEFAULT_MAX_FRAME_SIZE: Final = 100 * 1024 * 1024
"""Kafka's own bound on a request (socket.request.max.bytes)."""

_SIZE: Final = struct.Struct(">i")
_KEY_AND_VERSION: Final = struct.Struct(">hh")
_UNSUPPORTED_VERSION: Final = 35
_NO_TAGS: Final = b"\0"


def encode_request(
    request: Message, version: int, correlation_id: int, client_id: str | None
) -> list[Buffer]:
    """A request as pieces to be written one after the other, size first.

    Pieces, because `records` are passed on and not copied: `transport.writelines(encode_request(...))`.
    """
    header = RequestHeader(
        request_api_key=request.API_KEY,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return _frame(header, _api_of(request).request_header_version(version), request, version)


def encode_response(response: Message, version: int, correlation_id: int) -> list[Buffer]:
    """A response as pieces to be written one after the other, size first."""
    header = _SIZE.pack(correlation_id)
    if _api_of(response).response_header_version(version) == 1:
        header += _NO_TAGS
    return _sized([b"", header], response, version)


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header of a request, and where its body begins.

    On its own, because a broker answers some requests whose body it cannot read: ApiVersions of a version that
    it does not know. `frame` is what follows the size.
    """
    try:
        key, version = _KEY_AND_VERSION.unpack_from(frame)
    except struct.error:
        raise DecodeError(f"a request of {len(frame)} bytes has no room for a header") from None
    api = _known_api(key)
    return RequestHeader.decoder(api.request_header_version(version))(frame, 0, len(frame))


def decode_request(frame: Buffer) -> tuple[RequestHeader, Message]:
    """The header and the body of a request. `frame` is what follows the size."""
    header, pos = decode_request_header(frame)
    api = api_for_key(header.request_api_key)
    return header, _decode_body(api.request, header.request_api_version, frame, pos)


def correlation_id_of(frame: Buffer) -> int:
    """Which request a response answers; known before what it is an answer to."""
    try:
        correlation_id: int = _SIZE.unpack_from(frame)[0]
    except struct.error:
        raise DecodeError(f"a response of {len(frame)} bytes has no room for a header") from None
    return correlation_id


def decode_response(api: Api, version: int, frame: Buffer) -> tuple[ResponseHeader, Message]:
    """The header and the body of a response to a request of this API and version."""
    header, pos = ResponseHeader.decoder(api.response_header_version(version))(frame, 0, len(frame))
    if api.key == API_VERSIONS_KEY and _is_unsupported_version(frame, pos):
        # A broker that does not know the version says so in version 0 (KIP-511).
        version = 0
    return header, _decode_body(api.response, version, frame, pos)


class FrameSplitter:
    """Cuts a stream of bytes into frames.

    Memory is bounded by the largest frame plus what is fed at once. A size that is negative or above the bound
    is an error at once, before any of it is waited for; nothing can be read from the stream after that.
    """

    def __init__(self, max_frame_size: int = DEFAULT_MAX_FRAME_SIZE) -> None:
        self._max_frame_size = max_frame_size
        self._buffer = bytearray()
        self._error: str | None = None

    def feed(self, data: Buffer) -> list[bytes]:
        """The frames that are whole now, without their sizes."""
        if self._error is not None:
            raise DecodeError(self._error)
        self._buffer += data
        frames: list[bytes] = []
        pos = 0
        while len(self._buffer) - pos >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._buffer, pos)
            if not 0 <= size <= self._max_frame_size:
                if frames:
                    break  # what was whole before is handed out first
                self._error = f"a frame claims {size} bytes, {self._max_frame_size} are allowed"
                self._buffer.clear()
                raise DecodeError(self._error)
            stop = pos + _SIZE.size + size
            if stop > len(self._buffer):
                break
            frames.append(bytes(self._buffer[pos + _SIZE.size : stop]))
            pos = stop
        del self._buffer[:pos]
        return frames

    @property
    def pending(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return len(self._buffer)


def _frame(header: Message, header_version: int, body: Message, version: int) -> list[Buffer]:
    parts: list[Buffer] = [b""]
    header.encoder(header_version)(header, parts.append)
    return _sized(parts, body, version)


def _sized(parts: list[Buffer], body: Message, version: int) -> list[Buffer]:
    """The parts of a header with the body behind and their size before them, where there is room for it."""
    body.encoder(version)(body, parts.append)
    size = sum(map(len, parts))
    if size > 0x7FFFFFFF:
        raise ProtocolError(f"a frame of {size} bytes is more than the protocol can express")
    parts[0] = _SIZE.pack(size)
    return parts


def _decode_body(cls: type[Message], version: int, frame: Buffer, pos: int) -> Message:
    end = len(frame)
    body: Message
    body, stop = cls.decoder(version)(frame, pos, end)
    if stop != end:
        raise DecodeError(f"{cls.__name__} v{version}: {end - stop} bytes too many, it ends at byte {stop}")
    return body


def _api_of(message: Message) -> Api:
    if message.API_KEY < 0:
        raise ProtocolError(f"{type(message).__name__} is neither a request nor a response")
    return api_for_key(message.API_KEY)


def _known_api(key: int) -> Api:
    try:
        return api_for_key(key)
    except ProtocolError as error:
        raise DecodeError(str(error)) from None


def _is_unsupported_version(frame: Buffer, pos: int) -> bool:
    return bytes(frame[pos : pos + 2]) == _UNSUPPORTED_VERSION.to_bytes(2)
