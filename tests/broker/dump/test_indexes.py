"""Indexes as lines, and whether they fit their log."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ottla.wire.batches import batch_headers
from tests.broker.dump.support import change, dump, dump_json, segments, written_log


def indexed(tmp_path: Path) -> tuple[Path, Path]:
    """The offset index and the time index of a segment that has several entries in both."""
    log = written_log(tmp_path)
    first = next(path for path in segments(log) if len(entries(path.with_suffix(".index"), ">II")) > 1)
    return first.with_suffix(".index"), first.with_suffix(".timeindex")


def entries(path: Path, layout: str) -> list[tuple[int, ...]]:
    return list(struct.iter_unpack(layout, path.read_bytes())) if path.exists() else []


def test_every_entry_of_every_index_is_shown_and_fits_its_log(tmp_path: Path) -> None:
    log = written_log(tmp_path)
    shown = 0
    for path in sorted(log.glob("*index")):
        if path.suffix == ".txnindex":
            continue
        done = dump_json(path)
        assert (done.code, done.complaints) == (0, [])
        base = int(path.stem)
        found = done.of_kind("entry")
        if path.suffix == ".index":
            expected = [(base + offset, position) for offset, position in entries(path, ">II")]
            assert [(each["offset"], each["position"]) for each in found] == expected
        else:
            expected = [(timestamp, base + offset) for timestamp, offset in entries(path, ">qI")]
            assert [(each["timestamp"], each["offset"]) for each in found] == expected
        shown += len(found)
    assert shown > 10


def test_entries_are_lines_in_the_words_of_kafkas_tool(tmp_path: Path) -> None:
    offsets, times = indexed(tmp_path)
    base = int(offsets.stem)
    offset, position = entries(offsets, ">II")[0]
    timestamp, time_offset = entries(times, ">qI")[0]
    assert dump(offsets).lines[:2] == [f"Dumping {offsets}", f"offset: {base + offset} position: {position}"]
    assert dump(times).lines[1] == f"timestamp: {timestamp} offset: {base + time_offset}"


def test_preallocated_zeros_are_no_entries(tmp_path: Path) -> None:
    for path in indexed(tmp_path):
        before = dump(path).lines
        with path.open("ab") as file:
            file.truncate(12 * 100_000)
        assert dump(path).lines == before
        assert dump(path, "--index-sanity-check").code == 0


def test_an_index_of_zeros_only_is_empty(tmp_path: Path) -> None:
    offsets, _ = indexed(tmp_path)
    offsets.write_bytes(bytes(10 * 1024 * 1024))
    assert dump(offsets).lines == [f"Dumping {offsets}", f"{offsets} is empty."]


def test_an_entry_of_zeros_before_another_is_one(tmp_path: Path) -> None:
    offsets, _ = indexed(tmp_path)
    offsets.write_bytes(bytes(8) + offsets.read_bytes())
    shown = dump_json(offsets).of_kind("entry")
    assert (shown[0]["offset"], shown[0]["position"]) == (int(offsets.stem), 0)


def test_a_sane_index_passes_the_check_without_its_entries(tmp_path: Path) -> None:
    for path in indexed(tmp_path):
        done = dump(path, "--index-sanity-check")
        assert (done.code, done.lines[1:]) == (0, [f"{path} passed sanity check."])


def test_entries_that_do_not_grow_fail_the_check(tmp_path: Path) -> None:
    offsets, times = indexed(tmp_path)
    for path, size in ((offsets, 8), (times, 12)):
        content = path.read_bytes()
        path.write_bytes(content[size : 2 * size] + content[:size])
        done = dump_json(path, "--index-sanity-check")
        assert done.code == 1
        assert "comes after" in done.problems[0]
        assert done.of_kind("check") == []


def test_half_an_entry_fails_the_check(tmp_path: Path) -> None:
    for path in indexed(tmp_path):
        with path.open("ab") as file:
            file.write(b"\x01\x02\x03")
        done = dump_json(path, "--index-sanity-check")
        assert done.code == 1
        assert "no whole number of entries" in done.problems[0]


def test_verification_says_nothing_of_an_index_that_fits(tmp_path: Path) -> None:
    for path in indexed(tmp_path):
        assert dump(path, "--verify-index-only").lines == [f"Dumping {path}"]


def test_a_wrong_offset_is_named_with_the_one_of_the_log(tmp_path: Path) -> None:
    offsets, _ = indexed(tmp_path)
    right = int(offsets.stem) + entries(offsets, ">II")[0][0]
    change(offsets, 3, 0x01)
    done = dump_json(offsets, "--verify-index-only")
    assert done.code == 1
    assert done.problems[-1].endswith(f"entry at byte 0: Index offset: {right ^ 1}, log offset: {right}")


def test_a_position_in_the_middle_of_a_batch_is_named(tmp_path: Path) -> None:
    offsets, _ = indexed(tmp_path)
    change(offsets, 7, 0x01)
    done = dump_json(offsets, "--verify-index-only")
    assert done.code == 1
    assert "entry at byte 0: " in done.problems[0]


def test_a_position_behind_the_log_is_named(tmp_path: Path) -> None:
    offsets, _ = indexed(tmp_path)
    change(offsets, 4, 0x40)
    assert "no batch begins at position" in "".join(dump_json(offsets, "--verify-index-only").problems)


def test_a_wrong_timestamp_is_named_with_the_one_of_the_log(tmp_path: Path) -> None:
    _, times = indexed(tmp_path)
    right = entries(times, ">qI")[0][0]
    change(times, 7, 0x80)
    done = dump_json(times, "--verify-index-only")
    assert done.code == 1
    assert f"Index timestamp: {right ^ 0x80}, log timestamp: {right}" in "".join(done.problems)


def test_an_offset_that_the_log_does_not_have_is_named(tmp_path: Path) -> None:
    _, times = indexed(tmp_path)
    last = batch_headers(times.with_suffix(".log").read_bytes())[-1].last_offset
    with times.open("ab") as file:
        file.write(struct.pack(">qI", 2**50, 2**20))
    done = dump_json(times, "--verify-index-only")
    assert done.code == 1
    assert f"Indexed offset: {int(times.stem) + 2**20}, found log offset: -1" in done.problems[-1]
    assert last < int(times.stem) + 2**20


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_without_its_log_an_index_is_shown_and_not_verified(tmp_path: Path, suffix: str) -> None:
    path = indexed(tmp_path)[0].with_suffix(suffix)
    path.with_suffix(".log").unlink()
    done = dump(path)
    assert done.code == 0
    assert done.lines[-1].startswith(f"{path} is not verified")
    refused = dump(path, "--verify-index-only")
    assert refused.code == 2
    assert "cannot be verified" in refused.complaints[0]
