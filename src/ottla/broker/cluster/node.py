"""A broker: the life of a node, and how its parts are put together.

A node starts, stops, fails, pauses; what it serves is in its parts: the replicas (replica_manager.py), the configs
(configs/node.py), the image of the cluster, which the link to the controller (controller_channel.py) replays from the
metadata log, the server and its dispatcher. Each part is made here, from what it needs, and none of them knows the
node; handlers get the parts as a `NodeContext`. A change of the image becomes a change of the node in `_apply` alone.

A node that cannot go on stops (`fail`): it sends no further response, its heartbeats end, so the controller fences it
and other replicas take over. A change of the image that was applied by half is never served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.broker.cluster.interconnect import Interconnect
from ottla.broker.configs.node import NodeConfigs
from ottla.broker.coordinator.groups.manager import GroupShard
from ottla.broker.coordinator.internal_topics import OFFSETS_TOPIC
from ottla.broker.coordinator.partition_adds import VERIFIED_SINCE, PartitionAdds
from ottla.broker.coordinator.producer_ids import ProducerIdBlock
from ottla.broker.coordinator.runtime import CoordinatorRuntime
from ottla.broker.coordinator.transactions.coordinator import TransactionCoordinator
from ottla.broker.handlers import BROKER_APIS
from ottla.broker.handlers.context import NodeContext
from ottla.broker.log.config import NEVER
from ottla.broker.log.log_dir import LogDirectories
from ottla.broker.metadata.controller_channel import BrokerIdentity, ControllerChannel, Listener
from ottla.broker.metadata.image import Delta, MetadataImage
from ottla.broker.replication.log_cleaner import LogCleaner
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.server.background import BackgroundTasks, reason, timed
from ottla.broker.server.dispatch import Dispatcher
from ottla.broker.server.faults import Faults
from ottla.broker.server.fetch_sessions import FetchSessions
from ottla.broker.server.peers import PeerRequests
from ottla.broker.server.registry import Handler
from ottla.broker.server.server import Limits, Server
from ottla.broker.server.telemetry import ClusterTelemetry
from ottla.runtime import Runtime, Timer
from ottla.wire.messages import AddPartitionsToTxnRequest

_log = logging.getLogger("ottla.broker.cluster.node")

_LISTENER: Final = "PLAINTEXT"


@dataclass(frozen=True)
class NodeOptions:
    """What sets one node apart from the others of its cluster."""

    id: int
    host: str = "127.0.0.1"
    port: int = 0
    rack: str | None = None
    config: Mapping[str, object] | None = None
    max_versions: Mapping[str, int] | None = None


class NodeFailedError(RuntimeError):
    """A node has stopped by itself; says why, and what starts it again."""

    def __init__(self, node_id: int, failure: str) -> None:
        super().__init__(f"node {node_id} has stopped: {failure}; start_node({node_id}) starts it again")


class Node:
    """A broker of the cluster. `start` returns when the controller counts it as alive."""

    def __init__(
        self,
        options: NodeOptions,
        *,
        cluster_id: str,
        runtime: Runtime,
        directories: LogDirectories,
        interconnect: Interconnect,
        faults: Faults,
        telemetry: ClusterTelemetry,
        controller: tuple[str, int],
        on_listening: Callable[[Node], None],
        on_failure: Callable[[Node], None],
    ) -> None:
        self.id = options.id
        self.host, self.port, self.rack = options.host, options.port, options.rack
        self.runtime = runtime
        self.image = MetadataImage()
        self.configs = NodeConfigs(options.config or {}, options.id, self.image)
        self.link = ControllerChannel(
            controller,
            BrokerIdentity(
                self.id,
                cluster_id,
                self.rack,
                directories.previous_epoch,
                tuple(directory.id for directory in directories.online),
            ),
            runtime,
            self.image,
            self.configs,
            on_change=self._apply,
            fail=self.fail,
        )
        self._interconnect = interconnect
        links = interconnect.links_of(self.id, runtime.clock)
        self.replicas = ReplicaManager(
            self.id,
            self.image,
            self.configs,
            directories,
            runtime,
            controller=self.link,
            link=links,
            fail=self.fail,
        )
        self.cleaner = LogCleaner(
            self.id,
            self.replicas.partitions,
            self.configs,
            directories,
            runtime,
            checkpoint=self.replicas.checkpoint_cleaner_offsets,
            fail=self.fail,
        )
        self.groups = CoordinatorRuntime(
            OFFSETS_TOPIC,
            GroupShard,
            node_id=self.id,
            image=self.image,
            configs=self.configs,
            replicas=self.replicas,
            runtime=runtime,
        )
        self.background = BackgroundTasks(f"node {self.id}")
        producer_ids = ProducerIdBlock(self.link)
        self.transactions = TransactionCoordinator(
            node_id=self.id,
            image=self.image,
            configs=self.configs,
            replicas=self.replicas,
            runtime=runtime,
            link=links,
            producer_ids=producer_ids,
            background=self.background,
        )
        max_versions = options.max_versions or {}
        apis = BROKER_APIS.limited(max_versions)
        self.context = NodeContext(
            id=self.id,
            cluster_id=cluster_id,
            rack=self.rack,
            runtime=runtime,
            image=self.image,
            configs=self.configs,
            replicas=self.replicas,
            groups=self.groups,
            partition_adds=PartitionAdds(
                self.image, self.configs, self.replicas, links, runtime.clock, can_ask=_can_verify(apis)
            ),
            transactions=self.transactions,
            controller=self.link,
            producer_ids=producer_ids,
            fetch_sessions=FetchSessions(
                runtime.random, self.configs.value("max.incremental.fetch.session.cache.slots")
            ),
            telemetry=telemetry,
            apis=apis,
            max_versions=max_versions,
            background=self.background,
        )
        self.dispatcher = Dispatcher(
            self.context, apis, faults, self.configs.value("queued.max.requests"), listener=_LISTENER
        )
        idle = self.configs.value("connections.max.idle.ms") / 1000
        limits = Limits(
            max_request_bytes=self.configs.value("socket.request.max.bytes"),
            max_connections=self.configs.value("max.connections"),
            max_idle_seconds=NEVER if idle < 0 else idle,
        )
        self.server = Server(runtime, self.dispatcher, limits, f"node {self.id}", self.fail)
        # An older release is played for clients: nodes send each other what they need, whatever they offer.
        self.peers = PeerRequests(self.context, BROKER_APIS.limited({}))
        self._timers: dict[str, Timer] = {}
        self._ending: asyncio.Task[None] | None = None
        self._is_ready = self._is_paused = False
        self._on_listening = on_listening
        self._on_failure = on_failure
        self.failure: str | None = None
        """Why it has stopped by itself."""

    # Life

    async def start(self) -> None:
        """Listens, registers, and catches up with the metadata log.

        Requests wait until then, as in Kafka: a node that knows nothing would deny every topic.
        """
        self.dispatcher.pause()
        self._interconnect.join(self.id, self.runtime, self.host, self.peers)
        self.port = await self.server.listen(self.host, self.port)
        self._on_listening(self)
        try:
            await self.link.start(Listener(name=_LISTENER, host=self.host, port=self.port))
        except ConnectionAbortedError:
            self.check_alive()  # why it has stopped, where that was its own failure
            raise
        self.replicas.put_strays_aside()
        self._is_ready = True
        if not self._is_paused:
            self.server.resume()
        self._schedule()
        self.cleaner.start()
        _log.info("node %s serves on %s:%s", self.id, self.host, self.port)

    async def stop(self, *, clean: bool = True) -> None:
        """Ends the node, once; a clean end hands its leaderships over first, unless it is ended meanwhile."""
        try:
            if clean and self._ending is None:
                await self.link.leave()
        finally:
            if self._ending is None:
                self._ending = asyncio.create_task(self._end(clean))
            await asyncio.shield(self._ending)

    def fail(self, what: str, error: Exception) -> None:
        """Stops the node at once, because it cannot do something that it has to."""
        _log.error("node %s stops: %s", self.id, what, exc_info=error)
        if self._ending is None:
            self.failure = reason(what, error)
            # Before anything else runs: not one response, nor a heartbeat, may come from what is only half done.
            self.dispatcher.pause()
            self.peers.pause()
            self.link.shut()
            self._ending = asyncio.create_task(self._end(clean=False))
            self._on_failure(self)

    def check_alive(self) -> None:
        if self.failure is not None:
            raise NodeFailedError(self.id, self.failure)

    async def _end(self, clean: bool) -> None:
        """One that is not clean leaves its files as they are, like a process that is killed."""
        self._interconnect.leave(self.id)
        await self.link.close()
        await self.server.close()
        for timer in self._timers.values():
            timer.cancel()
        await self.peers.close()
        await self.background.close()
        await self.groups.close()
        await self.transactions.close()
        await self.cleaner.close()
        await self.replicas.close(clean=clean)
        _log.info("node %s has stopped", self.id)

    def pause(self) -> None:
        """From here on the node is like a stopped process: its connections stay, no response leaves."""
        self._is_paused = True
        self.dispatcher.pause()
        self.peers.pause()
        self.replicas.pause()
        self.cleaner.pause()
        self.groups.pause()
        self.transactions.pause()
        self.link.pause()

    def resume(self) -> None:
        self._is_paused = False
        self.link.resume()
        self.replicas.resume()
        self.cleaner.resume()
        self.groups.resume()
        self.transactions.resume()
        self.peers.resume()
        if self._is_ready:
            self.server.resume()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self.server.connections)

    def _apply(self, delta: Delta) -> None:
        """The image has changed: configs, replicas and coordinators follow it."""
        self.replicas.reconfigure(self.configs.apply(delta))
        self.replicas.apply(delta, self.context.now_ms())
        self.groups.apply(delta)
        self.transactions.apply(delta)

    # What time does

    def _schedule(self) -> None:
        value = self.configs.value
        self._every(
            "it cannot delete what its topics no longer retain",
            lambda: value("log.retention.check.interval.ms") / 1000,
            lambda: self.replicas.enforce_retention(self.context.now_ms()),
        )
        self._every(
            "it cannot let idle producers go",
            lambda: value("producer.id.expiration.check.interval.ms") / 1000,
            lambda: self.replicas.expire_producers(self.context.now_ms()),
        )
        self._every(
            "it cannot see which replicas lag",
            lambda: value("replica.lag.time.max.ms") / 2000,
            self.replicas.shrink_isrs,
        )
        for config, what, write in (
            (
                "replica.high.watermark.checkpoint.interval.ms",
                "its high watermarks",
                self.replicas.checkpoint_high_watermarks,
            ),
            (
                "log.flush.offset.checkpoint.interval.ms",
                "its recovery points",
                self.replicas.checkpoint_recovery_points,
            ),
            (
                "log.flush.start.offset.checkpoint.interval.ms",
                "where its logs begin",
                self.replicas.checkpoint_log_starts,
            ),
        ):
            self._checkpoint_every(config, what, write)
        if value("log.flush.scheduler.interval.ms") < NEVER:
            self._every(
                "it cannot flush its logs",
                lambda: value("log.flush.scheduler.interval.ms") / 1000,
                lambda: self.replicas.flush_old(self.context.now_ms()),
            )

    def _checkpoint_every(self, config: str, what: str, write: Callable[[], None]) -> None:
        def checkpoint() -> None:
            try:
                write()
            except OSError as error:
                # The next one may succeed; until then a restart begins with older ones, which costs time only.
                _log.warning("node %s cannot write down %s: %s", self.id, what, error)

        interval = self.configs.value
        # Kafka allows 0, and would write without a pause: once in a millisecond is as often as a clock can tell.
        self._every(f"it cannot write down {what}", lambda: max(interval(config), 1) / 1000, checkpoint)

    def _every(self, failure: str, interval: Callable[[], float], work: Callable[[], None]) -> None:
        """Works again and again; a failure stops the node, which says what it cannot do."""

        def again() -> None:
            if not self._is_paused:
                work()
            self._every(failure, interval, work)

        self._timers[failure] = self.runtime.clock.call_later(interval(), timed(again, failure, self.fail))


def _can_verify(apis: Mapping[int, Handler]) -> bool:
    """Whether the coordinators of this release answer to leaders."""
    handler = apis.get(AddPartitionsToTxnRequest.API_KEY)
    return handler is not None and VERIFIED_SINCE in handler.versions
