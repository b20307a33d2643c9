"""What a follower takes of its leader's batches: as they are, if they are whole and continue its log."""

from __future__ import annotations

from ottla._native import crc32c
from ottla.broker.log.batch import Batch, read_header
from ottla.errors import CorruptMessageError, OffsetOutOfRangeError
from ottla.wire.batch_header import BATCH_OVERHEAD, CHECKED_FROM, LOG_OVERHEAD, MAGIC
from ottla.wire.primitives import Buffer


def followed_batches(
    records: Buffer, expected_offset: int, leader_epoch: int | None, partition: str
) -> tuple[Buffer, list[Batch]]:
    """The bytes to append and the headers in them; a batch that is cut off at the end is left out.

    A batch of a later epoch than `leader_epoch` may come from a leader whose log is not the one that the follower
    has compared its own with: it ends the append.
    """
    view = memoryview(records)
    batches: list[Batch] = []
    position = 0
    while len(view) - position >= BATCH_OVERHEAD:
        batch = read_header(view, position)
        end = position + batch.length + LOG_OVERHEAD
        if end > len(view) or (leader_epoch is not None and batch.leader_epoch > leader_epoch):
            break
        _check(view[position:end], batch, partition)
        if batch.base_offset < expected_offset:
            raise OffsetOutOfRangeError(
                f"Unexpected offset in append to {partition}. {batch.base_offset} is less than the next offset "
                f"{expected_offset}."
            )
        batches.append(batch)
        expected_offset = batch.next_offset
        position = end
    return (records if position == len(view) else view[:position]), batches


def _check(data: memoryview, batch: Batch, partition: str) -> None:
    whole = len(data) >= BATCH_OVERHEAD and batch.magic == MAGIC and batch.last_offset_delta >= 0
    if not whole or crc32c(data[CHECKED_FROM:]) != batch.crc:
        raise CorruptMessageError(
            f"Record is corrupt (stored crc = {batch.crc}) in topic partition {partition}."
        )
