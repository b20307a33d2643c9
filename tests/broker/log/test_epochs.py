"""Leader epochs: who wrote from which offset on, and what a follower or consumer is told about it."""

from __future__ import annotations

import pytest

from ottla.broker.log.epochs import EpochEntry, LeaderEpochs
from ottla.broker.log.fs import FileSystem, MemoryFileSystem

PATH = "orders-0/leader-epoch-checkpoint"


def epochs(*entries: tuple[int, int], fs: FileSystem | None = None) -> LeaderEpochs:
    made = LeaderEpochs(fs or MemoryFileSystem(), "orders-0")
    for epoch, start_offset in entries:
        made.assign(epoch, start_offset)
    return made


def text(fs: FileSystem) -> str:
    file = fs.open(PATH)
    return b"".join(file.read(0, file.size)).decode()


def test_a_new_log_knows_no_epoch() -> None:
    made = epochs()
    assert made.latest is None
    assert made.earliest is None
    assert made.end_offset_for(0, 10) == (-1, -1)


def test_epochs_are_kept_in_kafkas_text_file(fs: FileSystem) -> None:
    epochs((0, 0), (3, 12), fs=fs)
    assert text(fs) == "0\n2\n0 0\n3 12\n"
    assert LeaderEpochs(fs, "orders-0").entries == (EpochEntry(0, 0), EpochEntry(3, 12))


def test_the_current_epoch_is_assigned_once(fs: FileSystem) -> None:
    made = epochs((2, 5), fs=fs)
    made.assign(2, 9)
    assert made.entries == (EpochEntry(2, 5),)
    assert text(fs) == "0\n1\n2 5\n"


def test_an_epoch_that_wrote_nothing_is_replaced() -> None:
    assert epochs((0, 0), (1, 5), (2, 5)).entries == (EpochEntry(0, 0), EpochEntry(2, 5))


def test_entries_that_contradict_a_new_one_are_forgotten() -> None:
    assert epochs((0, 0), (1, 5), (4, 9), (3, 3)).entries == (EpochEntry(0, 0), EpochEntry(3, 3))
    assert epochs((4, 9), (4, 7)).entries == (EpochEntry(4, 7),)


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_what_is_no_epoch_is_not_assigned(entry: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="is none"):
        epochs(entry)


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, (-1, -1)),
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (4, 30)),
        (5, (5, 40)),
        (6, (-1, -1)),
    ],
    ids=["none", "older than all", "known", "in a gap", "known too", "the current one", "in the future"],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next(epoch: int, answer: tuple[int, int]) -> None:
    assert epochs((2, 10), (4, 20), (5, 30)).end_offset_for(epoch, 40) == answer


def test_a_log_that_ends_earlier_forgets_later_epochs(fs: FileSystem) -> None:
    made = epochs((2, 10), (4, 20), fs=fs)
    made.truncate_from_end(21)
    assert made.latest == 4
    made.truncate_from_end(20)
    assert made.entries == LeaderEpochs(fs, "orders-0").entries == (EpochEntry(2, 10),)


def test_a_log_that_begins_later_begins_with_the_epoch_of_its_start(fs: FileSystem) -> None:
    made = epochs((2, 10), (4, 20), (5, 30), fs=fs)
    made.truncate_from_start(5)
    made.truncate_from_start(10)
    assert made.earliest == (2, 10)
    made.truncate_from_start(25)
    assert made.entries == LeaderEpochs(fs, "orders-0").entries == (EpochEntry(4, 25), EpochEntry(5, 30))


def test_everything_can_be_forgotten(fs: FileSystem) -> None:
    made = epochs((2, 10), fs=fs)
    made.clear()
    made.clear()
    assert made.entries == LeaderEpochs(fs, "orders-0").entries == ()
