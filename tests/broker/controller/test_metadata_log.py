"""The metadata log on the controller's volume: what the next controller finds, and when snapshots come and go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.broker.configs import BrokerConfigs
from ottla.broker.controller.metadata_log import DIRECTORY, MetadataLog, SnapshotPolicy
from ottla.broker.log.checkpoints import replace_file
from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.records import ConfigRecord, read_records
from ottla.broker.metadata.snapshots import SnapshotId, read_snapshot
from ottla.errors import DecodeError
from ottla.wire.batches import batch_headers
from ottla.wire.resources import ConfigResourceType

NOW = 1_700_000_000_000
ALL = 1 << 30
KAFKAS = SnapshotPolicy.of(BrokerConfigs({}, node_id=0))
EACH_TIME = replace(KAFKAS, bytes_between=1)


class Controller:
    """Writes what it decides and applies it, as the one that serves does."""

    def __init__(self, fs: MemoryFileSystem, policy: SnapshotPolicy = KAFKAS, now_ms: int = NOW) -> None:
        self.log = MetadataLog(fs, policy, now_ms)
        self.image = self.log.replay()

    def decide(self, *values: int, now_ms: int = NOW) -> None:
        for value in values:
            record = ConfigRecord(ConfigResourceType.TOPIC, "orders", "retention.ms", str(value))
            self.log.append([record], now_ms)
            self.image.apply(record)
            self.log.tend(self.image, now_ms)


def snapshots(fs: MemoryFileSystem) -> list[str]:
    return [name for name in fs.list(DIRECTORY) if name.endswith(".checkpoint")]


def test_kafkas_defaults_are_the_policy() -> None:
    assert SnapshotPolicy(20 << 20, 3_600_000, 100 << 20, 604_800_000) == KAFKAS


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_the_next_controller_has_the_same_image(clean: bool) -> None:
    fs = MemoryFileSystem()
    first = Controller(fs)
    first.decide(*range(5))
    if clean:
        first.log.close()
    assert Controller(fs).image == first.image


def test_every_controller_has_the_next_epoch_though_it_decides_nothing() -> None:
    fs = MemoryFileSystem()
    assert [Controller(fs).log.epoch for _ in range(3)] == [1, 2, 3]


def test_records_carry_the_epoch_of_their_controller() -> None:
    fs = MemoryFileSystem()
    for value in range(3):
        Controller(fs).decide(value)
    data = Controller(fs).log.read(0, ALL)
    assert [header.leader_epoch for header in batch_headers(data)] == [1, 2, 3]


def test_a_snapshot_is_taken_when_enough_is_written() -> None:
    fs = MemoryFileSystem()
    controller = Controller(fs)
    controller.decide(1)
    size = len(controller.log.read(0, ALL))
    controller = Controller(fs, replace(KAFKAS, bytes_between=3 * size))
    controller.decide(2, 3)
    assert snapshots(fs) == []
    controller.decide(4, 5)
    assert snapshots(fs) == [f"{4:020d}-{2:010d}.checkpoint"]
    assert controller.log.snapshot == SnapshotId(4, 2)


def test_a_snapshot_is_taken_when_the_last_one_is_old_and_something_is_new() -> None:
    fs = MemoryFileSystem()
    controller = Controller(fs)
    controller.decide(1, now_ms=NOW + KAFKAS.interval_ms - 1)
    assert snapshots(fs) == []
    controller.decide(2, now_ms=NOW + KAFKAS.interval_ms)
    assert len(snapshots(fs)) == 1
    controller.log.tend(controller.image, NOW + 5 * KAFKAS.interval_ms)
    assert len(snapshots(fs)) == 1


def test_no_interval_means_no_snapshot_by_time() -> None:
    fs = MemoryFileSystem()
    controller = Controller(fs, replace(KAFKAS, interval_ms=0))
    controller.decide(1, now_ms=NOW + 10 * KAFKAS.interval_ms)
    assert snapshots(fs) == []


def test_the_next_controller_begins_with_the_snapshot_and_goes_on_with_the_log() -> None:
    fs = MemoryFileSystem()
    first = Controller(fs, EACH_TIME)
    first.decide(1, 2)
    Controller(fs).decide(3)
    again = Controller(fs)
    assert again.log.snapshot == SnapshotId(2, 1)
    assert again.image.offset == 2
    assert again.image.config_overrides(ConfigResourceType.TOPIC, "orders") == {"retention.ms": "3"}


@pytest.mark.parametrize(
    ("policy", "later_ms"),
    [
        (replace(EACH_TIME, retention_bytes=1), 0),
        (replace(EACH_TIME, retention_ms=1_000), 1_001),
    ],
    ids=["large", "old"],
)
def test_of_several_snapshots_the_old_ones_go_with_the_records_before_the_newest(
    policy: SnapshotPolicy, later_ms: int
) -> None:
    fs = MemoryFileSystem()
    controller = Controller(fs, policy)
    controller.decide(1, 2)
    controller.decide(3, now_ms=NOW + later_ms)
    assert snapshots(fs) == [f"{3:020d}-{1:010d}.checkpoint"]
    assert (controller.log.start_offset, controller.log.end_offset) == (3, 3)
    assert controller.log.read(3, ALL) == b""
    assert [name for name in fs.list(DIRECTORY) if name.endswith(".log")] == [f"{3:020d}.log"]
    controller.decide(4, now_ms=NOW + later_ms)
    assert Controller(fs).image == controller.image


def test_the_only_snapshot_stays_however_old_and_large_it_is() -> None:
    fs = MemoryFileSystem()
    controller = Controller(fs, replace(EACH_TIME, retention_bytes=0, retention_ms=0))
    controller.decide(1)
    controller.log.tend(controller.image, NOW + 1_000_000)
    assert len(snapshots(fs)) == 1
    assert controller.log.start_offset == 0


def test_a_snapshot_is_read_in_parts() -> None:
    fs = MemoryFileSystem()
    controller = Controller(fs, EACH_TIME)
    controller.decide(1, 2)
    snapshot = controller.log.snapshot
    assert snapshot is not None
    size = controller.log.snapshot_size(snapshot)
    parts = [controller.log.read_snapshot(snapshot, position, 7) for position in range(0, size, 7)]
    assert read_snapshot(b"".join(parts), 2) == controller.image
    with pytest.raises(KeyError):
        controller.log.read_snapshot(SnapshotId(2, 9), 0, 7)


def test_a_damaged_snapshot_is_passed_over_while_the_log_has_its_records(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fs = MemoryFileSystem()
    controller = Controller(fs, EACH_TIME)
    controller.decide(1, 2)
    replace_file(fs, f"{DIRECTORY}/{snapshots(fs)[-1]}", b"nothing of the kind" * 10)
    assert Controller(fs).image == controller.image
    assert "cannot be read" in caplog.text


def test_without_the_records_a_damaged_snapshot_is_an_error_that_says_so() -> None:
    fs = MemoryFileSystem()
    controller = Controller(fs, replace(EACH_TIME, retention_bytes=1))
    controller.decide(1, 2)
    (name,) = snapshots(fs)
    replace_file(fs, f"{DIRECTORY}/{name}", b"nothing of the kind" * 10)
    with pytest.raises(DecodeError, match="begins at 2, and no snapshot"):
        Controller(fs)


def test_what_is_read_replays_into_the_image() -> None:
    controller = Controller(MemoryFileSystem())
    controller.decide(*range(20))
    image = MetadataImage()
    while (offset := image.offset + 1) < controller.log.end_offset:
        image.apply_all(read_records(controller.log.read(offset, 200), offset))
    assert image == controller.image
