"""Aborted transactions and producer states as lines."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.broker.dump.support import change, dump, dump_json, written_log
from tests.broker.log.support import NOW


def test_an_aborted_transaction_is_a_line(tmp_path: Path) -> None:
    (path,) = written_log(tmp_path).glob("*.txnindex")
    assert dump(path).lines == [
        f"Dumping {path}",
        "version: 0 producerId: 21 firstOffset: 75 lastOffset: 77 lastStableOffset: 78",
    ]


def test_half_an_entry_of_aborted_transactions_is_named(tmp_path: Path) -> None:
    (path,) = written_log(tmp_path).glob("*.txnindex")
    path.write_bytes(path.read_bytes() * 2 + b"torn")
    done = dump_json(path)
    assert (done.code, len(done.of_kind("entry"))) == (1, 2)
    assert done.problems == [
        f"Found 4 invalid bytes at the end of {path.name}, from position 68: no whole entry"
    ]


def test_an_unknown_version_of_aborted_transactions_is_named(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.txnindex"
    path.write_bytes(struct.pack(">hqqqq", 3, 1, 2, 3, 4))
    assert dump_json(path).problems == [f"{path.name}: entry at byte 0 has the unknown version 3"]


def test_producers_are_lines_with_their_last_batch_and_open_transaction(tmp_path: Path) -> None:
    newest = sorted(written_log(tmp_path).glob("*.snapshot"))[-1]
    assert dump(newest).lines[1:] == [
        "producerId: 7 producerEpoch: 2 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty "
        f"lastTimestamp: {NOW + 23} firstSequence: 69 lastSequence: 71 lastOffset: 71 offsetDelta: 2 "
        f"timestamp: {NOW + 23}",
        "producerId: 20 producerEpoch: 0 coordinatorEpoch: 5 currentTxnFirstOffset: OptionalLong.empty "
        f"lastTimestamp: {NOW} firstSequence: 0 lastSequence: 1 lastOffset: 73 offsetDelta: 1 timestamp: {NOW}",
        "producerId: 21 producerEpoch: 0 coordinatorEpoch: 5 currentTxnFirstOffset: OptionalLong.empty "
        f"lastTimestamp: {NOW} firstSequence: 0 lastSequence: 1 lastOffset: 76 offsetDelta: 1 timestamp: {NOW}",
        "producerId: 22 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong[78] "
        f"lastTimestamp: {NOW} firstSequence: 0 lastSequence: 1 lastOffset: 79 offsetDelta: 1 timestamp: {NOW}",
    ]
    assert dump_json(newest).objects[-1]["currentTxnFirstOffset"] == 78


def test_a_damaged_snapshot_is_named(tmp_path: Path) -> None:
    newest = sorted(written_log(tmp_path).glob("*.snapshot"))[-1]
    change(newest, -1)
    done = dump_json(newest)
    assert done.code == 1
    assert done.problems == [f"{newest.name} is damaged: its size, its version or its checksum is wrong"]
