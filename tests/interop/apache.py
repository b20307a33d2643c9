"""A cluster of real Apache Kafka nodes for the interop tests.

    with ApacheKafka(nodes=3, properties={"auto.create.topics.enable": "false"}) as kafka:
        kafka.tool("kafka-topics", "--list").check_returncode()

Everything listens on the loopback interface and lies in one temporary folder. Inside the `with` block every
node serves, unless the test has stopped or killed it; after it, no process is left. One node and three are
made in the same way, as a dynamic quorum (KIP-853), which is what a new 4.x cluster gets.
"""

import base64
import random
import shutil
import socket
import tempfile
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from subprocess import CompletedProcess
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.interop import java, nodes, supervise
from tests.interop.node import HOST, Node
from tests.interop.plain import Connection
from tests.interop.waiting import eventually

_FORMAT_S = 120.0
_START_S = 180.0
_STOP_S = 120.0
# Below every system's range for outgoing connections, so that none of them takes the port of a node that is
# down for a moment.
_PORTS = range(15_000, 30_000)


class ApacheKafka:
    """One or more nodes, each broker and controller, named by their broker id: 1, 2, 3.

    `properties` go into every node's server.properties and win over the harness's own.
    """

    def __init__(self, nodes: int = 1, properties: Mapping[str, str] | None = None) -> None:
        self._count = nodes
        self._properties = properties or {}
        self._nodes: dict[int, Node] = {}

    def __enter__(self) -> "ApacheKafka":
        self._folder = Path(tempfile.mkdtemp(prefix="ottla-kafka-"))
        try:
            self._nodes = self._make_nodes()
            self._format()
            for node in self._nodes.values():
                node.launch()
            self._wait_until_serving()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, for a client's `bootstrap.servers`."""
        return ",".join(node.address for node in self._nodes.values())

    @property
    def node_ids(self) -> list[int]:
        """The ids of all nodes, running or not."""
        return list(self._nodes)

    def pid(self, node_id: int) -> int:
        """The process id of a node's JVM."""
        return self._nodes[node_id].pid

    def log_directory(self, node_id: int) -> Path:
        """Where a node keeps its logs, until the end of the `with` block."""
        return self._nodes[node_id].data

    def stop_node(self, node_id: int) -> None:
        """Shut a node down in order (SIGTERM) and wait for its end."""
        self._nodes[node_id].stop(_STOP_S)

    def kill_node(self, node_id: int) -> None:
        """End a node with SIGKILL. The others notice after broker.session.timeout.ms."""
        self._nodes[node_id].kill()

    def start_node(self, node_id: int) -> None:
        """Start a stopped or killed node again, with its data and ports, and wait until it serves."""
        self._nodes[node_id].launch()
        self._wait_until_serving()

    def tool(
        self, name: str, *arguments: str, text: str = "", within: float = 120.0
    ) -> CompletedProcess[str]:
        """Run a command-line tool of Kafka against this cluster, with `text` as its standard input.

        kafka.tool("kafka-topics", "--create", "--topic", "orders").check_returncode()
        """
        # In front, because a tool with subcommands takes it nowhere else.
        command = java.command(java.TOOLS[name], "--bootstrap-server", self.bootstrap, *arguments)
        return supervise.run(command, text=text, within=within, env=java.environment())

    def _make_nodes(self) -> dict[int, Node]:
        ports = iter(_free_ports(2 * self._count))
        return {
            node_id: Node(node_id, self._folder / f"node-{node_id}", next(ports), next(ports), _random_id())
            for node_id in range(1, self._count + 1)
        }

    def _format(self) -> None:
        nodes = self._nodes.values()
        controllers = ",".join(node.controller_address for node in nodes)
        voters = ",".join(f"{node.node_id}@{node.controller_address}:{node.directory_id}" for node in nodes)
        shared = {**_settings(self._count), "controller.quorum.bootstrap.servers": controllers}
        cluster_id = _random_id()
        for node in nodes:
            node.configure({**shared, **self._properties})
            node.launch_format(cluster_id, voters)
        for node in nodes:
            node.finish_format(_FORMAT_S)

    def _wait_until_serving(self) -> None:
        up = [node for node in self._nodes.values() if node.is_up]
        for node in up:
            _wait_for(node, up)

    def _close(self) -> None:
        # SIGKILL, not an orderly end: the data is thrown away, and three nodes take seconds to part.
        for node in self._nodes.values():
            node.close()
        shutil.rmtree(self._folder)


def _settings(nodes: int) -> dict[str, str]:
    replicas, in_sync = str(nodes), str(min(nodes, 2))
    return {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        # The defaults of 50 partitions each cost seconds when the first group or transaction comes.
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.num.partitions": "5",
        "share.coordinator.state.topic.num.partitions": "5",
        "group.initial.rebalance.delay.ms": "0",
        # How long a killed node counts as alive: 9 s by default. Much less, and a busy machine fences nodes
        # that are only slow.
        "broker.session.timeout.ms": "5000",
        "broker.heartbeat.interval.ms": "500",
        # 128 MB by default, a quarter of the heap.
        "log.cleaner.dedupe.buffer.size": str(2 * 1024 * 1024),
    }


def _wait_for(node: Node, up: list[Node]) -> None:
    """Until the node answers, lists every node that is up, and its controller accepts a topic."""
    admin = AdminClient(
        {
            "bootstrap.servers": node.address,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,  # refused connections are what it is here for
        }
    )

    def serves() -> bool:
        for each in up:
            each.check_alive()
        try:
            # Not by the client, which asks any node that it has heard of.
            with Connection(node.address) as connection:
                listed = nodes.listed(connection)
            topic = NewTopic("probe", num_partitions=1, replication_factor=len(up))
            admin.create_topics([topic], validate_only=True, operation_timeout=5)["probe"].result()
        except (KafkaException, OSError):
            return False
        return {each.node_id for each in up} <= set(listed)

    try:
        eventually(serves, f"node {node.node_id} to serve", within=_START_S)
    except TimeoutError as error:
        raise node.failure(f"does not serve ({error})") from error


def _free_ports(count: int) -> list[int]:
    ports: list[int] = []
    with ExitStack() as held:
        # Not the shared generator: a seeded one would give parallel test processes the same ports.
        for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
            probe = held.enter_context(socket.socket())
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            ports.append(port)
            if len(ports) == count:
                return ports
    raise OSError(f"no {count} free ports between {_PORTS.start} and {_PORTS.stop}")


def _random_id() -> str:
    """A Kafka Uuid: base64 of 16 bytes, without the leading dash that a command line takes for an option."""
    text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return _random_id() if text.startswith("-") else text
