"""The wire layer: bytes to messages and back, without any input or output.

    from ottla.wire.messages import MetadataRequest
    from ottla.wire import encode_request
    request = MetadataRequest(topics=None)
    frame = b"".join(encode_request(request, version=12, correlation_id=1, client_id="me"))

A message is one class over all its versions (message.py, from kafka.schema); its codecs are compiled on first
use (decoder.py, encoder.py). Everything here raises DecodeError for bytes that are wrong and EncodeError for
messages that are, and touches neither sockets nor clocks nor threads.
"""

from ottla.wire.apis import Api, api_for_key, api_key, api_keys, api_named
from ottla.wire.frames import (
    DEFAULT_MAX_FRAME_SIZE,
    correlation_id_of,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from ottla.wire.message import Message, WireStruct
from ottla.wire.primitives import ZERO_UUID, Uuid
from ottla.wire.schema import Versions

__all__ = [
    "DEFAULT_MAX_FRAME_SIZE",
    "ZERO_UUID",
    "Api",
    "Message",
    "Uuid",
    "Versions",
    "WireStruct",
    "api_for_key",
    "api_key",
    "api_keys",
    "api_named",
    "correlation_id_of",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "encode_request",
    "encode_response",
]
