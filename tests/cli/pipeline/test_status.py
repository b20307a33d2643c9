"""`ottla pipeline status`: from a checkpoint as Spark writes it, and the topics of a cluster; Spark is not needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.broker import Cluster
from ottla.spark.sink.exactly_once.names import SinkNames
from tests.cli.conftest import Ottla
from tests.spark.sink import left_behind

FILE = """\
name = "revenue"
checkpoint = "checkpoints"

[kafka]
bootstrap.servers = "{bootstrap}"

[sources.orders]
topic = "orders"

[sinks.copies]
topic = "copies"
format = "bytes"
"""


@pytest.fixture
def file(cluster: Cluster, tmp_path: Path) -> Path:
    """Of a pipeline that reads the topic orders, of which partition 1 has three records."""
    cluster.seed("orders", [b"a", b"b", b"c"], partition=1)
    path = tmp_path / "revenue.toml"
    path.write_text(FILE.format(bootstrap=cluster.bootstrap))
    return path


def plan(folder: Path, batch: int, offsets: dict[str, int], *, committed: bool) -> None:
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    end = {":plan": {"version": 1, "targetPartitions": 2}, "orders": offsets}
    (folder / "offsets" / str(batch)).write_text("\n".join(["v1", '{"batchWatermarkMs":0}', json.dumps(end)]))
    (folder / "offsets" / f".{batch}.crc").write_text("crc")
    if committed:
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def rows(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_a_pipeline_that_was_never_started_says_so(ottla: Ottla, file: Path) -> None:
    assert rows(ottla("pipeline", "status", str(file)).stdout) == [
        ["sink", "copies", "never started"],
        ["source", "orders:0", "nothing read, ends at 0"],
        ["source", "orders:1", "nothing read, ends at 3"],
        ["source", "orders:2", "nothing read, ends at 0"],
    ]


def test_it_shows_what_is_committed_what_was_begun_and_how_far_behind_that_is(
    ottla: Ottla, file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoints" / "copies"
    plan(folder, 9, {"0": 0, "1": 1}, committed=True)
    plan(folder, 10, {"0": 0, "1": 2}, committed=True)
    plan(folder, 11, {"0": 0, "1": 3, "2": 0}, committed=False)
    shown = rows(ottla("pipeline", "status", str(file)).stdout)
    assert shown[0][:2] == ["sink", "copies"]
    assert shown[0][2].startswith("batch 10 committed ")
    assert ", batch 11 begun " in shown[0][2]
    assert shown[0][2].endswith(", lag 1")
    assert shown[1:] == [
        ["source", "orders:0", "read up to 0, ends at 0, lag 0"],
        ["source", "orders:1", "read up to 2, ends at 3, lag 1"],
        ["source", "orders:2", "nothing read, ends at 0"],
    ]


def test_it_shows_what_is_open(ottla: Ottla, cluster: Cluster, file: Path, tmp_path: Path) -> None:
    plan(tmp_path / "checkpoints" / "copies", 0, {"1": 3}, committed=False)
    begun = left_behind.start(cluster, SinkNames("revenue-copies"))
    left_behind.prepare(cluster, begun, 0, 2, b"undecided")
    shown = rows(ottla("pipeline", "status", str(file)).stdout)
    assert shown[0][2].endswith("a transaction is open: it runs, or was left so")
    assert shown[-1] == ["open", "revenue-copies, slot 2", "undecided"]
    [sink] = json.loads(ottla("pipeline", "status", str(file), "--json").stdout)["sinks"]
    assert (sink["started"], sink["batch"], sink["begun"], sink["lag"]) == (True, None, 0, None)
    assert (sink["writing"], sink["open"], sink["decided"], sink["lost"]) == (True, [2], None, [])
