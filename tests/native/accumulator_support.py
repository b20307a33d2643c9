"""What the tests of the accumulator share: one with a clock that stands still, and what comes out of it."""

from __future__ import annotations

from typing import Any

from ottla._native.accumulator import Accumulator
from ottla._native.outgoing import EncodedBatch
from tests.native.encode_support import NOW, decoded
from tests.oracle.records import OracleRecord


def accumulator(batch_size: int = 16_384, max_bytes: int = 2**24, **options: Any) -> Accumulator:
    return Accumulator(batch_size=batch_size, max_bytes=max_bytes, **{"clock": lambda: NOW, **options})


def sealed(batches: list[EncodedBatch]) -> list[EncodedBatch]:
    for batch in batches:
        batch.seal()
    return batches


def everything(records: Accumulator) -> list[EncodedBatch]:
    return sealed([batch for buffer in records.buffers() for batch in buffer.drain(force=True)])


def only_record(records: Accumulator) -> OracleRecord:
    (batch,) = everything(records)
    (record,) = decoded(batch).records
    return record
