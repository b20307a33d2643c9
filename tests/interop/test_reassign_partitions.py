"""Kafka's tool for moving replicas, against both brokers: a plan, its execution with a throttle, and the way back.

Replicas move in their own time: every step is verified, as the tool demands, until it says that all is over.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.wire.resources import ConfigSource
from tests.interop import confluent, tools
from tests.interop.brokers import Broker
from tests.interop.peers import PEERS, Sent
from tests.interop.waiting import eventually

# Also on the embedded cluster: it is the tool that needs Java.
pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("kafka_installed")]

CONFLUENT = PEERS[0]
PARTITIONS, RECORDS = 2, 300
THROTTLE = 10_000_000
REPLICAS_THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")

Plan = dict[str, Any]


class Tool:
    """kafka-reassign-partitions, about one topic."""

    def __init__(self, broker: Broker, folder: Path, topic: str) -> None:
        self._broker = broker
        self._folder = folder
        self._topic = topic

    def _said(self, *arguments: str) -> list[str]:
        return tools.output(self._broker.bootstrap, "kafka-reassign-partitions", *arguments).splitlines()

    def _file(self, content: object) -> str:
        path = self._folder / "plan.json"
        path.write_text(json.dumps(content))
        return str(path)

    def generate(self, *nodes: int) -> tuple[Plan, Plan]:
        """The assignment that there is, and one that needs these nodes alone."""
        topics = self._file({"version": 1, "topics": [{"topic": self._topic}]})
        brokers = ",".join(map(str, nodes))
        said = self._said("--generate", "--topics-to-move-json-file", topics, "--broker-list", brokers)
        current, proposed = (json.loads(line) for line in said if line.startswith("{"))
        return current, proposed

    def execute(self, plan: Plan, *arguments: str) -> list[str]:
        return self._said("--execute", "--reassignment-json-file", self._file(plan), *arguments)

    def verify_until_complete(self, plan: Plan) -> list[str]:
        """What it says at last; only then it takes the throttles away."""
        file = self._file(plan)

        def complete() -> list[str]:
            said = self._said("--verify", "--reassignment-json-file", file)
            return said if f"Clearing topic-level throttles on topic {self._topic}" in said else []

        return eventually(complete, f"the replicas of {self._topic} to have moved", within=180)


def replicas(plan: Plan) -> list[list[int]]:
    return [each["replicas"] for each in sorted(plan["partitions"], key=lambda each: each["partition"])]


def overrides(kafka: ottla.Client, topic: str, node: int) -> dict[str, str | None]:
    """The throttles that are set for a topic, and those of a broker."""
    of_topic = kafka.admin.describe_configs(topic=topic)
    of_broker = kafka.admin.describe_configs(broker=node)
    found = {name: of_topic[name] for name in REPLICAS_THROTTLED}
    found |= {name: of_broker[name] for name in RATES if name in of_broker}
    own = (ConfigSource.TOPIC, ConfigSource.DYNAMIC_BROKER)
    return {name: entry.value for name, entry in found.items() if entry.source in own}


def sizes(kafka: ottla.Client, topic: str) -> dict[int, list[tuple[int, int]]]:
    """The replicas of a topic that each node has, as (partition, bytes)."""
    return {
        node: sorted(
            (partition.partition, replica.size)
            for directory in directories.values()
            for partition, replica in directory.replicas.items()
            if partition.topic == topic
        )
        for node, directories in kafka.admin.describe_log_dirs().items()
    }


def wait_for_replicas(bootstrap: str, topic: str, wanted: list[list[int]]) -> None:
    eventually(
        lambda: [confluent.replicas(bootstrap, topic, each) for each in range(PARTITIONS)] == wanted,
        f"the replicas of {topic} to be {wanted}",
    )


def test_replicas_are_moved_with_a_throttle_and_back_again(broker3: Broker, tmp_path: Path) -> None:
    bootstrap = broker3.bootstrap
    topic = confluent.create_topic(bootstrap, PARTITIONS, replicas=2)
    for partition in range(PARTITIONS):
        CONFLUENT.produce(bootstrap, topic, [Sent(b"x" * 1000)] * RECORDS, partition=partition)
    before = [confluent.replicas(bootstrap, topic, partition) for partition in range(PARTITIONS)]
    # A node that has a replica, so that something has to move.
    left = before[0][0]
    others = [node for node in broker3.node_ids if node != left]
    tool = Tool(broker3, tmp_path, topic)

    with ottla.Client(bootstrap) as kafka:

        def stored_everywhere() -> list[tuple[int, int]]:
            found = sorted({replica for there in sizes(kafka, topic).values() for replica in there})
            return found if len(found) == PARTITIONS else []

        stored = eventually(stored_everywhere, "all replicas to be as large as the leader's")
        current, proposed = tool.generate(*others)
        assert replicas(current) == before
        assert all(sorted(each) == others for each in replicas(proposed))

        said = tool.execute(proposed, "--throttle", str(THROTTLE))
        assert f"The inter-broker throttle limit was set to {THROTTLE} B/s" in said
        moved = f"{topic}-0,{topic}-1"
        assert f"Successfully started partition reassignments for {moved}" in said

        def throttles() -> dict[str, str | None]:
            found = overrides(kafka, topic, left)
            return found if sorted(found) == sorted(REPLICAS_THROTTLED + RATES) else {}

        throttled = eventually(throttles, "the throttles to be known")
        assert [throttled[name] for name in RATES] == [str(THROTTLE)] * 2

        said = tool.verify_until_complete(proposed)
        assert f"Reassignment of partition {topic}-0 is completed." in said
        assert f"Reassignment of partition {topic}-1 is completed." in said
        eventually(lambda: not overrides(kafka, topic, left), "the throttles to be gone")
        wait_for_replicas(bootstrap, topic, replicas(proposed))
        eventually(lambda: sizes(kafka, topic)[left] == [], f"node {left} to have dropped {topic}")
        eventually(
            lambda: [sizes(kafka, topic)[node] for node in others] == [stored, stored],
            "the others to have all of it",
        )

        # What there was names log directories: the way back also asks for a move within each node.
        assert all(path.startswith("/") for each in current["partitions"] for path in each["log_dirs"])
        tool.execute(current)
        said = tool.verify_until_complete(current)
        assert f"Reassignment of replica {topic}-0-{left} completed successfully." in said
        wait_for_replicas(bootstrap, topic, before)
        eventually(
            lambda: sum(map(len, sizes(kafka, topic).values())) == 2 * PARTITIONS,
            "replicas that were moved to be dropped",
        )

    for partition in range(PARTITIONS):
        assert CONFLUENT.range_of(bootstrap, topic, partition) == (0, RECORDS)
        assert len(CONFLUENT.consume(bootstrap, topic, RECORDS, partition=partition)) == RECORDS
