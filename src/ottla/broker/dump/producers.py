"""What a log keeps of its producers: aborted transactions (`.txnindex`) and producer states (`.snapshot`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO, Final

from ottla.broker.dump.lines import DumpLine, entry, optional, problem
from ottla.broker.log.producers import ProducerStateEntry
from ottla.broker.log.snapshots import decode_snapshot
from ottla.broker.log.transactions import AbortedIndex

_MAX_SNAPSHOT: Final = 256 << 20
"""Five million producers: what is larger is no snapshot."""
_ENTRIES_AT_ONCE: Final = 1024


def dump_aborted_transactions(file: BinaryIO, name: str) -> Iterator[DumpLine]:
    layout = AbortedIndex.ENTRY
    at = 0
    while piece := file.read(layout.size * _ENTRIES_AT_ONCE):
        whole = len(piece) - len(piece) % layout.size
        for version, producer_id, first, last, stable in layout.iter_unpack(piece[:whole]):
            if version != AbortedIndex.VERSION:
                yield problem(f"{name}: entry at byte {at} has the unknown version {version}", byte=at)
                return
            yield entry(
                version=version,
                producerId=producer_id,
                firstOffset=first,
                lastOffset=last,
                lastStableOffset=stable,
            )
            at += layout.size
        if whole < len(piece):
            yield problem(
                f"Found {len(piece) - whole} invalid bytes at the end of {name}, from position {at}: "
                "no whole entry",
                position=at,
            )


def dump_producer_snapshot(file: BinaryIO, name: str) -> Iterator[DumpLine]:
    states = read_producer_states(file)
    if states is None:
        yield problem(f"{name} is damaged: its size, its version or its checksum is wrong")
        return
    for state in states:
        yield _state_line(state)


def read_producer_states(file: BinaryIO) -> list[ProducerStateEntry] | None:
    """The states in a snapshot; None if it is damaged."""
    size = os.fstat(file.fileno()).st_size
    return decode_snapshot(file.read(size)) if size <= _MAX_SNAPSHOT else None


def _state_line(state: ProducerStateEntry) -> DumpLine:
    first_words = {
        "producerId": state.producer_id,
        "producerEpoch": state.epoch,
        "coordinatorEpoch": state.coordinator_epoch,
        "currentTxnFirstOffset": optional(state.transaction_first_offset),
        "lastTimestamp": state.last_timestamp,
    }
    last = state.batches[-1] if state.batches else None
    last_batch: dict[str, object] = (
        {}
        if last is None
        else {
            "firstSequence": last.first_sequence,
            "lastSequence": last.last_sequence,
            "lastOffset": last.last_offset,
            "offsetDelta": last.last_offset - last.first_offset,
            "timestamp": last.timestamp,
        }
    )
    line = entry(**first_words, **last_batch)
    fields = {**line.fields, "currentTxnFirstOffset": state.transaction_first_offset}
    return DumpLine(line.kind, line.text, fields)
