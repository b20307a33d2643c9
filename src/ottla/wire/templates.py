"""Messages that come again and again with little changed: requests that are filled in, a response that is recognized.

A client that sends one small batch at a time, or fetches what comes next of one partition, sends the same request
but for a few fields, and gets the same response. A template is made of a message by its own encoder, for the same
bytes at every version; it finds the places of those fields by what stands in for them.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from ottla.wire.apis import api_for_key
from ottla.wire.frames import encode_request, encode_response
from ottla.wire.message import Message
from ottla.wire.messages import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from ottla.wire.primitives import Buffer, MalformedError, read_uvarint, uvarint

RECORDS: Final = memoryview(b"in place of the records")
"""Stands in for the one `records` field of a request."""

INT32: Final = 0x5BADF00D
INT64: Final = 0x5CA1AB1E_0DDBA11D
"""Stand in for one field each; as any numbers that no request has by chance."""

_START: Final = struct.Struct(">ihhi")
"""The size, the API's key, the version, the correlation id."""
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_TWO_INT64: Final = struct.Struct(">qq")
_THREE_INT64: Final = struct.Struct(">qqq")
_SIZE: Final = 4
_CORRELATION_ID_AT: Final = _START.size - _SIZE
_TWO_BYTES: Final = 1 << 14


class RecordsTemplate:
    """A request with one `records` field."""

    __slots__ = ("_after", "_before", "_is_flexible", "_size", "api", "version")

    def __init__(self, request: Message, version: int, client_id: str | None) -> None:
        """In the place of its records the request has `RECORDS`."""
        self.api = api_for_key(request.API_KEY)
        self.version = version
        parts = encode_request(request, version, 0, client_id)
        # The encoder passes records on as they are, behind their length.
        at = next(index for index, part in enumerate(parts) if part == RECORDS)
        self._is_flexible = self.api.request_header_version(version) >= 2
        self._before = b"".join(parts[1 : at - 1])
        self._after = b"".join(parts[at + 1 :])
        self._size = _START.size - _SIZE + len(self._before) + len(self._after)

    def encode(self, records: Buffer, correlation_id: int) -> bytes:
        """The request with these records, size first."""
        count = len(records)
        if not self._is_flexible:
            length = _INT32.pack(count)
        elif 0x7F <= count < _TWO_BYTES - 1:
            # One more is said, as 0 stands for null; and nearly all batches of which this is used have two bytes.
            length = bytes(((count + 1) & 0x7F | 0x80, (count + 1) >> 7))
        else:
            length = uvarint(count + 1)
        size = self._size + len(length) + count
        start = _START.pack(size, self.api.key, self.version, correlation_id)
        return b"".join((start, self._before, length, records, self._after))


class NumbersTemplate:
    """A request in which one INT32 and one INT64 change."""

    __slots__ = ("_int32_at", "_int64_at", "_request", "api", "version")

    def __init__(self, request: Message, version: int, client_id: str | None) -> None:
        """In the places of the two fields the request has `INT32` and `INT64`."""
        self.api = api_for_key(request.API_KEY)
        self.version = version
        self._request = bytearray(b"".join(encode_request(request, version, 0, client_id)))
        self._int32_at = self._place(_INT32.pack(INT32))
        self._int64_at = self._place(_INT64.pack(INT64))

    def _place(self, stand_in: bytes) -> int:
        if self._request.count(stand_in) != 1:
            raise ValueError(f"{self.api.name} v{self.version} has {stand_in.hex()} not exactly once")
        return self._request.index(stand_in)

    def encode(self, correlation_id: int, int32: int, int64: int) -> bytes:
        """The request with these numbers, size first."""
        request = self._request
        _INT32.pack_into(request, _CORRELATION_ID_AT, correlation_id)
        _INT32.pack_into(request, self._int32_at, int32)
        _INT64.pack_into(request, self._int64_at, int64)
        return bytes(request)


class Acknowledged(NamedTuple):
    """A response that says of its one partition: stored, from this offset on."""

    base_offset: int
    log_append_time_ms: int


class AcknowledgementTemplate:
    """The response to a request with a batch of one partition, if nothing is wrong and nobody is throttled."""

    __slots__ = ("_after", "_at", "_before", "_behind", "_size")

    def __init__(self, request: ProduceRequest, version: int) -> None:
        (topic,) = request.topic_data
        (partition,) = topic.partition_data
        stored = ProduceResponse.PartitionProduceResponse(
            index=partition.index, base_offset=INT64, log_append_time_ms=INT64, log_start_offset=INT64
        )
        told = ProduceResponse.TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=[stored]
        )
        frame = b"".join(encode_response(ProduceResponse(responses=[told]), version, 0))[_SIZE:]
        stand_in = _INT64.pack(INT64)
        # Side by side: the offset, the time, and from version 5 on where the log starts.
        numbers = stand_in * frame.count(stand_in)
        self._size = len(frame)
        self._at = frame.index(numbers)
        self._behind = self._at + len(numbers)
        self._before = frame[_SIZE : self._at]
        self._after = frame[self._behind :]

    def decode(self, frame: memoryview) -> Acknowledged | None:
        """What a response says, its size left out; None if it is another one, which has to be decoded as usual."""
        if (
            len(frame) != self._size
            or frame[_SIZE : self._at] != self._before
            or frame[self._behind :] != self._after
        ):
            return None
        return Acknowledged(*_TWO_INT64.unpack_from(frame, self._at))


class Fetched:
    """A response that has records of its one partition, with what it says of them and no word of anything else."""

    __slots__ = ("high_watermark", "last_stable_offset", "log_start_offset", "records")

    # As in the response that is decoded as usual.
    error_code: Final = 0
    diverging_epoch: Final = None
    preferred_read_replica: Final = -1
    aborted_transactions: Final = ()

    def __init__(
        self, high_watermark: int, last_stable_offset: int, log_start_offset: int, records: memoryview
    ) -> None:
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records


class FetchedTemplate:
    """The response to a fetch of one partition, in a session, if it has records and nothing is wrong."""

    __slots__ = ("_after", "_at", "_before", "_between", "_is_flexible", "_records_at")

    def __init__(self, request: FetchRequest, version: int) -> None:
        parts = self._parts(request, version, None)
        at = next(index for index, part in enumerate(parts) if part == RECORDS)
        before = b"".join(parts[1 : at - 1])
        numbers = _INT64.pack(INT64) * 3
        self._is_flexible = api_for_key(request.API_KEY).response_header_version(version) >= 1
        self._at = before.index(numbers)
        self._before = before[_SIZE : self._at]
        self._records_at = len(before)
        # Behind the numbers: no aborted transactions, as null or as an empty array, and no preferred replica.
        behind = self._at + len(numbers)
        empty = b"".join(self._parts(request, version, [])[1 : at - 1])
        self._between = (before[behind:], empty[behind:])
        self._after = b"".join(parts[at + 1 :])

    @staticmethod
    def _parts(request: FetchRequest, version: int, aborted: list[Any] | None) -> list[Buffer]:
        (topic,) = request.topics
        (partition,) = topic.partitions
        data = FetchResponse.PartitionData(
            partition_index=partition.partition,
            high_watermark=INT64,
            last_stable_offset=INT64,
            log_start_offset=INT64,
            aborted_transactions=aborted,
            records=RECORDS,
        )
        told = FetchResponse.FetchableTopicResponse(
            topic=topic.topic, topic_id=topic.topic_id, partitions=[data]
        )
        return encode_response(FetchResponse(session_id=request.session_id, responses=[told]), version, 0)

    def decode(self, frame: memoryview) -> Fetched | None:
        """What a response says, its size left out; None if it is another one, which has to be decoded as usual."""
        start, end = self._records_at, len(frame) - len(self._after)
        # A length takes five bytes at most, and is there in any case.
        if end < start + _SIZE + 1 or frame[_SIZE : self._at] != self._before or frame[end:] != self._after:
            return None
        if frame[self._at + _THREE_INT64.size : start] not in self._between:
            return None
        if self._is_flexible:
            try:
                length, start = read_uvarint(frame, start)
            except MalformedError:
                return None
            length -= 1
        else:
            (length,) = _INT32.unpack_from(frame, start)
            start += _SIZE
        if length != end - start:
            return None
        high_watermark, last_stable_offset, log_start_offset = _THREE_INT64.unpack_from(frame, self._at)
        return Fetched(high_watermark, last_stable_offset, log_start_offset, frame[start:end])
