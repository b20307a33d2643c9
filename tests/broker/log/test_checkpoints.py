"""Small files have their old content or their new one."""

from __future__ import annotations

from ottla.broker.log.checkpoints import (
    read_file,
    read_high_watermarks,
    read_log_start_offset,
    replace_file,
    write_high_watermarks,
    write_log_start_offset,
)
from ottla.broker.log.fs import MemoryFileSystem


def test_a_file_is_replaced_whole() -> None:
    fs = MemoryFileSystem()
    assert read_file(fs, "a/b") is None
    replace_file(fs, "a/b", b"old and long")
    replace_file(fs, "a/b", b"new")
    assert read_file(fs, "a/b") == b"new"
    assert fs.list("a") == ["b"]


def test_a_node_that_died_while_writing_left_the_old_content() -> None:
    fs = MemoryFileSystem()
    replace_file(fs, "a/b", b"old")
    fs.open("a/b.tmp").append(b"ne")
    assert read_file(fs, "a/b") == b"old"
    replace_file(fs, "a/b", b"newer")
    assert read_file(fs, "a/b") == b"newer"


def test_a_log_begins_at_zero_until_records_are_deleted() -> None:
    fs = MemoryFileSystem()
    assert read_log_start_offset(fs, "orders-0") == 0
    write_log_start_offset(fs, "orders-0", 42)
    assert read_log_start_offset(fs, "orders-0") == 42


def test_high_watermarks_are_read_as_they_were_last_written() -> None:
    fs = MemoryFileSystem()
    assert read_high_watermarks(fs) == {}
    write_high_watermarks(fs, {"id/orders-0": 7, "id/with spaces-1": 0})
    assert read_high_watermarks(fs) == {"id/orders-0": 7, "id/with spaces-1": 0}
    write_high_watermarks(fs, {"id/orders-0": 8})
    assert read_high_watermarks(fs) == {"id/orders-0": 8}
    assert read_file(fs, "checkpoints/replication-offset-checkpoint") == b"0\n1\nid/orders-0 8\n"
