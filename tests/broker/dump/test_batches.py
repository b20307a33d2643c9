"""Files of batches: read in pieces, while they grow, and without believing what a damaged header says."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from ottla.broker.dump.batches import BatchFile
from ottla.broker.dump.lines import DumpError
from tests.broker.log.support import make_batch, patched


def written(folder: Path, content: bytes | bytearray) -> Path:
    path = folder / "00000000000000000000.log"
    path.write_bytes(content)
    return path


def test_batches_come_with_their_positions(tmp_path: Path) -> None:
    batches = [make_batch(count) for count in (1, 2, 3)]
    with written(tmp_path, b"".join(batches)).open("rb") as file:
        stored = BatchFile(file)
        found = list(stored.batches())
        assert [each.position for each in found] == [0, len(batches[0]), len(batches[0]) + len(batches[1])]
        assert [each.header.record_count for each in found] == [1, 2, 3]
        assert all(stored.is_valid(each) for each in found)
        assert stored.torn is None
        assert [each.position for each in stored.batches(found[1].position)] == [
            each.position for each in found[1:]
        ]


def test_a_batch_that_a_broker_is_writing_is_taken_when_it_is_whole(tmp_path: Path) -> None:
    batch = make_batch(2)
    for there in (5, 30, len(batch) - 1):
        path = written(tmp_path, batch + batch[:there])
        with path.open("rb") as file:
            stored = BatchFile(file)
            with path.open("ab") as broker:
                broker.write(batch[there:] + batch)
            assert [each.position for each in stored.batches()] == [0, len(batch)], "not what comes behind it"
            assert stored.torn is None


def test_what_is_appended_while_a_file_is_read_is_left_out(tmp_path: Path) -> None:
    batch = make_batch(2)
    path = written(tmp_path, batch)
    with path.open("rb") as file:
        stored = BatchFile(file)
        with path.open("ab") as broker:
            broker.write(batch)
        assert (len(list(stored.batches())), stored.torn) == (1, None)


def test_a_file_that_is_cut_while_it_is_read_has_no_valid_batch_there(tmp_path: Path) -> None:
    batch = make_batch(2)
    path = written(tmp_path, batch * 2)
    with path.open("rb", buffering=0) as file:
        stored = BatchFile(file)
        found = list(stored.batches())
        with path.open("r+b") as broker:
            broker.truncate(len(batch) + 40)
        assert [stored.is_valid(each) for each in found] == [True, False]


def test_the_length_in_a_header_is_not_believed_beyond_the_end(tmp_path: Path) -> None:
    path = written(tmp_path, patched(make_batch(), ">i", 8, 2**31 - 1, new_crc=False))
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            stored = BatchFile(file)
            assert list(stored.batches()) == []
            assert stored.torn is not None
            assert stored.torn.size == path.stat().st_size
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_batch_of_the_size_of_a_file_is_checked_in_pieces(tmp_path: Path) -> None:
    size = 200 << 20
    path = written(tmp_path, patched(make_batch(), ">i", 8, size - 12, new_crc=False))
    with path.open("r+b") as file:
        file.truncate(size)
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            stored = BatchFile(file)
            (batch,) = stored.batches()
            assert not stored.is_valid(batch)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_magic_that_is_not_read_ends_the_file(tmp_path: Path) -> None:
    content = make_batch() + patched(make_batch(), ">b", 16, 1, new_crc=False)
    with written(tmp_path, content).open("rb") as file:
        batches = BatchFile(file).batches()
        assert next(batches).position == 0
        with pytest.raises(DumpError, match=r"before 0\.11"):
            next(batches)
