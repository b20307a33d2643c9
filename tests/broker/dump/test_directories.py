"""A log, and a directory of logs, in a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.dump import directories
from tests.broker.dump.support import change, dump, dump_json, segments, written_log
from tests.broker.log.support import make_batch


def log_directory(root: Path, *, close: bool = True) -> Path:
    """With one log, as a broker of Kafka would have left it."""
    log = written_log(root, close=close)
    (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    (root / "replication-offset-checkpoint").write_text("0\n1\norders 0 78\n")
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 60\n")
    (root / "log-start-offset-checkpoint").write_text("0\n1\norders 0 5\n")
    return log


@pytest.mark.parametrize("close", [True, False])
def test_a_log_is_summed_up_with_its_segments_epochs_and_producers(tmp_path: Path, close: bool) -> None:
    log = log_directory(tmp_path, close=close)
    done = dump_json(log)
    assert (done.code, done.complaints) == (0, [])
    (summary,) = done.of_kind("log")
    sizes = [path.stat().st_size for path in segments(log)]
    assert summary == {
        "file": str(log),
        "kind": "log",
        "topic": "orders",
        "partition": 0,
        "topicId": "AAAAAAAAAAAAAAAAAAAAAQ",
        "segments": len(sizes),
        "logStartOffset": 5,
        "logEndOffset": 80,
        "size": sum(sizes),
        "leaderEpoch": 2,
        "highWatermark": 78,
        "recoveryPoint": 60,
        "producers": 4,
        "openTransactions": [{"producerId": 22, "currentTxnFirstOffset": 78}],
    }
    assert [each["size"] for each in done.of_kind("segment")] == sizes
    assert [(each["epoch"], each["startOffset"]) for each in done.of_kind("entry")] == [
        (0, 0),
        (1, 24),
        (2, 48),
    ]
    assert [each["producerId"] for each in done.of_kind("producer")] == [7, 20, 21, 22]


def test_open_transactions_are_found_without_any_snapshot(tmp_path: Path) -> None:
    log = log_directory(tmp_path, close=False)
    for path in log.glob("*.snapshot"):
        path.unlink()
    (summary,) = dump_json(log).of_kind("log")
    assert summary["openTransactions"] == [{"producerId": 22, "currentTxnFirstOffset": 78}]
    assert summary["producers"] == 4


def test_a_damaged_snapshot_gives_way_to_an_older_one(tmp_path: Path) -> None:
    log = log_directory(tmp_path)
    newest = sorted(log.glob("*.snapshot"))[-1]
    change(newest, -1)
    done = dump_json(log)
    (summary,) = done.of_kind("log")
    assert (summary["producers"], len(summary["openTransactions"])) == (4, 1)
    assert done.code == 1
    assert done.problems == [f"{newest.name} is damaged: its size, its version or its checksum is wrong"]


def test_a_damaged_checkpoint_is_named_in_a_summary(tmp_path: Path) -> None:
    log = log_directory(tmp_path)
    (log / "leader-epoch-checkpoint").write_text("0\n7\n")
    (tmp_path / "replication-offset-checkpoint").write_text("?")
    assert dump_json(log).problems == [
        "leader-epoch-checkpoint is damaged: it says that it has 7 entries, and has 0"
    ]
    done = dump_json(tmp_path)
    assert done.code == 1
    assert [said.split(" is damaged")[0] for said in done.problems] == [
        "replication-offset-checkpoint",
        "leader-epoch-checkpoint",
    ]
    (summary,) = done.of_kind("log")
    assert (summary["leaderEpoch"], "highWatermark" in summary, summary["recoveryPoint"]) == (None, False, 60)


def test_a_file_that_a_running_broker_has_deleted_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_directory(tmp_path)
    listed = directories.files_in(log)
    segments(log)[0].unlink()
    monkeypatch.setattr(directories, "files_in", lambda _: listed)
    done = dump(log)
    assert done.code == 2
    assert "No such file" in done.complaints[0]


def test_a_log_directory_is_a_line_for_each_log(tmp_path: Path) -> None:
    log_directory(tmp_path)
    for name in ("orders-1", "or-ders-0." + "0" * 32 + "-delete"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000007.log").write_bytes(b"")
    done = dump(tmp_path)
    assert done.code == 0
    assert done.lines[:2] == [
        f"Dumping {tmp_path}",
        "version: 1 node.id: 1 cluster.id: c logs: 3 cleanShutdown: false",
    ]
    assert [line.split(" segments")[0] for line in done.lines[2:]] == [
        "topic: or-ders partition: 0 state: delete topicId: null",
        "topic: orders partition: 0 topicId: AAAAAAAAAAAAAAAAAAAAAQ",
        "topic: orders partition: 1 topicId: null",
    ]
    assert done.lines[3].endswith(
        "logStartOffset: 5 logEndOffset: 80 size: "
        f"{sum(path.stat().st_size for path in segments(tmp_path / 'orders-0'))} leaderEpoch: 2 "
        "highWatermark: 78 recoveryPoint: 60 producers: 4 openTransactions: 1"
    )


def test_a_clean_shutdown_is_seen(tmp_path: Path) -> None:
    log_directory(tmp_path)
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    assert dump_json(tmp_path).objects[0]["cleanShutdown"] is True


def test_a_torn_tail_is_named_in_a_summary(tmp_path: Path) -> None:
    log = log_directory(tmp_path)
    with segments(log)[-1].open("ab") as file:
        file.write(make_batch()[:30])
    for path in (log, tmp_path):
        done = dump_json(path)
        assert done.code == 1
        assert done.problems[0].startswith(f"Found 30 invalid bytes at the end of {segments(log)[-1].name}")


def test_with_an_option_for_files_a_directory_stands_for_all_of_them(tmp_path: Path) -> None:
    log = log_directory(tmp_path)
    done = dump(tmp_path, "--print-data-log")
    dumped = [line.removeprefix("Dumping ") for line in done.lines if line.startswith("Dumping ")]
    expected = sorted(str(path) for path in log.iterdir())
    assert (done.code, sorted(dumped[-len(expected) :])) == (0, expected)
    indexes = [line for line in dump(log, "--index-sanity-check").lines if line.startswith("Dumping ")]
    assert len(indexes) == len(list(log.glob("*.index")) + list(log.glob("*.timeindex")))


def test_one_log_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    log_directory(tmp_path)
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "old-0").mkdir()
    (tmp_path / "old-0" / "00000000000000000000.log").write_bytes(bytes(11) + b"\x63" + bytes(200))
    done = dump_json(tmp_path)
    assert done.code == 2
    assert [each["topic"] for each in done.of_kind("log")] == ["orders"]
    assert ["a log without a segment" in said for said in done.complaints] == [True, False]
    assert "before 0.11" in done.complaints[1]
