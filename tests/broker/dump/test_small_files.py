"""Checkpoints, properties and JSON as lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker.dump.small_files import OFFSET_CHECKPOINTS
from tests.broker.dump.support import dump, dump_json


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        *[
            (name, "0\n2\norders 0 17\nor ders 1 -1\n", ["topic: orders partition: 0 offset: 17"])
            for name in OFFSET_CHECKPOINTS
        ],
        ("cleaner-offset-checkpoint", "", []),
        ("log-start-offset-checkpoint", "0\n0\n", []),
        ("leader-epoch-checkpoint", "0\n1\n3 42\n", ["epoch: 3 startOffset: 42"]),
        (
            "partition.metadata",
            "version: 0\ntopic_id: YZw7Wl4VTlGRB3Fg1lzO9A",
            ["version: 0 topic_id: YZw7Wl4VTlGRB3Fg1lzO9A"],
        ),
        (
            "meta.properties",
            "#\n#Wed Nov 18\nnode.id=1\nversion=1\ncluster.id=tPor0yXgQg2TsWgj5R_XYg\n",
            ["node.id: 1 version: 1 cluster.id: tPor0yXgQg2TsWgj5R_XYg"],
        ),
        (".kafka_cleanshutdown", '{"version":0,"brokerEpoch":14}', ["version: 0 brokerEpoch: 14"]),
        (
            "quorum-state",
            '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":1}',
            ["leaderId: 1 leaderEpoch: 1 votedId: -1 data_version: 1"],
        ),
    ],
)
def test_a_small_file_is_shown_line_by_line(
    tmp_path: Path, name: str, content: str, lines: list[str]
) -> None:
    path = tmp_path / name
    path.write_text(content)
    done = dump(path)
    assert (done.code, done.complaints) == (0, [])
    assert done.lines[1 : 1 + max(1, len(lines))] == lines


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("replication-offset-checkpoint", b"0\n2\norders 0 17\n", "2 entries, and has 1"),
        ("replication-offset-checkpoint", b"0\n", "is no number"),
        ("replication-offset-checkpoint", b"1\n0\n", "the version is '1'"),
        ("replication-offset-checkpoint", b"0\n1\norders 17\n", "line 3 has not 3 words"),
        ("replication-offset-checkpoint", b"0\n1\norders 0 many\n", "'many' is no number"),
        ("replication-offset-checkpoint", b"0\n" + b"9" * 5000 + b"\n", "is no number"),
        ("leader-epoch-checkpoint", b"0\n1\n\xff\xff 3\n", "byte 4 is no text"),
        ("partition.metadata", b"version: 0\n", "it has no topic_id"),
        ("partition.metadata", b"version 0\n", "line 1 has no ':'"),
        ("meta.properties", b"node.id=1\n", "it has no version"),
        (".kafka_cleanshutdown", b"{", "it is no JSON"),
        ("quorum-state", b"[" * 100_000, "it is no JSON"),
        ("quorum-state", b"[1]", "it is no JSON object"),
    ],
)
def test_a_damaged_small_file_is_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    done = dump_json(path)
    assert done.code == 1
    assert done.problems[0].startswith(f"{name} is damaged: ")
    assert said in done.problems[0]


def test_a_small_file_that_is_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    with path.open("wb") as file:
        file.truncate(1 << 32)
    assert "too many" in dump_json(path).problems[0]


def test_a_checkpoint_of_empty_lines_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_bytes(b"0\n1\n" + b"\n" * (15 << 20))
    command = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)); "
        "from ottla.broker.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", command, "dump", path], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert f"has 1 entries, and has {15 << 20}" in done.stdout


def test_what_a_damaged_file_calls_text_stays_on_its_line(tmp_path: Path) -> None:
    path = tmp_path / "quorum-state"
    path.write_text('{"leaderId":"\\ud800\\n"}')
    assert dump(path).lines[1:] == ["leaderId: \\ud800\\n"]
