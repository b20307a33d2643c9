"""A log directory: whose it is, which logs it has, and what it knows of them from the life before."""

from __future__ import annotations

import logging
import random

import pytest

from ottla.broker.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_file,
    replace_file,
    write_offsets,
)
from ottla.broker.log.config import LogConfig
from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.log.log_dir import LogDirectories, LogDirectory, LogDirError, claim
from ottla.wire import Uuid
from tests.broker.log.support import NOW, append, make_batch

CLUSTER = "cluster-id"
ID, ORDERS, OTHER = (Uuid(bytes([number]) * 16) for number in (1, 2, 3))
PATH = "/data/node-1"
EPOCH = 7


def directory(fs: MemoryFileSystem, *, in_memory: bool = False) -> LogDirectory:
    return LogDirectory(PATH, fs, ID, in_memory=in_memory)


def opened(
    life: LogDirectory, name: str = "orders-0", topic_id: Uuid = ORDERS, batches: int = 0
) -> LogDirectory:
    log = life.open(name, topic_id, LogConfig(), NOW, random.Random(1))
    for _ in range(batches):
        append(log, make_batch())
    return life


def names(fs: MemoryFileSystem) -> list[str]:
    return fs.directories()


def test_a_new_directory_gets_an_id_that_it_keeps() -> None:
    fs = MemoryFileSystem()
    first = claim(PATH, fs, CLUSTER, 1, random.Random(1))
    assert claim(PATH, fs, CLUSTER, 1, random.Random(2)) == first
    content = f"version=1\ncluster.id={CLUSTER}\nnode.id=1\ndirectory.id={first}\n"
    assert read_file(fs, "meta.properties") == content.encode()


def test_the_file_of_apache_kafka_is_understood() -> None:
    fs = MemoryFileSystem()
    content = (
        f"#\n#Wed Nov 18 04:45:29 UTC 2026\nnode.id=1\ndirectory.id={ID}\nversion=1\ncluster.id={CLUSTER}\n"
    )
    replace_file(fs, "meta.properties", content.encode())
    assert claim(PATH, fs, CLUSTER, 1, random.Random(1)) == ID


@pytest.mark.parametrize("content", ["version=1\ncluster.id=cluster-id\nnode.id=1\n", "", "version=0\n"])
def test_a_file_that_says_too_little_is_refused(content: str) -> None:
    fs = MemoryFileSystem()
    replace_file(fs, "meta.properties", content.encode())
    with pytest.raises(LogDirError, match=rf"{PATH}/meta\.properties has .*mpty directory"):
        claim(PATH, fs, CLUSTER, 1, random.Random(1))


def test_after_a_clean_end_a_log_is_trusted_and_the_epoch_of_the_broker_is_known() -> None:
    fs = MemoryFileSystem()
    opened(directory(fs), batches=3).close(EPOCH)
    life = directory(fs)
    assert life.previous_epoch == EPOCH
    assert opened(life).logs["orders-0"].recovery_point == 3


def test_a_life_that_does_not_end_cleanly_leaves_no_word_of_the_one_before() -> None:
    fs = MemoryFileSystem()
    opened(directory(fs), batches=3).close(EPOCH)
    opened(directory(fs), batches=2)
    life = directory(fs)
    assert life.previous_epoch is None
    log = opened(life).logs["orders-0"]
    assert (log.log_end_offset, log.recovery_point) == (5, 3)


def test_an_end_is_not_clean_if_a_log_was_never_opened() -> None:
    fs = MemoryFileSystem()
    opened(directory(fs), batches=3)
    directory(fs).close(EPOCH)
    assert directory(fs).previous_epoch is None


def test_checkpoints_keep_what_this_life_has_not_opened_yet() -> None:
    fs = MemoryFileSystem()
    life = opened(opened(directory(fs), batches=3), "orders-1", batches=2)
    write_offsets(life.fs, HIGH_WATERMARKS, life.high_watermarks({"orders-0": 3, "orders-1": 1}))
    life.close(EPOCH)
    life = opened(directory(fs), "orders-0")
    assert life.take_high_watermark("orders-0") == 3
    write_offsets(life.fs, HIGH_WATERMARKS, life.high_watermarks({"orders-0": 3}))
    write_offsets(life.fs, RECOVERY_POINTS, life.recovery_points())
    assert read_file(fs, "replication-offset-checkpoint") == b"0\n2\norders 1 1\norders 0 3\n"
    assert read_file(fs, "recovery-point-offset-checkpoint") == b"0\n2\norders 1 2\norders 0 3\n"


def test_only_logs_that_begin_within_a_segment_have_their_start_written_down() -> None:
    fs = MemoryFileSystem()
    life = opened(opened(directory(fs), batches=3), "orders-1", batches=2)
    life.logs["orders-1"].delete_records(1)
    write_offsets(life.fs, LOG_STARTS, life.log_starts())
    assert read_file(fs, "log-start-offset-checkpoint") == b"0\n1\norders 1 1\n"


def test_a_log_that_is_opened_again_in_the_same_life_begins_where_it_did() -> None:
    life = opened(directory(MemoryFileSystem()), batches=8)
    log = life.logs["orders-0"]
    log.delete_records(3)
    log.first_dirty_offset = 5
    log.close()
    life.expect("orders-0", 8)
    assert life.log_starts() == {"orders-0": 3}
    again = opened(life).logs["orders-0"]
    assert (again.log_start_offset, again.first_dirty_offset, again.log_end_offset) == (3, 5, 8)


def test_a_log_says_which_topic_it_is_of() -> None:
    fs = MemoryFileSystem()
    opened(directory(fs))
    assert read_file(fs, "orders-0/partition.metadata") == f"version: 0\ntopic_id: {ORDERS}".encode()


def test_a_log_of_another_topic_is_put_aside(caplog: pytest.LogCaptureFixture) -> None:
    fs = MemoryFileSystem()
    opened(directory(fs), batches=3).close(EPOCH)
    with caplog.at_level(logging.WARNING, "ottla"):
        life = opened(directory(fs), topic_id=OTHER)
    assert life.logs["orders-0"].log_end_offset == 0
    (kept,) = (name for name in names(fs) if name.endswith("-stray"))
    assert fs.open(f"{kept}/{0:020d}.log").size
    assert "orders-0 is kept as" in caplog.text


def test_a_log_that_is_deleted_loses_its_name_at_once_and_its_files_later() -> None:
    fs = MemoryFileSystem()
    life = opened(directory(fs), batches=3)
    doomed = life.delete(life.logs["orders-0"], random.Random(1))
    assert doomed is not None
    assert names(fs) == [doomed]
    assert not life.has("orders-0")
    assert directory(fs).take_doomed() == [doomed]
    life.remove(doomed)
    assert names(fs) == []


def test_in_memory_a_deleted_log_is_freed_at_once() -> None:
    fs = MemoryFileSystem()
    life = opened(directory(fs, in_memory=True), batches=3)
    assert life.delete(life.logs["orders-0"], random.Random(1)) is None
    assert names(fs) == []


def test_a_long_name_has_room_for_what_is_added_to_it() -> None:
    fs = MemoryFileSystem()
    name = "o" * 249 + "-0"
    life = opened(directory(fs), name)
    doomed = life.delete(life.logs[name], random.Random(1))
    assert doomed is not None
    assert len(doomed) == 255
    assert doomed.endswith("-delete")


def test_a_new_log_goes_where_the_fewest_are() -> None:
    first, second = MemoryFileSystem(), MemoryFileSystem()
    one, two = (LogDirectory(f"/{n}", fs, ID, in_memory=False) for n, fs in enumerate((first, second)))
    directories = LogDirectories([one, two])
    opened(one, "orders-0")
    assert directories.for_log("orders-1") is two
    assert directories.for_log("orders-0") is one
    opened(two, "orders-1")
    assert directories.for_log("orders-2") is one


def test_an_epoch_counts_only_if_all_directories_agree_on_it() -> None:
    first, second = MemoryFileSystem(), MemoryFileSystem()

    def lives() -> LogDirectories:
        return LogDirectories(
            LogDirectory(f"/{n}", fs, ID, in_memory=False) for n, fs in enumerate((first, second))
        )

    for life in lives():
        life.close(EPOCH)
    assert lives().previous_epoch == EPOCH
    for life, epoch in zip(lives(), (EPOCH, EPOCH + 1), strict=True):
        life.close(epoch)
    assert lives().previous_epoch == -1
    lives()[0].close(EPOCH)
    assert lives().previous_epoch == -1
