"""The cluster: a controller and its nodes, started together, and everything that a test does to them.

    async with AsyncCluster(brokers=3, topics={"orders": 6}) as cluster:
        cluster.bootstrap                       # "127.0.0.1:port,..."
        await cluster.move_leader("orders", 0, 2)
        await cluster.stop_node(1)

Nodes are numbered from 1. All of them, and the controller, run on the loop that the cluster is started on; `Cluster`
(blocking.py) is the same with a loop and a thread of its own. Topics get min(3, brokers) replicas unless something
else is said, so that every partition survives the loss of a node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, Self

from ottla.broker.cluster import seeding
from ottla.broker.cluster.interconnect import Interconnect
from ottla.broker.cluster.node import Node, NodeFailedError, NodeOptions
from ottla.broker.cluster.options import (
    TopicSpec,
    check,
    check_cluster,
    check_port,
    check_rack,
    creatable,
    missing_topics,
    topic_specs,
    warn_of_absent_nodes,
)
from ottla.broker.cluster.releases import max_versions_of
from ottla.broker.cluster.seeding import Seed
from ottla.broker.cluster.volumes import DataDir, Volumes, data_dirs
from ottla.broker.configs import BrokerConfigs
from ottla.broker.controller.configs import ControllerRules
from ottla.broker.controller.node import ControllerNode
from ottla.broker.controller.state import ControllerState
from ottla.broker.metadata.features import feature_ranges, supported
from ottla.broker.metadata.image import PartitionImage
from ottla.broker.metadata.records import NO_LEADER
from ottla.broker.replication.partition import Partition
from ottla.broker.server.background import all_of
from ottla.broker.server.faults import Faults
from ottla.broker.server.telemetry import ClusterTelemetry
from ottla.errors import BrokerError, raise_for_code
from ottla.runtime import MovableClock, Runtime, SystemRuntime
from ottla.wire import Uuid
from ottla.wire.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ottla.wire.records import Record

_log = logging.getLogger("ottla.broker.cluster.cluster")

HOST: Final = "127.0.0.1"
_CONTROLLER_HOST: Final = "controller"
_POLL: Final = 0.005


class AsyncCluster:
    """A Kafka cluster in this process."""

    def __init__(
        self,
        brokers: int = 1,
        *,
        topics: Mapping[str, int | TopicSpec] | Sequence[str] = (),
        config: Mapping[str, object] | None = None,
        racks: Sequence[str | None] = (),
        ports: Sequence[int] = (),
        host: str = HOST,
        max_versions: Mapping[str, int] | str | None = None,
        data_dir: DataDir | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        """Nothing starts before `start`, or `async with`.

        `topics` are names, with one partition each, or names with a number of partitions or a `TopicSpec`. `config`
        are broker configs by Kafka's names, checked at once. `racks` has the rack of each broker. `host` is where
        they listen, and what clients connect to. `ports` are fixed ports, one per broker; free ones are
        chosen without. `max_versions` plays an older Kafka: a release ("2.8") or a version per API
        ({"Fetch": 11}). `data_dir` keeps everything in a directory, for the next cluster that is given it; several
        are one log directory each for every broker. `runtime` is for simulations; every node is a machine of its
        own there.
        """
        self._config = check_cluster(brokers, racks, ports, host, config)
        self._runtime = runtime or SystemRuntime(MovableClock())
        self._host = None if runtime else host
        if not isinstance(self._runtime.clock, MovableClock):
            raise TypeError("the clock of a cluster must be a MovableClock, which a test can advance")
        self.clock = self._runtime.clock
        self._topics = topic_specs(topics)
        self._max_versions = max_versions_of(max_versions)
        for api, version in self._max_versions.items():
            check(f"max_versions[{api!r}]", version, int, "a version")
        self._options = {
            number + 1: NodeOptions(
                id=number + 1,
                host=self._host_of(number + 1),
                port=ports[number] if ports else 0,
                rack=racks[number] if racks else None,
                config=self._config,
                max_versions=self._max_versions,
            )
            for number in range(brokers)
        }
        self._configs = BrokerConfigs(self._config, node_id=0)
        self.faults = Faults()
        self.telemetry = ClusterTelemetry()
        self.nodes: dict[int, Node] = {}
        """The nodes that run, by id."""
        self._stopping: dict[int, Node] = {}
        self._failed: dict[int, Node] = {}
        self._closing: asyncio.Task[None] | None = None
        self.volumes = Volumes(data_dirs(data_dir))
        """Where everything is kept; tests and simulations give it disks that fail, before `start`."""
        self._interconnect = Interconnect()
        self._controller_port = 0
        self._controller_starts = False
        self.cluster_id = str(Uuid(self._runtime.random.randbytes(16)))
        """With a `data_dir` that has been used before it is another one after `start`."""
        self._controller: ControllerNode | None = None

    # Life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Returns when every node serves and every topic has its leaders."""
        if self._controller is not None:
            raise RuntimeError("the cluster has been started already; for another one make a new Cluster")
        try:
            self.cluster_id = self.volumes.claim_cluster(self.cluster_id, self._runtime.random)
            await self._start_controller(nodes_are_gone=True)
            for options in self._options.values():
                self._make(options)
            await all_of([node.start() for node in self.nodes.values()])
            warn_of_absent_nodes(len(self._options), self.controller.state.image)
            missing = missing_topics(self._topics, self.controller.state.image)
            if missing:
                await self.create_topics(missing)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stops everything, in memory at once; with a `data_dir` its nodes stop cleanly, as Kafka's do.

        A second call waits for the first.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        nodes = [*self.nodes.values(), *self._stopping.values(), *self._failed.values()]
        self.nodes = {}
        try:
            await all_of([node.stop(clean=not self.volumes.in_memory) for node in nodes])
        finally:
            try:
                if self._controller is not None:
                    await self._controller.stop()
            finally:
                self.volumes.close()

    @property
    def bootstrap(self) -> str:
        """The addresses of the nodes that run, for `bootstrap.servers`."""
        self._check_open()  # a client that gets no address waits for one without a word
        return ",".join(f"{_in_address(node.host)}:{node.port}" for node in self.nodes.values())

    @property
    def controller(self) -> ControllerNode:
        controller = self._check_open()
        if controller.failure is not None:
            raise RuntimeError(
                f"the controller has stopped: {controller.failure}; start_controller() starts it again"
            )
        if controller.is_stopped or self._controller_starts:
            raise RuntimeError("the controller is stopped: start_controller() starts it again")
        return controller

    def _check_open(self) -> ControllerNode:
        """The controller, whether or not it runs."""
        if self._controller is None:
            raise RuntimeError(
                "the cluster has not been started: use it in a with statement, or call start()"
            )
        if self._closing is not None:
            raise RuntimeError("the cluster is closed")
        return self._controller

    # The controller

    def _make_controller(self) -> ControllerNode:
        features = feature_ranges(supported(self._max_versions))
        state = ControllerState(
            self.cluster_id,
            ControllerRules(self._configs),
            self._runtime.random,
            supported_features=features,
        )
        runtime = self._runtime.at(_CONTROLLER_HOST)
        return ControllerNode(runtime, self.volumes.controller, state, self._configs)

    async def _start_controller(self, *, nodes_are_gone: bool = False) -> None:
        controller = self._controller = self._make_controller()
        try:
            await controller.start(
                self._host or _CONTROLLER_HOST, self._controller_port, nodes_are_gone=nodes_are_gone
            )
        except BaseException:
            await controller.stop(clean=False)
            raise
        # Nodes look for it where it was.
        self._controller_port = controller.port

    async def stop_controller(self, *, clean: bool = True) -> None:
        """Stops the controller; one that is not stopped cleanly is killed. Nodes serve on with what they know.

        What needs the controller (a new topic, a new leader) waits until `start_controller`, as long as its request
        may. No session ends meanwhile.
        """
        await self.controller.stop(clean=clean)

    async def start_controller(self) -> None:
        """Starts the controller again, with what its metadata log has and in the next epoch."""
        old = self._check_open()
        if not old.is_stopped or self._controller_starts:
            raise ValueError("the controller runs already, or is being started")
        self._controller_starts = True
        try:
            await old.stop()
            self._check_open()
            await self._start_controller()
        finally:
            self._controller_starts = False

    # Nodes

    def node(self, node_id: int) -> Node:
        """A node that runs; NodeFailedError says why it does not, where it has stopped by itself."""
        if node_id in self._failed:
            self._failed[node_id].check_alive()
        if node_id not in self.nodes:
            known = "is stopped" if node_id in self._options else "does not exist"
            raise ValueError(
                f"node {node_id!r} {known}; running: {', '.join(map(str, self.nodes)) or 'none'}"
            )
        return self.nodes[node_id]

    @property
    def failures(self) -> dict[int, str]:
        """Why nodes have stopped by themselves, by id, until they are started again.

        A node that cannot apply the metadata log, or do something else that it has to, closes its connections and
        sends no more heartbeats; the controller fences it when broker.session.timeout.ms have passed.
        """
        return {node_id: node.failure or "" for node_id, node in self._failed.items()}

    async def stop_node(self, node_id: int, *, clean: bool = True) -> None:
        """Stops a node. A clean stop hands its leaderships over; after any other one the controller notices only
        when broker.session.timeout.ms have passed without a heartbeat, as in Kafka (`clock.advance` helps)."""
        node = self._stopping[node_id] = self.node(node_id)
        del self.nodes[node_id]
        try:
            await node.stop(clean=clean)
        finally:
            del self._stopping[node_id]

    async def fence_node(self, node_id: int) -> None:
        """The controller gives a node up without waiting for its session to end; one that lives comes back."""
        if node_id not in self._options:
            raise ValueError(f"node {node_id} does not exist")
        records = self.controller.state.fence_broker(node_id)
        await self.controller.known_to_nodes(self.controller.commit(records))

    async def start_node(self, node_id: int) -> None:
        """Starts a node that was stopped, or has stopped by itself, on the port that it had."""
        if node_id in self.nodes or node_id not in self._options:
            why = "runs already" if node_id in self.nodes else "does not exist: add_node makes new ones"
            raise ValueError(f"node {node_id!r} {why}")
        if node_id in self._stopping:
            raise ValueError(f"node {node_id} is being stopped")
        node = self._make(self._options[node_id])
        try:
            await self._forget_failed(node_id)
            await node.start()
        except BaseException:
            if self.nodes.get(node_id) is node:
                del self.nodes[node_id]
            await node.stop(clean=False)
            raise

    def pause_node(self, node_id: int) -> None:
        """The node sends no response and no heartbeat until `resume_node`, like a stopped process."""
        self.node(node_id).pause()

    def resume_node(self, node_id: int) -> None:
        self.node(node_id).resume()

    async def add_node(self, *, rack: str | None = None, port: int = 0) -> int:
        """Starts one more node; its id. It leads nothing until topics are created or moved."""
        check_rack(rack)
        check_port(port)
        node_id = max(self._options, default=0) + 1
        self._options[node_id] = NodeOptions(
            node_id, self._host_of(node_id), port, rack, self._config, self._max_versions
        )
        await self.start_node(node_id)
        return node_id

    async def remove_node(self, node_id: int) -> None:
        """Stops a node for good and takes it out of the cluster's registrations."""
        if node_id in self.nodes:
            await self.stop_node(node_id)
        await self._forget_failed(node_id)
        if node_id not in self._options:
            raise ValueError(f"node {node_id} does not exist")
        del self._options[node_id]
        self.volumes.forget(node_id)
        decision = self.controller.state.unregister_broker(UnregisterBrokerRequest(broker_id=node_id))
        response: UnregisterBrokerResponse = await self.controller.carry_out(decision)
        raise_for_code(response.error_code, response.error_message, broker=node_id)

    def cut_controller(self, node_id: int) -> None:
        """Cuts the link between a node and the controller, until `heal_controller`."""
        self.node(node_id).link.cut()

    def heal_controller(self, node_id: int) -> None:
        self.node(node_id).link.heal()

    def cut_link(self, first: int, second: int, *, one_way: bool = False) -> None:
        """Cuts the link between two nodes, until `heal_link`: neither can follow the other, and neither learns why.

        With `one_way` only what the first sends is held back. Clients and the controller reach both.
        """
        for sender, receiver in self._directions(first, second, one_way):
            self._interconnect.cut(sender, receiver)

    def heal_link(self, first: int, second: int) -> None:
        """Mends the link in both directions; what was held back arrives."""
        for sender, receiver in self._directions(first, second, one_way=False):
            self._interconnect.heal(sender, receiver)

    def _directions(self, first: int, second: int, one_way: bool) -> list[tuple[int, int]]:
        for node_id in (first, second):
            if node_id not in self._options:
                raise ValueError(f"node {node_id!r} does not exist")
        if first == second:
            raise ValueError(f"node {first} has no link to itself")
        return [(first, second)] if one_way else [(first, second), (second, first)]

    # Topics

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replicas: int = -1,
        config: Mapping[str, object] | None = None,
    ) -> None:
        await self.create_topics({name: TopicSpec(partitions, replicas, config or {})})

    async def create_topics(self, topics: Mapping[str, int | TopicSpec]) -> None:
        """Creates topics; raises what the controller says where it refuses one."""
        requested = creatable(topic_specs(topics))
        self.controller  # noqa: B018  says why it cannot decide anything any more
        node = self._any_node()
        try:
            response = await node.link.create_topics(requested)
        except BrokerError:
            node.check_alive()
            raise
        for topic in response.topics:
            raise_for_code(topic.error_code, topic.error_message, topic=topic.name)

    async def delete_topic(self, name: str) -> None:
        state = [DeleteTopicsRequest.DeleteTopicState(name=name)]
        decision = self.controller.state.delete_topics(
            DeleteTopicsRequest(topics=state, timeout_ms=30_000), 6
        )
        response: DeleteTopicsResponse = await self.controller.carry_out(decision)
        (result,) = response.responses
        raise_for_code(result.error_code, result.error_message, topic=name)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of the leader as the controller knows it, -1 while there is none."""
        return self._known(topic, partition).leader

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """The nodes whose replicas are in sync, as the controller knows them."""
        return list(self._known(topic, partition).isr)

    def _known(self, topic: str, partition: int) -> PartitionImage:
        image = self.controller.state.image.partition(topic, partition)
        if image is None:
            raise ValueError(f"there is no partition {partition!r} of a topic {topic!r}")
        return image

    async def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Makes another replica the leader; returns when every node that is connected knows."""
        records = self.controller.state.move_leader(topic, partition, node_id)
        await self.controller.known_to_nodes(self.controller.commit(records))

    def partition(self, topic: str, partition: int = 0) -> Partition:
        """The leader's replica."""
        return self._leader(topic, partition).replicas.led(topic, partition)

    def _leader(self, topic: str, partition: int) -> Node:
        leader = self.leader(topic, partition)
        if leader == NO_LEADER:
            raise RuntimeError(f"partition {partition} of {topic!r} has no leader")
        return self.node(leader)

    # Records

    def seed(self, topic: str, records: Iterable[Seed], partition: int = 0) -> int:
        """Appends records to a partition, without a client; the offset of the first.

        A record is a value, or (key, value), or (key, value, headers). A topic that does not exist is created, with
        the partitions that it takes, and num.partitions at least; nodes learn of it a moment later.
        """
        check("topic", topic, str, "a name")
        check("partition", partition, int, "a number")
        if partition < 0:
            raise ValueError(f"partition={partition}: partitions are numbered from 0")
        given = [seeding.fields_of(record) for record in records]
        if topic not in self.controller.state.image.topics:
            self._create_for(topic, partition)
        leader = self._leader(topic, partition)
        with self._replicas(topic, partition) as replicas:
            return seeding.append(replicas, leader, given, self.clock)

    def _create_for(self, topic: str, partition: int) -> None:
        self._any_node()  # raises where no node could lead it
        count = max(partition + 1, self._configs.value("num.partitions"))
        requested = CreateTopicsRequest.CreatableTopic(
            name=topic, num_partitions=count, replication_factor=-1
        )
        request = CreateTopicsRequest(topics=[requested])
        decision = self.controller.state.create_topics(request, 7)
        self.controller.commit(decision.records)
        for result in decision.response.topics:
            raise_for_code(result.error_code, result.error_message, topic=result.name)

    def _replicas(self, topic: str, index: int) -> AbstractContextManager[dict[int, Partition]]:
        image = self.controller.state.image
        return seeding.replicas(self.nodes, image, topic, index, self.clock)

    def dump(self, topic: str, partition: int | None = None) -> list[Record]:
        """The records of a partition, or of all partitions one after the other, as far as they are committed."""
        image = self.controller.state.image.topics.get(topic)
        if image is None:
            raise ValueError(f"there is no topic {topic!r}")
        if partition is not None and partition not in image.partitions:
            raise ValueError(f"there is no partition {partition} of a topic {topic!r}")
        indexes = sorted(image.partitions) if partition is None else [partition]
        return [record for index in indexes for record in self._dump(topic, index)]

    def _dump(self, topic: str, partition: int) -> list[Record]:
        open_replica = self._open_replica(topic, partition)
        if open_replica is not None:
            return seeding.dump(open_replica)
        with self._replicas(topic, partition) as replicas:
            replica = replicas.get(self.leader(topic, partition))
            if replica is None:
                raise RuntimeError(
                    f"no node that runs has partition {partition} of {topic!r}{self._and_failures()}"
                )
            return seeding.dump(replica)

    async def wait_for(
        self, condition: Callable[[], bool], what: str = "the condition", within: float = 30.0
    ) -> None:
        """Returns as soon as the condition holds; TimeoutError, which says what was waited for, if it never does."""
        if not within >= 0:
            raise ValueError(f"within={within}: 0 seconds or more are meant")
        base = asyncio.get_running_loop()
        deadline = base.time() + within
        while not condition():
            if base.time() > deadline:
                raise TimeoutError(
                    f"{what} did not come about within {within:g} seconds{self._and_failures()}"
                )
            await asyncio.sleep(_POLL)

    async def wait_until_in_sync(
        self, topic: str | None = None, partition: int | None = None, within: float = 30.0
    ) -> None:
        """Until every replica of a partition, of all partitions of a topic or of all topics is in sync."""
        what = "every replica in sync" if topic is None else f"every replica of {topic} in sync"
        await self.wait_for(lambda: not self.under_replicated(topic, partition), what, within)

    def under_replicated(
        self, topic: str | None = None, partition: int | None = None
    ) -> dict[tuple[str, int], list[int]]:
        """The partitions with replicas that are not in sync, and on which nodes those are."""
        image = self.controller.state.image
        if topic is not None and topic not in image.topics:
            raise ValueError(f"there is no topic {topic!r}")
        return {
            (each.name, index): missing
            for each, index, known in image.all_partitions()
            if topic in (None, each.name) and partition in (None, index)
            if (missing := [replica for replica in known.replicas if replica not in known.isr])
        }

    def offline(self) -> list[tuple[str, int]]:
        """The partitions without a leader."""
        every = self.controller.state.image.all_partitions()
        return [(topic.name, index) for topic, index, image in every if not image.has_leader]

    async def wait_for_records(self, topic: str, count: int, within: float = 30.0) -> list[Record]:
        """The records of a topic, once there are at least that many. It may be created meanwhile."""

        def have_come() -> bool:
            image = self.controller.state.image.topics.get(topic)
            is_open = image is not None and all(self._open_replica(topic, each) for each in image.partitions)
            return is_open and len(self.dump(topic)) >= count

        await self.wait_for(have_come, f"{count} records in {topic}", within)
        return self.dump(topic)

    def _make(self, options: NodeOptions) -> Node:
        self._check_open()
        node = self.nodes[options.id] = Node(
            options,
            cluster_id=self.cluster_id,
            runtime=self._runtime.at(options.host),
            directories=self.volumes.directories(options.id, self.cluster_id, self._runtime.random),
            interconnect=self._interconnect,
            faults=self.faults,
            telemetry=self.telemetry,
            controller=(self._host or _CONTROLLER_HOST, self._controller_port),
            on_listening=self._remember_port,
            on_failure=self._note_failure,
        )
        return node

    def _note_failure(self, node: Node) -> None:
        if self.nodes.get(node.id) is node:
            del self.nodes[node.id]
            self._failed[node.id] = node
            if self._controller is not None:
                self._controller.forget(node.id)

    async def _forget_failed(self, node_id: int) -> None:
        """When it has come to its end: its port and its logs are free then."""
        if node_id in self._failed:
            await self._failed[node_id].stop(clean=False)
            del self._failed[node_id]

    def _and_failures(self) -> str:
        """What an error has to add where nodes are missing."""
        return "".join(f"; {NodeFailedError(node_id, why)}" for node_id, why in self.failures.items())

    def _remember_port(self, node: Node) -> None:
        """A node that comes back is found where it was."""
        options = self._options[node.id]
        self._options[node.id] = NodeOptions(
            node.id, options.host, node.port, options.rack, options.config, options.max_versions
        )

    def _open_replica(self, topic: str, partition: int) -> Partition | None:
        """The leader's replica, whether or not its node knows yet that it leads; else any other that is served."""
        leader = self.nodes.get(self.leader(topic, partition))
        nodes = self.nodes.values() if leader is None else [leader, *self.nodes.values()]
        replicas = (node.replicas.partitions.get((topic, partition)) for node in nodes)
        return next((replica for replica in replicas if replica is not None), None)

    def _host_of(self, node_id: int) -> str:
        return self._host or f"node-{node_id}"

    def _any_node(self) -> Node:
        for node in self.nodes.values():
            return node
        raise RuntimeError(f"no node runs{self._and_failures()}")


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host
