"""Replicas move between two log directories of a broker, of either kind, while a foreign producer writes to them.

Kafka's own tool asks for the move and verifies it, and so does the client of this package; each record is there once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ottla
from ottla.broker import Cluster
from tests.interop import confluent, tools
from tests.interop.apache import ApacheKafka
from tests.interop.conftest import BROKERS
from tests.interop.peers import PEERS, Sent
from tests.interop.waiting import eventually

CONFLUENT = PEERS[0]
RECORDS, TURNS = 400, 3

Move = Callable[[str, str], None]
"""Moves the replica of a topic to a path, and returns when it is there."""


@pytest.fixture(scope="module", params=BROKERS)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with two log directories."""
    folders = [tmp_path_factory.mktemp("logs") / name for name in ("first", "second")]
    if request.param == "ottla":
        with Cluster(data_dir=folders) as cluster:
            yield cluster.bootstrap
    else:
        request.getfixturevalue("kafka_installed")
        with ApacheKafka(properties={"log.dirs": ",".join(map(str, folders))}) as kafka:
            yield kafka.bootstrap


def places(kafka: ottla.Client, topic: str) -> dict[str, bool]:
    """The directories that have the replica, and whether it is the future one there."""
    return {
        path: directory.replicas[ottla.TopicPartition(topic, 0)].is_future
        for path, directory in kafka.admin.describe_log_dirs([1])[1].items()
        if ottla.TopicPartition(topic, 0) in directory.replicas
    }


def moved_under_load(bootstrap: str, move: Move) -> None:
    """The replica goes to and fro while records come; all of them are there once, and in order."""
    topic = confluent.create_topic(bootstrap, 1, replicas=1, config={"segment.bytes": str(1024 * 1024)})
    sent = [
        [b"%d of turn %d " % (number, turn) + b"x" * 500 for number in range(RECORDS)]
        for turn in range(TURNS)
    ]
    with ottla.Client(bootstrap) as kafka, ThreadPoolExecutor(1) as pool:
        paths = sorted(kafka.admin.describe_log_dirs([1])[1])
        assert len(paths) == 2
        for values in sent:
            (here,) = eventually(lambda: places(kafka, topic), f"a replica of {topic}")
            (there,) = (path for path in paths if path != here)
            producing = pool.submit(CONFLUENT.produce, bootstrap, topic, [Sent(value) for value in values])
            move(topic, there)
            assert places(kafka, topic) == {there: False}
            producing.result(timeout=60)
    assert CONFLUENT.range_of(bootstrap, topic, 0) == (0, RECORDS * TURNS)
    found = CONFLUENT.consume(bootstrap, topic, RECORDS * TURNS)
    assert [record.value for record in found] == [value for values in sent for value in values]


def test_a_replica_is_moved_by_the_client_under_load(bootstrap: str) -> None:
    with ottla.Client(bootstrap) as kafka:

        def move(topic: str, path: str) -> None:
            kafka.admin.alter_replica_log_dirs(1, {ottla.TopicPartition(topic, 0): path})
            eventually(lambda: places(kafka, topic) == {path: False}, f"{topic} to be in {path}")

        moved_under_load(bootstrap, move)


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_installed")
def test_a_replica_is_moved_by_kafkas_own_tool_under_load(bootstrap: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"

    def run(topic: str, action: str) -> str:
        return tools.output(
            bootstrap, "kafka-reassign-partitions", action, "--reassignment-json-file", str(plan)
        )

    def move(topic: str, path: str) -> None:
        wanted = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [path]}
        plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
        said = run(topic, "--execute")
        assert f"moving log directory to {path} for replica {topic}-0 with broker 1" in said
        eventually(
            lambda: f"Reassignment of replica {topic}-0-1 completed successfully." in run(topic, "--verify"),
            f"{topic} to be in {path}",
            within=180,
        )

    moved_under_load(bootstrap, move)
