"""One node of three is dead, and both brokers answer alike: a table of questions, each with Kafka's answer.

Node 3 is the one that dies. Of the topics, `strict` wants all of its replicas in sync and has lost one, `lenient` has
enough left, `single` was on that node alone. Two of three nodes cannot be missing here: those of Apache Kafka are its
controllers, too, and the one that is left would decide nothing any more.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from ottla.wire import Message
from ottla.wire.messages import (
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DescribeTopicPartitionsRequest,
    ElectLeadersRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from tests.interop import confluent
from tests.interop.brokers import Broker
from tests.interop.comparison.requests import batch
from tests.interop.plain import Connection
from tests.interop.waiting import eventually

MISSING = 3
LEADER, FOLLOWER = 1, 2
ALL, ONE = -1, 1
LATEST, MAX_TIMESTAMP = -1, -3
PREFERRED, UNCLEAN = 0, 1
TOPICS = {
    "strict": ([3, 1, 2], {"min.insync.replicas": "3"}),
    "lenient": ([1, 2, 3], {"min.insync.replicas": "2"}),
    "single": ([3], {}),
}


class Cluster:
    """A cluster with the topics of the table, under names of their own."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._suffix = uuid.uuid4().hex[:8]

    def name(self, topic: str) -> str:
        return f"{topic}-{self._suffix}"

    def ask(self, request: Message, version: int, node: int = LEADER) -> Any:
        with Connection(self.broker.address(node)) as connection:
            return connection.ask(request, version)


# Questions: each gives what clients look at, without what differs from run to run


def create(topic: str, replicas: list[int], config: dict[str, str]) -> Callable[[Cluster], object]:
    def asked(cluster: Cluster) -> object:
        topics = CreateTopicsRequest
        wanted = topics.CreatableTopic(
            name=cluster.name(topic),
            num_partitions=-1,
            replication_factor=-1,
            assignments=[topics.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)],
            configs=[topics.CreatableTopicConfig(name=name, value=value) for name, value in config.items()],
        )
        return cluster.ask(topics(topics=[wanted], timeout_ms=30_000), 7).topics[0].error_code

    return asked


def create_spread(topic: str, replicas: int) -> Callable[[Cluster], object]:
    def asked(cluster: Cluster) -> object:
        wanted = CreateTopicsRequest.CreatableTopic(
            name=cluster.name(topic), num_partitions=1, replication_factor=replicas
        )
        return cluster.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7).topics[0].error_code

    return asked


def produce(topic: str, acks: int, node: int = LEADER) -> Callable[[Cluster], object]:
    def asked(cluster: Cluster) -> object:
        data = ProduceRequest.PartitionProduceData(index=0, records=batch(b"1", b"2"))
        topics = [ProduceRequest.TopicProduceData(name=cluster.name(topic), partition_data=[data])]
        request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics)
        (result,) = cluster.ask(request, 9, node).responses[0].partition_responses
        return result.error_code, result.base_offset

    return asked


def metadata(topic: str, node: int = LEADER) -> Callable[[Cluster], object]:
    """(code of the topic, code of the partition, leader, replicas, in sync, offline)"""

    def asked(cluster: Cluster) -> object:
        wanted = [MetadataRequest.MetadataRequestTopic(name=cluster.name(topic))]
        (found,) = cluster.ask(MetadataRequest(topics=wanted), 12, node).topics
        (part,) = found.partitions
        codes = (found.error_code, part.error_code)
        return (
            *codes,
            part.leader_id,
            part.replica_nodes,
            sorted(part.isr_nodes),
            part.offline_replicas,
        )

    return asked


def described(topic: str) -> Callable[[Cluster], object]:
    """The same by DescribeTopicPartitions, with the eligible leader replicas and the last known leader (KIP-966)."""

    def asked(cluster: Cluster) -> object:
        wanted = [DescribeTopicPartitionsRequest.TopicRequest(name=cluster.name(topic))]
        (found,) = cluster.ask(DescribeTopicPartitionsRequest(topics=wanted), 0).topics
        (part,) = found.partitions
        codes = (found.error_code, part.error_code)
        return (
            *codes,
            part.leader_id,
            part.replica_nodes,
            sorted(part.isr_nodes),
            part.offline_replicas,
            part.eligible_leader_replicas,
            part.last_known_elr,
        )

    return asked


def brokers(cluster: Cluster) -> object:
    return sorted(node.node_id for node in cluster.ask(MetadataRequest(topics=[]), 12).brokers)


def offset(
    topic: str, timestamp: int = LATEST, node: int = LEADER, committed: bool = False
) -> Callable[[Cluster], object]:
    def asked(cluster: Cluster) -> object:
        request = ListOffsetsRequest
        part = request.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topics = [request.ListOffsetsTopic(name=cluster.name(topic), partitions=[part])]
        wanted = request(replica_id=-1, isolation_level=int(committed), topics=topics)
        (result,) = cluster.ask(wanted, 7, node).topics[0].partitions
        return result.error_code, result.offset

    return asked


def fetch(topic: str, at: int, node: int = LEADER) -> Callable[[Cluster], object]:
    """(code, high watermark, whether there are records)"""

    def asked(cluster: Cluster) -> object:
        part = FetchRequest.FetchPartition(partition=0, fetch_offset=at, partition_max_bytes=1 << 20)
        topics = [FetchRequest.FetchTopic(topic=cluster.name(topic), partitions=[part])]
        request = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=topics)
        (result,) = cluster.ask(request, 12, node).responses[0].partitions
        return result.error_code, result.high_watermark, bool(result.records)

    return asked


def elect(kind: int, topic: str) -> Callable[[Cluster], object]:
    def asked(cluster: Cluster) -> object:
        wanted = [ElectLeadersRequest.TopicPartitions(topic=cluster.name(topic), partitions=[0])]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=30_000)
        answer = cluster.ask(request, 2)
        assert answer.error_code == 0
        return answer.replica_election_results[0].partition_result[0].error_code

    return asked


def delete_records(topic: str, before: int) -> Callable[[Cluster], object]:
    def asked(cluster: Cluster) -> object:
        request = DeleteRecordsRequest
        part = request.DeleteRecordsPartition(partition_index=0, offset=before)
        topics = [request.DeleteRecordsTopic(name=cluster.name(topic), partitions=[part])]
        (result,) = cluster.ask(request(topics=topics, timeout_ms=30_000), 2).topics[0].partitions
        return result.error_code, result.low_watermark

    return asked


@dataclass(frozen=True)
class Step:
    name: str
    ask: Callable[[Cluster], object]
    answer: object


WHOLE = [
    Step("all brokers are there", brokers, [1, 2, 3]),
    *(
        Step(f"two records in {topic}", produce(topic, ALL, node), (0, 0))
        for topic, node in [("strict", MISSING), ("lenient", LEADER), ("single", MISSING)]
    ),
]
MISSED = [
    Step("the brokers that are left", brokers, [1, 2]),
    Step("metadata of strict", metadata("strict"), (0, 0, 1, [3, 1, 2], [1, 2], [3])),
    Step("metadata of lenient", metadata("lenient"), (0, 0, 1, [1, 2, 3], [1, 2], [3])),
    Step("metadata of single", metadata("single"), (0, 5, -1, [3], [], [3])),
    Step("description of strict", described("strict"), (0, 0, 1, [3, 1, 2], [1, 2], [3], [3], [])),
    Step("description of lenient", described("lenient"), (0, 0, 1, [1, 2, 3], [1, 2], [3], [], [])),
    Step("description of single", described("single"), (0, 0, -1, [3], [], [3], [3], [3])),
    Step("acks=all to strict", produce("strict", ALL), (19, -1)),
    Step("acks=1 to strict", produce("strict", ONE), (0, 2)),
    Step("acks=all to strict again", produce("strict", ALL), (19, -1)),
    Step("acks=all to lenient", produce("lenient", ALL), (0, 2)),
    Step("acks=1 to lenient", produce("lenient", ONE), (0, 4)),
    Step("acks=all to a follower", produce("strict", ALL, FOLLOWER), (6, -1)),
    Step("acks=1 to a follower", produce("strict", ONE, FOLLOWER), (6, -1)),
    Step("acks=all to single", produce("single", ALL), (6, -1)),
    Step("latest offset of strict", offset("strict"), (0, 2)),
    Step("latest stable offset of strict", offset("strict", committed=True), (0, 2)),
    Step("latest offset of strict at a follower", offset("strict", node=FOLLOWER), (6, -1)),
    Step("latest offset of single", offset("single"), (6, -1)),
    Step("fetch below the high watermark", fetch("strict", 0), (0, 2, True)),
    Step("fetch at the high watermark", fetch("strict", 2), (0, 2, False)),
    Step("fetch between high watermark and end", fetch("strict", 3), (0, 2, False)),
    Step("fetch at the end", fetch("strict", 4), (0, 2, False)),
    Step("fetch behind the end", fetch("strict", 5), (1, -1, False)),
    Step("fetch of single", fetch("single", 0), (6, -1, False)),
    Step("preferred leader that is missing", elect(PREFERRED, "strict"), 80),
    Step("preferred leader that leads", elect(PREFERRED, "lenient"), 84),
    Step("preferred leader of single", elect(PREFERRED, "single"), 80),
    Step("unclean election with a leader", elect(UNCLEAN, "lenient"), 84),
    Step("unclean election with no replica", elect(UNCLEAN, "single"), 83),
    Step("election in an unknown topic", elect(PREFERRED, "unknown"), 3),
    Step("records of strict are deleted", delete_records("strict", -1), (0, 2)),
    Step("records above the high watermark are not", delete_records("strict", 3), (1, -1)),
    Step("a new topic with as many replicas as nodes", create_spread("spread", 3), 0),
]
BACK = [
    Step("all brokers are back", brokers, [1, 2, 3]),
    Step("metadata of strict in sync", metadata("strict"), (0, 0, 1, [3, 1, 2], [1, 2, 3], [])),
    Step("metadata of single with its leader", metadata("single"), (0, 0, 3, [3], [3], [])),
    Step("description of strict in sync", described("strict"), (0, 0, 1, [3, 1, 2], [1, 2, 3], [], [], [])),
    Step("description of single with its leader", described("single"), (0, 0, 3, [3], [3], [], [], [])),
    Step("latest offset of strict is its end", offset("strict"), (0, 4)),
    Step("acks=all to strict in sync", produce("strict", ALL), (0, 4)),
    Step("preferred leader that is back", elect(PREFERRED, "strict"), 0),
    Step("preferred leader that leads again", elect(PREFERRED, "strict"), 84),
    Step("preferred leader of single", elect(PREFERRED, "single"), 84),
]


def differing(cluster: Cluster, steps: list[Step]) -> list[str]:
    """What was answered otherwise than in the table."""
    found = [(step, step.ask(cluster)) for step in steps]
    return [f"{step.name}: {answer}, not {step.answer}" for step, answer in found if answer != step.answer]


def is_led(cluster: Cluster, topic: str, node: int) -> bool:
    """Whether a node knows a topic and its leader."""
    wanted = [MetadataRequest.MetadataRequestTopic(name=cluster.name(topic))]
    (found,) = cluster.ask(MetadataRequest(topics=wanted), 12, node).topics
    return found.error_code == 0 and all(part.leader_id > 0 for part in found.partitions)


def sees_two_records(cluster: Cluster, node: int) -> bool:
    return fetch("strict", 0, node)(cluster) == (0, 2, True)


def wait_for_end(cluster: Cluster, topic: str, end: int, node: int = LEADER) -> None:
    """Until a leader serves, with what is committed: it is named a moment before it is ready."""
    latest = offset(topic, node=node)
    eventually(lambda: latest(cluster) == (0, end), f"node {node} to serve {topic} up to {end}")


@pytest.fixture
def cluster(broker3: Broker) -> Iterator[Cluster]:
    """Leaves every node running, whatever was found."""
    cluster = Cluster(broker3)
    for topic, (replicas, config) in TOPICS.items():
        assert create(topic, replicas, config)(cluster) == 0
    for topic, (replicas, _) in TOPICS.items():
        for node in broker3.node_ids:
            eventually(partial(is_led, cluster, topic, node), f"node {node} to know {topic}")
        wait_for_end(cluster, topic, 0, node=replicas[0])
    yield cluster
    if MISSING not in confluent.brokers(broker3.address(LEADER)):
        broker3.start_node(MISSING)


def test_both_brokers_answer_alike_while_a_node_is_missing_and_when_it_is_back(cluster: Cluster) -> None:
    assert differing(cluster, WHOLE) == []
    for node in (LEADER, FOLLOWER):
        # Until it is told so by the leader that dies, a follower does not know what is committed.
        eventually(partial(sees_two_records, cluster, node), f"node {node} to see two records")
    cluster.broker.kill_node(MISSING)
    cluster.broker.wait_until_fenced(MISSING)
    wait_for_end(cluster, "strict", 2)
    found = differing(cluster, MISSED)
    cluster.broker.start_node(MISSING)
    cluster.broker.wait_until_in_sync(cluster.name("strict"), 1)
    wait_for_end(cluster, "strict", 4)
    assert [*found, *differing(cluster, BACK)] == []
