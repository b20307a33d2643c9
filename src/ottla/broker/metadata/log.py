"""The metadata log as bytes: metadata records as the values of ordinary Kafka records, one batch per decision."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.metadata.names import METADATA_TOPIC
from ottla.broker.metadata.records import MetadataRecord, decode, encode
from ottla.wire.batches import encode_batch
from ottla.wire.primitives import Buffer
from ottla.wire.records import decode_fetch


def write_records(records: Sequence[MetadataRecord], now_ms: int) -> bytearray:
    """A batch; the log gives it its offsets."""
    return bytearray(
        encode_batch([(number, now_ms, None, encode(record), []) for number, record in enumerate(records)])
    )


def read_records(data: Buffer, offset: int) -> list[MetadataRecord]:
    """The records of a fetch, from `offset` on."""
    fetched = decode_fetch(data, METADATA_TOPIC, 0, offset=offset)
    return [decode(record.value or b"") for record in fetched]
