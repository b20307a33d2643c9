"""A client of a few lines: one socket, one request at a time, every byte by `ottla.wire`.

It proves the wire layer and the record core against a broker without any of Ottla's own networking.
"""

from __future__ import annotations

import select
import socket
from typing import Self

from ottla.wire import Api, Message, Uuid, api_for_key, correlation_id_of, decode_response, encode_request
from ottla.wire.messages import (
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from tests.interop.waiting import eventually
from tests.wire.splitter import FrameSplitter

CLIENT_ID = "ottla-tests"


class Connection:
    """One connection that asks and waits for the answer; `send` and `receive` are its two halves."""

    def __init__(self, bootstrap: str, client_id: str = CLIENT_ID) -> None:
        self._client_id = client_id
        host, _, port = bootstrap.partition(",")[0].rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._splitter = FrameSplitter()
        self._correlation_id = 0
        self._sent: tuple[Api, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Message, version: int) -> Message:
        self.send(request, version)
        return self.receive()

    def send(self, request: Message, version: int) -> None:
        """Sends a request whose answer `receive` waits for; there is one at a time."""
        assert self._sent is None, f"the last request has no answer yet: {self._sent}"
        self._correlation_id += 1
        self._sent = (api_for_key(request.API_KEY), version)
        self._socket.sendall(
            b"".join(encode_request(request, version, self._correlation_id, self._client_id))
        )

    def receive(self) -> Message:
        """The answer to what was sent last."""
        assert self._sent is not None
        frame = self._next_frame()
        assert correlation_id_of(frame) == self._correlation_id
        (api, version), self._sent = self._sent, None
        return decode_response(api, version, frame)

    @property
    def is_waiting(self) -> bool:
        """Whether something was sent whose answer has not been received."""
        return self._sent is not None

    def has_answer(self) -> bool:
        """Whether anything has come for what was sent last."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def exchange(self, frame: bytes | bytearray) -> bytes:
        """Sends bytes as they are; the frame that comes back."""
        self._socket.sendall(frame)
        return self._next_frame()

    def _next_frame(self) -> bytes:
        while True:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("Kafka closed the connection")
            frames = self._splitter.feed(data)
            if frames:
                (frame,) = frames
                return frame

    def topic_id(self, topic: str) -> Uuid:
        """Of a topic that was created; this node may hear of it a moment later than the one that was asked for it."""
        wanted = [MetadataRequest.MetadataRequestTopic(name=topic)]

        def known() -> Uuid | None:
            answer = self.ask(MetadataRequest(topics=wanted), 12)
            assert isinstance(answer, MetadataResponse)
            return answer.topics[0].topic_id if answer.topics[0].error_code == 0 else None

        found = eventually(known, f"the node to know {topic}")
        assert found is not None
        return found

    def produce(self, topic: str, records: bytes | memoryview, partition: int = 0) -> int:
        """Appends batches to a partition; the offset of the first."""
        data = ProduceRequest.PartitionProduceData(index=partition, records=records)
        topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
        answer = self.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics), 9)
        assert isinstance(answer, ProduceResponse)
        (result,) = answer.responses[0].partition_responses
        assert result.error_code == 0, result
        return result.base_offset

    def fetch(
        self, topic: str, offset: int = 0, partition: int = 0, committed: bool = False
    ) -> FetchResponse.PartitionData:
        """One answer for one partition."""
        part = FetchRequest.FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=1 << 24
        )
        request = FetchRequest(
            max_wait_ms=1000,
            min_bytes=1,
            max_bytes=1 << 24,
            isolation_level=int(committed),
            topics=[FetchRequest.FetchTopic(topic=topic, partitions=[part])],
        )
        answer = self.ask(request, 12)
        assert isinstance(answer, FetchResponse)
        (result,) = answer.responses[0].partitions
        assert result.error_code == 0, result
        return result
