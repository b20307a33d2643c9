"""`ottla pipeline recover`: it shows what a dead query has left, and ends it once that is confirmed."""

from __future__ import annotations

import json

import pytest

from ottla.broker import Cluster
from tests.cli.conftest import Ottla
from tests.spark.sink import left_behind


@pytest.fixture
def dead_query(cluster: Cluster) -> None:
    """Batch 0 is complete. Batch 1 is decided in slot 0; slot 2 has rows of which nothing was decided."""
    begun = left_behind.start(cluster)
    left_behind.commit(cluster, 0, [left_behind.prepare(cluster, begun, 0, 0, b"first")])
    begun = left_behind.start(cluster)
    left_behind.prepare(cluster, begun, 1, 2, b"undecided")
    left_behind.decide_and_die(cluster, begun, 1, [left_behind.prepare(cluster, begun, 1, 0, b"decided")])


def rows(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


@pytest.mark.usefixtures("dead_query")
def test_it_shows_what_is_open_what_was_decided_and_who_waits(ottla: Ottla) -> None:
    shown = rows(ottla("pipeline", "recover", "--sink", "billing").stdout)
    assert [row[:2] for row in shown] == [
        ["decision", "batch 1"],
        ["marker", "slot 0"],
        ["open", "slot 0"],
        ["open", "slot 2"],
        ["blocked", "orders:0"],
        ["blocked", "orders:2"],
    ]
    details = [row[2] for row in shown]
    assert details[0] == "query query-1, 1 tasks, slots 0"
    assert details[1] == "batch 0, query query-1"
    assert details[2].startswith("decided, to be committed; producer ")
    assert details[3].startswith("undecided, to be aborted; producer ")
    assert details[4] == "by slots 0; readers of committed records stop at 2 of 3"
    assert details[5] == "by slots 2; readers of committed records stop at 0 of 1"


@pytest.mark.usefixtures("dead_query")
def test_as_json_it_is_one_object(ottla: Ottla) -> None:
    shown = json.loads(ottla("pipeline", "recover", "--sink", "billing", "--json").stdout)
    assert (shown["sink"], shown["control_topic"]) == ("billing", "ottla-sink-billing")
    assert (shown["complete"], shown["lost"], shown["driver_is_open"]) == (False, [], False)
    assert shown["decision"] == {"query": "query-1", "batch": 1, "tasks": 1, "slots": [0]}
    assert shown["markers"] == [{"slot": 0, "batch": 0, "query": "query-1"}]
    assert [(each["id"], each["decided"]) for each in shown["open"]] == [
        ("billing-0", True),
        ("billing-2", False),
    ]
    assert shown["blocked"][1] == {
        "topic": "orders",
        "partition": 2,
        "slots": [2],
        "last_stable_offset": 0,
        "end": 1,
    }


@pytest.mark.usefixtures("dead_query")
def test_it_finishes_what_was_decided_once_that_is_confirmed(cluster: Cluster, ottla: Ottla) -> None:
    assert "--yes" in ottla("pipeline", "recover", "--sink", "billing", "--finish", code=2).output
    assert left_behind.committed(cluster) == [b"first"]
    done = ottla("pipeline", "recover", "--sink", "billing", "--finish", "--yes")
    assert done.stderr == "finished sink billing\n"
    assert rows(done.stdout)[-1] == ["complete", "billing", "nothing is left to do"]
    assert left_behind.committed(cluster) == [b"decided", b"first"]


@pytest.mark.usefixtures("dead_query")
def test_it_aborts_what_was_not_decided_and_leaves_the_rest(cluster: Cluster, ottla: Ottla) -> None:
    done = ottla("pipeline", "recover", "--sink", "billing", "--abort", "--yes")
    assert done.stderr == "aborted what was undecided of sink billing; slots 0 are still open\n"
    assert [row[1] for row in rows(done.stdout) if row[0] == "open"] == ["slot 0"]
    assert left_behind.committed(cluster) == [b"first"]


@pytest.mark.usefixtures("dead_query")
def test_it_forgets_a_sink_that_another_query_is_to_use(cluster: Cluster, ottla: Ottla) -> None:
    assert (
        ottla("pipeline", "recover", "--sink", "billing", "--forget", "-y").stderr == "forgot sink billing\n"
    )
    assert left_behind.committed(cluster) == [b"decided", b"first"]
    begun = left_behind.start(cluster)
    assert begun.last is not None
    assert begun.last.released


def test_rows_that_are_gone_are_named_with_what_to_do(cluster: Cluster, ottla: Ottla) -> None:
    begun = left_behind.start(cluster)
    outcome = left_behind.prepare(cluster, begun, 0, 0, b"row")
    left_behind.decide_and_die(cluster, begun, 0, [outcome])
    ottla("txn", "abort", "--id", "billing-0", "--yes")
    assert ["lost", "slot 0", "decided, and neither open nor committed"] in rows(
        ottla("pipeline", "recover", "--sink", "billing").stdout
    )
    failed = ottla("pipeline", "recover", "--sink", "billing", "--finish", "--yes", code=1)
    assert (
        "of batch 0 the rows of slots 0 are neither committed nor open: start the query again"
        in failed.stderr
    )


@pytest.mark.usefixtures("dead_query")
def test_a_sink_that_does_not_exist_is_named_with_the_one_that_was_meant(ottla: Ottla) -> None:
    said = ottla("pipeline", "recover", "--sink", "biling", code=1).stderr
    assert "sink 'biling' has no topic ottla-sink-biling" in said
    assert "did you mean billing?" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--sink"),
        (["--sink", "a b"], "sink id 'a b'"),
        (["--sink", "billing", "--finish", "--abort"], "give one of --finish, --abort and --forget"),
    ],
)
def test_a_mistake_in_the_command_is_named(ottla: Ottla, arguments: list[str], said: str) -> None:
    assert said in ottla("pipeline", "recover", *arguments, code=2).stderr
