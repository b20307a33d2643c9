"""The demo's brokers: what is said of them, and what becomes of one that is killed and started again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ottla
from demo.cluster import CONFIG, NODES, NodeWatch, carry_out, states
from demo.orders import ORDERS, TOPICS
from ottla.broker import Cluster
from tests.interop.waiting import eventually

PARTITIONS = sum(TOPICS.values())


def whole(nodes: list[tuple[int, bool, int, int]]) -> bool:
    """Each of them runs and is in sync, and every partition has a leader."""
    runs = [(node, up, in_sync) for node, up, _, in_sync in nodes]
    leads = sum(leads for _, _, leads, _ in nodes)
    return runs == [(node, True, PARTITIONS) for node in (1, 2, 3)] and leads == PARTITIONS


def test_a_node_that_is_killed_loses_its_partitions_and_catches_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        Cluster(NODES, topics=TOPICS, config=CONFIG, data_dir=tmp_path) as cluster,
        ottla.Client(cluster.bootstrap, acks="all") as client,
    ):
        eventually(lambda: whole(states(cluster)), "all nodes to be in sync")
        client.produce(ORDERS, b"before").result(60)

        carry_out(cluster, "kill", 2)
        eventually(lambda: states(cluster)[1] == (2, False, 0, 0), "the others to lead its partitions")
        client.produce(ORDERS, b"while it is down").result(60)
        carry_out(cluster, "start", 2)
        eventually(lambda: states(cluster)[1][3] == PARTITIONS, "it to be in sync")
        eventually(lambda: states(cluster)[1][2] > 0, "it to lead again", 60)

        stored = {record.value for record in cluster.dump(ORDERS)}
    assert stored == {b"before", b"while it is down"}
    assert capsys.readouterr().out.splitlines() == [
        '{"event": "node killed", "node": 2}',
        '{"event": "node started", "node": 2}',
    ]


def test_a_look_says_what_has_changed_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(NODES, topics=TOPICS, config=CONFIG) as cluster:
        eventually(lambda: whole(states(cluster)), "all nodes to be in sync")
        watch = NodeWatch(cluster)
        watch.look()
        watch.look()
        cluster.stop_node(3, clean=False)
        watch.look()
        cluster.start_node(3)
        watch.look()
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["event"] for each in said] == ["nodes"] * 3
    assert [[up for _, up, _, _ in each["nodes"]] for each in said] == [
        [True, True, True],
        [True, True, False],
        [True, True, True],
    ]
