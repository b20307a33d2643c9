"""A partition as readers see it: its batches in short, the end of what is stable, what a reader of commits gets."""

from __future__ import annotations

from ottla.wire.batches import BatchHeader, ControlType, batch_headers, control_type
from ottla.wire.messages import FetchRequest, FetchResponse
from ottla.wire.records import Record, decode_fetch
from tests.interop.groups.link import Link

_LARGE = 1 << 24


def fetch_request(
    topic: str,
    partition: int = 0,
    offset: int = 0,
    *,
    committed: bool = False,
    wait_ms: int = 0,
    min_bytes: int = 1,
) -> FetchRequest:
    part = FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_LARGE)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=_LARGE,
        isolation_level=int(committed),
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[part])],
    )


def fetched(answer: FetchResponse) -> FetchResponse.PartitionData:
    """The one partition of an answer."""
    (found,) = answer.responses[0].partitions
    return found


class PartitionLog:
    """One partition, through a connection to its leader."""

    def __init__(self, link: Link, topic: str, partition: int = 0) -> None:
        self._link = link
        self.topic = topic
        self.partition = partition

    def fetch(self, offset: int = 0, *, committed: bool = False) -> FetchResponse.PartitionData:
        request = fetch_request(self.topic, self.partition, offset, committed=committed)
        found = fetched(self._link.get(request, 12, FetchResponse))
        assert found.error_code == 0, found
        return found

    @property
    def stable_end(self) -> int:
        """The last stable offset."""
        return self.fetch().last_stable_offset

    @property
    def high_watermark(self) -> int:
        return self.fetch().high_watermark

    def aborted(self, offset: int = 0) -> list[tuple[int, int]]:
        """Producer id and first offset of each transaction that a reader from `offset` has to skip."""
        found = self.fetch(offset, committed=True).aborted_transactions or []
        return [(each.producer_id, each.first_offset) for each in found]

    def batches(self) -> list[str]:
        """Everything that is replicated, batch by batch: "d@0 e0 s0" is data with its epoch and sequence, "C@3 e1"
        and "A@3 e1" are markers.
        """
        data = bytes(self.fetch().records or b"")
        return [_line(header, data) for header in batch_headers(data)]

    def coordinator_epochs(self) -> list[int]:
        """Of the markers, in their order."""
        data = bytes(self.fetch().records or b"")
        return [
            int.from_bytes((_control_record(header, data).value or b"")[2:6], "big")
            for header in batch_headers(data)
            if header.is_control
        ]

    def read_committed(self) -> list[int]:
        """The offsets of the records that a reader of committed ones gets, from the beginning."""
        answer = self.fetch(committed=True)
        data = bytes(answer.records or b"")
        aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
        return [record.offset for record in decode_fetch(data, self.topic, self.partition, aborted=aborted)]


def _line(header: BatchHeader, data: bytes) -> str:
    if not header.is_control:
        return f"d@{header.base_offset} e{header.producer_epoch} s{header.base_sequence}"
    kind = control_type(_control_record(header, data).key)
    letter = {ControlType.COMMIT: "C", ControlType.ABORT: "A"}[ControlType(kind)]
    return f"{letter}@{header.base_offset} e{header.producer_epoch}"


def _control_record(header: BatchHeader, data: bytes) -> Record:
    batch = data[header.position : header.position + header.size]
    (record,) = decode_fetch(batch, "", 0, offset=header.base_offset, control=True)
    return record
