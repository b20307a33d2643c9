"""Two kinds of cluster behind one face: the embedded one and Apache Kafka.

A test that takes the `broker` or `broker3` fixture runs on both, and can say nothing that is true of only one.
What clients do has its place elsewhere; here topics are made, leaders moved, nodes stopped and started.
"""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod

from ottla.broker import Cluster
from ottla.wire.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from tests.interop import confluent, nodes
from tests.interop.apache import ApacheKafka
from tests.interop.plain import Connection
from tests.interop.waiting import eventually

_PREFERRED = 0
_ELECTION_NOT_NEEDED = 84


class Broker(ABC):
    """A running cluster."""

    kind: str

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """The addresses of all nodes, for a client's `bootstrap.servers`."""

    @property
    @abstractmethod
    def node_ids(self) -> list[int]:
        """The ids of all nodes, running or not."""

    @abstractmethod
    def stop_node(self, node_id: int) -> None:
        """Shut a node down in order."""

    @abstractmethod
    def start_node(self, node_id: int) -> None:
        """Start a stopped node again, with its data and its address."""

    @abstractmethod
    def kill_node(self, node_id: int) -> None:
        """End a node at once: it hands nothing over and writes nothing. The others notice when its session ends."""

    @abstractmethod
    def pause_node(self, node_id: int) -> None:
        """Hold a node: its connections stay, and nothing comes from it until `resume_node`."""

    @abstractmethod
    def resume_node(self, node_id: int) -> None:
        """Let a node go on."""

    @abstractmethod
    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Make a node that has a replica of the partition its leader."""

    def create_topic(self, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """A new topic with a replica on each node, under a name of its own."""
        return confluent.create_topic(self.bootstrap, partitions, len(self.node_ids), config)

    def leader(self, topic: str, partition: int = 0) -> int:
        return confluent.leader(self.bootstrap, topic, partition)

    @abstractmethod
    def address(self, node_id: int) -> str:
        """Where a node listens, whether or not it does now."""

    def wait_until_fenced(self, node_id: int) -> None:
        """Until each of the other nodes counts a node out."""
        others = [self.address(each) for each in self.node_ids if each != node_id]
        nodes.wait_until_each_says(
            others, lambda node: node_id not in nodes.listed(node), f"node {node_id} to be fenced"
        )

    def wait_until_in_sync(self, topic: str, partitions: int) -> None:
        """Until every node has an in-sync replica of every partition, and each node knows that."""

        def are_in_sync(node: Connection) -> bool:
            found = nodes.partitions_of(node, topic)
            return all(
                partition in found and sorted(found[partition].isr_nodes) == sorted(self.node_ids)
                for partition in range(partitions)
            )

        nodes.wait_until_each_says(
            map(self.address, self.node_ids), are_in_sync, f"every replica of {topic} to be in sync"
        )

    def wait_until_led(self, topic: str, partition: int, node_id: int) -> None:
        """Until each node that is up knows this leader, and it has become one."""

        def knows(node: Connection) -> bool:
            found = nodes.partitions_of(node, topic)
            return partition in found and found[partition].leader_id == node_id

        what = f"node {node_id} to lead partition {partition} of {topic}"
        nodes.wait_until_each_says(map(self.address, self.node_ids), knows, what)
        nodes.wait_until_each_says(
            [self.address(node_id)], lambda node: nodes.leads(node, topic, [partition]), what
        )

    def restart(self, node_id: int, topic: str, partitions: int) -> None:
        """Stop a node and start it again; done when all its replicas of the topic are in sync."""
        self.stop_node(node_id)
        self.start_node(node_id)
        self.wait_until_in_sync(topic, partitions)


class EmbeddedBroker(Broker):
    """The cluster of `ottla.broker`, in a thread of this process."""

    kind = "ottla"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # The cluster itself names those that run.
        self._node_ids = sorted(cluster.nodes)
        self._addresses = dict(zip(cluster.nodes, cluster.bootstrap.split(","), strict=True))

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    @property
    def node_ids(self) -> list[int]:
        return self._node_ids

    def address(self, node_id: int) -> str:
        return self._addresses[node_id]

    def stop_node(self, node_id: int) -> None:
        self._cluster.stop_node(node_id)

    def start_node(self, node_id: int) -> None:
        self._cluster.start_node(node_id)

    def kill_node(self, node_id: int) -> None:
        self._cluster.stop_node(node_id, clean=False)

    def pause_node(self, node_id: int) -> None:
        self._cluster.pause_node(node_id)

    def resume_node(self, node_id: int) -> None:
        self._cluster.resume_node(node_id)

    def wait_until_fenced(self, node_id: int) -> None:
        if node_id not in self._cluster.nodes:
            # What is dead does not come back by itself: the controller need not wait for the end of its session.
            self._cluster.fence_node(node_id)
        super().wait_until_fenced(node_id)

    def cut_off(self, node_id: int) -> None:
        """Cut a node off from the other nodes, not from clients and the controller."""
        for other in self._node_ids:
            if other != node_id:
                self._cluster.cut_link(node_id, other)

    def heal(self, node_id: int) -> None:
        for other in self._node_ids:
            if other != node_id:
                self._cluster.heal_link(node_id, other)

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        self._cluster.move_leader(topic, partition, node_id)
        self.wait_until_led(topic, partition, node_id)


class ApacheBroker(Broker):
    """Apache Kafka, a process for each node."""

    kind = "apache"

    def __init__(self, kafka: ApacheKafka) -> None:
        self._kafka = kafka

    @property
    def bootstrap(self) -> str:
        return self._kafka.bootstrap

    @property
    def node_ids(self) -> list[int]:
        return self._kafka.node_ids

    def address(self, node_id: int) -> str:
        return dict(zip(self.node_ids, self.bootstrap.split(","), strict=True))[node_id]

    def stop_node(self, node_id: int) -> None:
        self._kafka.stop_node(node_id)

    def start_node(self, node_id: int) -> None:
        self._kafka.start_node(node_id)

    def kill_node(self, node_id: int) -> None:
        self._kafka.kill_node(node_id)

    def pause_node(self, node_id: int) -> None:
        os.kill(self._kafka.pid(node_id), signal.SIGSTOP)

    def resume_node(self, node_id: int) -> None:
        os.kill(self._kafka.pid(node_id), signal.SIGCONT)

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        # The first replica is the preferred leader: put it first, then elect it.
        others = [other for other in self.node_ids if other != node_id]
        # The node is up, which others need not be.
        with Connection(self.address(node_id)) as connection:
            _reassign(connection, topic, partition, [node_id, *others])
            # A replica that a busy machine has made fall behind can lead when it is in sync again.
            eventually(
                lambda: _elect_preferred(connection, topic, partition) in (0, _ELECTION_NOT_NEEDED),
                f"node {node_id} to be elected for {topic}",
                within=60,
            )
        self.wait_until_led(topic, partition, node_id)


def _reassign(connection: Connection, topic: str, partition: int, replicas: list[int]) -> None:
    request = AlterPartitionReassignmentsRequest
    wanted = request.ReassignablePartition(partition_index=partition, replicas=replicas)
    topics = [request.ReassignableTopic(name=topic, partitions=[wanted])]
    answer = connection.ask(request(timeout_ms=30_000, topics=topics), 0)
    assert isinstance(answer, AlterPartitionReassignmentsResponse)
    assert answer.error_code == answer.responses[0].partitions[0].error_code == 0, answer


def _elect_preferred(connection: Connection, topic: str, partition: int) -> int:
    """The code of the answer."""
    wanted = [ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[partition])]
    request = ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=wanted, timeout_ms=30_000)
    answer = connection.ask(request, 2)
    assert isinstance(answer, ElectLeadersResponse)
    if answer.error_code != 0:
        return answer.error_code
    (result,) = answer.replica_election_results[0].partition_result
    return result.error_code
