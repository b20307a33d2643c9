"""Producer states on the volume, in Kafka's format."""

from __future__ import annotations

import struct

import pytest

from ottla._native import crc32c
from ottla.broker.log.fs import FileSystem
from ottla.broker.log.producers import ProducerStateEntry, RememberedBatch
from ottla.broker.log.snapshots import Snapshots, decode_snapshot, encode_snapshot


def known(producer_id: int, *batches: RememberedBatch, open_since: int | None = None) -> ProducerStateEntry:
    state = ProducerStateEntry(producer_id, 3, 4, 1000, open_since)
    state.batches.extend(batches)
    return state


def fields(state: ProducerStateEntry) -> tuple[object, ...]:
    return (
        *(state.producer_id, state.epoch, state.coordinator_epoch, state.last_timestamp),
        *(state.transaction_first_offset, list(state.batches)),
    )


def test_an_entry_is_kafkas() -> None:
    content = encode_snapshot([known(7, RememberedBatch(5, 6, 20, 21, 1000), open_since=18)])
    entries = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 7, 3, 6, 21, 1, 1000, 4, 18)
    assert content == struct.pack(">hI", 1, crc32c(entries)) + entries


@pytest.mark.parametrize(
    "state",
    [
        known(7, RememberedBatch(5, 6, 20, 21, 1000)),
        known(7, RememberedBatch(2**31 - 1, 1, 20, 22, 1000)),
        known(7, RememberedBatch(-1, -1, 20, 22, 1000)),
        known(7, open_since=0),
    ],
    ids=["plain", "around the largest sequence", "a coordinator's", "only a marker"],
)
def test_a_state_comes_back(state: ProducerStateEntry) -> None:
    restored = decode_snapshot(encode_snapshot([state, known(8)]))
    assert restored is not None
    assert [fields(each) for each in restored] == [fields(state), fields(known(8))]


def test_only_the_last_batch_is_kept() -> None:
    last = RememberedBatch(1, 1, 10, 10, 1000)
    restored = decode_snapshot(encode_snapshot([known(7, RememberedBatch(0, 0, 9, 9, 900), last)]))
    assert restored is not None
    assert list(restored[0].batches) == [last]


@pytest.mark.parametrize("cut", [0, 5, 9, 30, 55])
def test_a_torn_snapshot_is_none(cut: int) -> None:
    content = encode_snapshot([known(7)])
    assert cut < len(content)
    assert decode_snapshot(content[:cut]) is None


def test_a_damaged_snapshot_is_none() -> None:
    content = encode_snapshot([known(7)])
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 1
        assert decode_snapshot(bytes(damaged)) is None


def test_snapshots_are_found_by_their_offsets(fs: FileSystem) -> None:
    snapshots = Snapshots(fs, "orders-0")
    snapshots.write(300, [known(7)])
    snapshots.write(20, [])
    fs.open("orders-0/00000000000000000000.log")
    assert snapshots.offsets() == [20, 300]
    assert fs.list("orders-0")[1] == "00000000000000000020.snapshot"
    assert snapshots.read(20) == []
    assert snapshots.read(21) is None
    snapshots.remove(20)
    snapshots.remove(20)
    assert snapshots.offsets() == [300]
