"""Log directories of both brokers, through Kafka's own tool, kafka-python, and the client of this package."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest

import ottla
from ottla.errors import (
    LogDirNotFoundError,
    ReplicaNotAvailableError,
    UnknownTopicOrPartitionError,
)
from tests.interop import tools
from tests.interop.brokers import Broker
from tests.interop.peers import PEERS, Sent
from tests.interop.peers.by_kafka_python import KafkaAdminClient
from tests.interop.waiting import eventually

CONFLUENT = PEERS[0]
TOOL = "kafka-log-dirs"


def filled_topic(broker: Broker, partitions: int = 2) -> str:
    """A topic with a replica of each partition on each node, and records in the first partition."""
    topic = broker.create_topic(partitions)
    CONFLUENT.produce(broker.bootstrap, topic, [Sent(b"value %d" % number) for number in range(20)])
    return topic


def described(broker: Broker, *arguments: str) -> dict[int, list[dict[str, Any]]]:
    """What the tool says about the log directories, by broker."""
    *words, found = tools.output(broker.bootstrap, TOOL, "--describe", *arguments).splitlines()
    assert words[0] == "Querying brokers for log directories information"
    said = json.loads(found)
    assert (sorted(said), said["version"]) == (["brokers", "version"], 1)
    return {each["broker"]: each["logDirs"] for each in said["brokers"]}


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_installed")
def test_the_tool_describes_the_replicas_of_every_broker(broker3: Broker) -> None:
    topic = filled_topic(broker3)

    def sizes() -> dict[int, dict[str, int]]:
        found: dict[int, dict[str, int]] = {}
        for node, directories in described(broker3, "--topic-list", topic).items():
            (directory,) = directories
            assert sorted(directory) == ["error", "logDir", "partitions"]
            assert directory["error"] is None
            assert directory["logDir"].startswith("/")
            for replica in directory["partitions"]:
                assert sorted(replica) == ["isFuture", "offsetLag", "partition", "size"]
                assert (replica["isFuture"], replica["offsetLag"]) == (False, 0)
            found[node] = {each["partition"]: each["size"] for each in directory["partitions"]}
        return found

    def are_equal() -> bool:
        return len({str(sorted(each.items())) for each in sizes().values()}) == 1

    eventually(are_equal, f"every node to have all of {topic}", within=120)
    found = sizes()
    assert sorted(found) == broker3.node_ids
    assert found[1][f"{topic}-0"] > found[1][f"{topic}-1"] == 0


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_installed")
def test_the_tool_describes_the_brokers_and_topics_that_it_is_asked_for(broker3: Broker) -> None:
    first, second = broker3.create_topic(), broker3.create_topic()
    chosen = described(broker3, "--broker-list", "2,3", "--topic-list", f"{first},nothing-of-that-name")
    assert sorted(chosen) == [2, 3]
    assert [each["partition"] for each in chosen[2][0]["partitions"]] == [f"{first}-0"]
    everything = described(broker3, "--broker-list", "1")
    assert {f"{first}-0", f"{second}-0"} <= {each["partition"] for each in everything[1][0]["partitions"]}
    refused = tools.run(broker3.bootstrap, TOOL, "--describe", "--broker-list", "9")
    assert refused.returncode == 1
    assert "The given brokers do not exist from --broker-list: 9." in refused.stderr


def test_kafka_python_describes_and_alters_log_directories(broker: Broker) -> None:
    topic = filled_topic(broker)
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        (node,) = admin.describe_log_dirs([topic])
        (directory,) = node["log_dirs"]
        assert (node["broker"], directory["error_code"], directory["is_cordoned"]) == (1, 0, False)
        ((name, replicas),) = ((each["name"], each["partitions"]) for each in directory["topics"])
        assert (name, sorted(each["partition_index"] for each in replicas)) == (topic, [0, 1])
        assert not any(each["offset_lag"] or each["is_future_key"] for each in replicas)
        path = directory["log_dir"]
        moves = {(topic, 0, 1): path, (topic, 1, 1): "/nowhere", ("nothing-of-that-name", 0, 1): path}
        altered = admin.alter_replica_log_dirs(moves)
    codes = {(replica.topic, replica.partition): kind.errno for replica, kind in altered.items()}
    assert codes == {(topic, 0): 0, (topic, 1): 57, ("nothing-of-that-name", 0): 3}


def test_the_client_describes_and_alters_log_directories(broker3: Broker) -> None:
    topic = filled_topic(broker3)
    with ottla.Client(broker3.bootstrap) as kafka:
        first, unknown = ottla.TopicPartition(topic, 0), ottla.TopicPartition("nothing-of-that-name", 0)
        everywhere = kafka.admin.describe_log_dirs()
        assert sorted(everywhere) == broker3.node_ids
        ((path, directory),) = kafka.admin.describe_log_dirs([2])[2].items()
        assert directory.replicas[first].offset_lag == 0
        assert (directory.error, directory.cordoned) == (None, False)
        assert kafka.admin.alter_replica_log_dirs(2, {first: path}) == {first: None}
        results = kafka.admin.alter_replica_log_dirs(2, {first: "/nowhere", unknown: path}, errors="collect")
        assert {key: type(error) for key, error in results.errors.items()} == {
            first: LogDirNotFoundError,
            unknown: UnknownTopicOrPartitionError,
        }


def test_a_replica_that_a_broker_does_not_have_cannot_be_moved_within_it(broker3: Broker) -> None:
    topic = broker3.create_topic()
    with ottla.Client(broker3.bootstrap) as kafka:
        first = ottla.TopicPartition(topic, 0)
        kafka.admin.alter_partition_reassignments({first: [1, 2]})
        (path,) = kafka.admin.describe_log_dirs([3])[3]
        eventually(
            lambda: first not in kafka.admin.describe_log_dirs([3])[3][path].replicas,
            f"node 3 to have dropped {topic}",
        )
        with pytest.raises(ReplicaNotAvailableError):
            kafka.admin.alter_replica_log_dirs(3, {first: path})
