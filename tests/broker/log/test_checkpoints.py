"""Small files have their old content or their new one."""

from __future__ import annotations

import logging

import pytest

from ottla.broker.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_file,
    read_offsets,
    replace_file,
    take_clean_shutdown,
    write_clean_shutdown,
    write_offsets,
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


def test_offsets_are_read_as_they_were_last_written() -> None:
    fs = MemoryFileSystem()
    assert read_offsets(fs, HIGH_WATERMARKS) == {}
    write_offsets(fs, HIGH_WATERMARKS, {"orders-0": 7, "with-dashes-11": 0})
    assert read_offsets(fs, HIGH_WATERMARKS) == {"orders-0": 7, "with-dashes-11": 0}
    write_offsets(fs, HIGH_WATERMARKS, {"orders-0": 8})
    assert read_offsets(fs, HIGH_WATERMARKS) == {"orders-0": 8}


def test_offsets_have_the_format_of_kafka() -> None:
    fs = MemoryFileSystem()
    write_offsets(fs, RECOVERY_POINTS, {"orders-0": 7, "with-dashes-11": 0})
    assert read_file(fs, "recovery-point-offset-checkpoint") == b"0\n2\norders 0 7\nwith-dashes 11 0\n"


@pytest.mark.parametrize(
    "content", [b"", b"1\n0\n", b"0\n2\norders 0 7\n", b"0\n1\norders 0\n", b"0\n1\norders 0 x\n", b"\xff"]
)
def test_a_damaged_file_is_said_and_counts_as_none(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    fs = MemoryFileSystem()
    replace_file(fs, LOG_STARTS, content)
    with caplog.at_level(logging.WARNING, "ottla"):
        assert read_offsets(fs, LOG_STARTS) == {}
    assert "log-start-offset-checkpoint is damaged" in caplog.text


def test_a_clean_end_is_said_once() -> None:
    fs = MemoryFileSystem()
    assert take_clean_shutdown(fs) is None
    write_clean_shutdown(fs, 42)
    assert read_file(fs, ".kafka_cleanshutdown") == b'{"version": 0, "brokerEpoch": 42}'
    assert take_clean_shutdown(fs) == 42
    assert take_clean_shutdown(fs) is None


def test_a_damaged_word_of_a_clean_end_is_none() -> None:
    fs = MemoryFileSystem()
    replace_file(fs, ".kafka_cleanshutdown", b"{")
    assert take_clean_shutdown(fs) is None
    assert not fs.exists(".kafka_cleanshutdown")
