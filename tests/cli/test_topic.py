"""`ottla topic`: what it says is so, and what it does is done."""

from __future__ import annotations

import json

import pytest

from ottla.broker import Cluster
from tests.cli import shell
from tests.cli.conftest import Ottla


def test_topics_are_listed_in_columns_or_as_json(ottla: Ottla) -> None:
    assert ottla("topic", "list").stdout == "orders\t3\t2\n"
    assert json.loads(ottla("topic", "list", "--json").stdout) == {
        "topic": "orders",
        "partitions": 3,
        "replicas": 2,
    }


def test_partitions_are_described_with_their_offsets(cluster: Cluster, ottla: Ottla) -> None:
    cluster.seed("orders", [b"1", b"2"], 1)
    rows = [line.split("\t") for line in ottla("topic", "describe", "orders").stdout.splitlines()]
    assert [row[:2] + row[5:] for row in rows] == [
        ["orders", "0", "0", "0"],
        ["orders", "1", "0", "2"],
        ["orders", "2", "0", "0"],
    ]
    assert rows[1][2] == str(cluster.leader("orders", 1))
    assert sorted(rows[1][3].split(",")) == ["1", "2"]


def test_a_topic_is_created_with_its_configs_and_changed(cluster: Cluster, ottla: Ottla) -> None:
    ottla("topic", "create", "payments", "-p", "2", "-r", "1", "--set", "retention.ms=60000")
    assert "payments\t2\t1\n" in ottla("topic", "list").stdout

    def configs() -> dict[str, list[str]]:
        found = ottla("topic", "describe", "payments", "--configs").stdout
        return {row[1]: row[2:] for row in (line.split("\t") for line in found.splitlines())}

    assert configs()["retention.ms"] == ["60000", "topic"]
    ottla("topic", "alter", "payments", "--set", "cleanup.policy=compact", "--unset", "retention.ms")
    assert configs()["retention.ms"][1] == "default"
    assert configs()["cleanup.policy"] == ["compact", "topic"]

    ottla("topic", "partitions", "payments", "5")
    assert "payments\t5\t1\n" in ottla("topic", "list").stdout


def test_several_topics_are_created_and_deleted_at_once(ottla: Ottla) -> None:
    assert ottla("topic", "create", "a", "b").stderr == "created a\ncreated b\n"
    assert ottla("topic", "delete", "a", "b", "--yes").stderr == "deleted a\ndeleted b\n"
    assert ottla("topic", "list").stdout == "orders\t3\t2\n"


def test_nothing_is_deleted_without_a_terminal_to_confirm_on(ottla: Ottla) -> None:
    assert "--yes" in ottla("topic", "delete", "orders", code=2).output
    assert ottla("topic", "list").stdout == "orders\t3\t2\n"


@pytest.mark.parametrize(("reply", "left"), [(b"n\n", True), (b"y\n", False)])
def test_the_user_at_the_terminal_decides(cluster: Cluster, ottla: Ottla, reply: bytes, left: bool) -> None:
    with shell.terminal() as (keyboard, terminal):
        with shell.running(cluster.bootstrap, "topic", "delete", "orders", stdin=terminal) as process:
            keyboard.write(reply)
            keyboard.flush()
            _, errors = process.communicate(timeout=shell.WITHIN)
        assert b"Delete orders and all records in it?" in errors
        assert process.returncode == (1 if left else 0)
    assert ottla("topic", "list").stdout == ("orders\t3\t2\n" if left else "")


def test_what_cannot_be_done_is_said_in_one_line(ottla: Ottla) -> None:
    for arguments, said in [
        (("create", "orders"), "orders"),
        (("create", "x", "-r", "9"), "9"),
        (("create", "x", "--set", "retention.mss=1"), "retention.mss"),
        (("partitions", "orders", "2"), "orders"),
        (("describe", "ordes"), "did you mean orders?"),
        (("delete", "zzz", "--yes"), "there is no topic zzz"),
        (("alter", "orders", "--set", "retention.ms=soon"), "retention.ms"),
    ]:
        result = ottla("topic", *arguments, code=1)
        assert result.stderr.startswith("ottla: ")
        assert said in result.stderr
        assert result.stderr.count("\n") == 1
