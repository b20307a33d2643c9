"""A broker: its server, its replicas, and what it knows of the cluster.

Handlers get the node and ask it three things: which replica it has (`hosted`, `led`), what the cluster looks like
(`image`), and what is configured. The image is replayed from the controller's log (controller_channel.py), and
`applied` is the one place where a change of it becomes a change of the node.

A node that cannot go on stops (`fail`): it answers nothing more, its heartbeats end, so the controller fences it and
others take over. A change of the image that was applied by half is never served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.broker.background import reason, timed
from ottla.broker.configs import BrokerConfigs, BrokerLoggers, TopicConfigs, log_config
from ottla.broker.coordinator.producer_ids import ProducerIds
from ottla.broker.handlers import BROKER
from ottla.broker.log.config import LogConfig
from ottla.broker.log.volume import Volume
from ottla.broker.metadata.controller_channel import ControllerChannel
from ottla.broker.metadata.image import Delta, MetadataImage, PartitionDelta, PartitionImage
from ottla.broker.replication.partition import Partition
from ottla.broker.server.addressing import addressed
from ottla.broker.server.dispatch import Dispatcher
from ottla.broker.server.faults import Faults, TopicPartition
from ottla.broker.server.fetch_sessions import FetchSessions
from ottla.broker.server.server import Limits, Server
from ottla.broker.telemetry import Telemetry
from ottla.errors import KafkaError, KafkaStorageError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError
from ottla.runtime import Runtime, Timer
from ottla.wire import Message, Uuid
from ottla.wire.messages import FetchRequest
from ottla.wire.resources import ConfigResourceType

_log = logging.getLogger("ottla.broker.cluster.node")

LISTENER: Final = "PLAINTEXT"


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
        volume: Volume,
        faults: Faults,
        telemetry: Telemetry,
        controller: tuple[str, int],
        on_listening: Callable[[Node], None],
        on_failure: Callable[[Node], None],
    ) -> None:
        self.id = options.id
        self.host, self.port, self.rack = options.host, options.port, options.rack
        self.cluster_id = cluster_id
        self.runtime = runtime
        self.config = BrokerConfigs(dict(options.config or {}), node_id=options.id)
        self.loggers = BrokerLoggers()
        self.image = MetadataImage()
        self.partitions: dict[TopicPartition, Partition] = {}
        self.telemetry = telemetry
        self.fetch_sessions = FetchSessions(
            runtime.random, self.config.value("max.incremental.fetch.session.cache.slots")
        )
        self.link = ControllerChannel(self, controller)
        self.producer_ids = ProducerIds(self.link)
        self._volume = volume
        self._topic_configs: dict[str, TopicConfigs] = {}
        self.dispatcher = Dispatcher(
            self, BROKER.limited(options.max_versions or {}), faults, self.config.value("queued.max.requests")
        )
        limits = Limits(
            max_request_bytes=self.config.value("socket.request.max.bytes"),
            max_connections=self.config.value("max.connections"),
            max_idle_seconds=self.config.value("connections.max.idle.ms") / 1000,
        )
        self.server = Server(runtime, self.dispatcher, limits, f"node {self.id}", self.fail)
        self._retention: Timer | None = None
        self._expiry: Timer | None = None
        self._ending: asyncio.Task[None] | None = None
        self._is_ready = self._is_paused = False
        self._on_listening = on_listening
        self._on_failure = on_failure
        self.failure: str | None = None
        """Why it has stopped by itself."""
        self._background: dict[asyncio.Task[None], None] = {}

    # Life

    async def start(self) -> None:
        """Listens, registers, and catches up with the metadata log.

        Requests wait until then, as in Kafka: a node that knows nothing would deny every topic.
        """
        self.dispatcher.pause()
        self.port = await self.server.listen(self.host, self.port)
        self._on_listening(self)
        await self.link.start()
        self._is_ready = True
        if not self._is_paused:
            self.server.resume()
        self._schedule_retention()
        self._schedule_expiry()
        _log.info("node %s serves on %s:%s", self.id, self.host, self.port)

    async def stop(self, *, clean: bool = True) -> None:
        """Ends the node, once; a clean end hands its leaderships over first, unless somebody ends it meanwhile."""
        try:
            if clean and self._ending is None:
                await self.link.leave()
        finally:
            if self._ending is None:
                self._ending = asyncio.create_task(self._end())
            await asyncio.shield(self._ending)

    def fail(self, what: str, error: Exception) -> None:
        """Stops the node at once, because it cannot do something that it has to."""
        _log.error("node %s stops: %s", self.id, what, exc_info=error)
        if self._ending is None:
            self.failure = reason(what, error)
            # Before anything else runs: not one answer, nor a heartbeat, may come from what is only half done.
            self.dispatcher.pause()
            self.link.shut()
            self._ending = asyncio.create_task(self._end())
            self._on_failure(self)

    def check_alive(self) -> None:
        if self.failure is not None:
            raise NodeFailedError(self.id, self.failure)

    async def _end(self) -> None:
        await self.link.close()
        await self.server.close()
        for timer in (self._retention, self._expiry):
            if timer is not None:
                timer.cancel()
        tasks = list(self._background)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for key in list(self.partitions):
            try:
                self._drop(key)
            except OSError:
                _log.exception("node %s cannot close its replica of %s-%s", self.id, *key)
        _log.info("node %s has stopped", self.id)

    def pause(self) -> None:
        """From here on the node is like a stopped process: its connections stay, nothing is answered."""
        self._is_paused = True
        self.dispatcher.pause()
        self.link.pause()

    def resume(self) -> None:
        self._is_paused = False
        self.link.resume()
        if self._is_ready:
            self.server.resume()

    def spawn(self, work: Coroutine[Any, Any, object]) -> None:
        """Lets something go on beside the requests; it ends with the node."""
        task = asyncio.get_running_loop().create_task(self._logged(work))
        self._background[task] = None
        task.add_done_callback(lambda done: self._background.pop(done, None))

    async def _logged(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except KafkaError as error:
            _log.warning("node %s: %s", self.id, error)
        except Exception:  # noqa: BLE001 - like a bug in a handler: it is said, and the node serves on
            _log.exception("node %s: what it did beside its requests has failed", self.id)

    @property
    def connections(self) -> int:
        return self.server.connections

    def now_ms(self) -> int:
        return int(self.runtime.clock.time() * 1000)

    # What handlers ask

    def hosted(self, topic: str, index: int) -> Partition:
        """The replica of a partition on this node."""
        partition = self.partitions.get((topic, index))
        if partition is not None:
            return partition
        if self.image.partition(topic, index) is None:
            raise UnknownTopicOrPartitionError(topic=topic, partition=index, broker=self.id)
        raise NotLeaderOrFollowerError(topic=topic, partition=index, broker=self.id)

    def led(self, topic: str, index: int, epoch: int = -1) -> Partition:
        """The same, if this node leads it, in the epoch that the client believes in."""
        partition = self.hosted(topic, index)
        partition.check_epoch(epoch)
        partition.check_leader()
        return partition

    def topic_name(self, topic_id: Uuid) -> str | None:
        topic = self.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def topic_configs(self, topic: str) -> TopicConfigs:
        """What applies to a topic, wherever it was set."""
        configs = self._topic_configs.get(topic)
        if configs is None:
            overrides = self.image.config_overrides(ConfigResourceType.TOPIC, topic)
            configs = self._topic_configs[topic] = TopicConfigs(overrides, self.config)
        return configs

    def touched(self, request: Message) -> list[TopicPartition]:
        touched = [(topic, index) for topic, index, _ in addressed(request, self.topic_name)]
        if isinstance(request, FetchRequest) and request.session_epoch > 0:
            wanted = self.fetch_sessions.peek(request.session_id)
            touched += [(part.topic, part.partition) for part in wanted if part.topic is not None]
        return touched

    # What the controller says

    def applied(self, delta: Delta) -> None:
        """The image has changed: replicas come, go and change their roles."""
        if delta.configs:
            self._reconfigure(delta)
        for change in delta.partitions.values():
            self._change(change)

    def _change(self, change: PartitionDelta) -> None:
        key = (change.topic, change.index)
        if change.new is None or self.id not in change.new.replicas:
            held = self.partitions.get(key)
            # A topic that was deleted and made again in one go is another one under the same name.
            if held is not None and held.topic_id == change.topic_id:
                self._drop(key, delete=change.new is None)
            return
        held = self.partitions.get(key)
        if held is not None and held.topic_id != change.topic_id:
            self._drop(key, delete=True)
            held = None
        if held is None:
            held = self._open(change, change.new)
        held.become(change.new)

    def _open(self, change: PartitionDelta, image: PartitionImage) -> Partition:
        directory = log_directory(change.topic, change.index, change.topic_id)
        log = self._volume.acquire(directory, self._log_config(change.topic), self.now_ms())
        partition = Partition(self.id, change.topic, change.topic_id, change.index, log)
        self.partitions[change.topic, change.index] = partition
        return partition

    def _drop(self, key: TopicPartition, *, delete: bool = False) -> None:
        partition = self.partitions.pop(key)
        partition.retire()
        directory = log_directory(partition.topic, partition.index, partition.topic_id)
        self._volume.release(directory, delete=delete)

    def _reconfigure(self, delta: Delta) -> None:
        defaults = self.image.config_overrides(ConfigResourceType.BROKER, "")
        own = self.image.config_overrides(ConfigResourceType.BROKER, str(self.id))
        if any(kind == ConfigResourceType.BROKER for kind, _ in delta.configs):
            self.config.set_dynamic(own, defaults)
            self._topic_configs.clear()
        for kind, name in delta.configs:
            if kind == ConfigResourceType.TOPIC:
                self._topic_configs.pop(name, None)
        unchanged = dict(self._topic_configs)
        for (topic, _), partition in self.partitions.items():
            if topic not in unchanged:
                partition.log.reconfigure(self._log_config(topic))

    def _log_config(self, topic: str) -> LogConfig:
        return log_config(self.topic_configs(topic))

    # What time does

    def _schedule_retention(self) -> None:
        delay = self.config.value("log.retention.check.interval.ms") / 1000
        retain = timed(self._retain, "it cannot delete what its topics no longer retain", self.fail)
        self._retention = self.runtime.clock.call_later(delay, retain)

    def _retain(self) -> None:
        now = self.now_ms()
        for partition in self.partitions.values():
            if partition.is_leader:
                try:
                    partition.log.enforce_retention(now)
                except KafkaStorageError as error:
                    # That log only: it is as it was, or refuses to be used. Next time it may work.
                    _log.error("node %s: %s", self.id, error)
        self._schedule_retention()

    def _schedule_expiry(self) -> None:
        delay = self.config.value("producer.id.expiration.check.interval.ms") / 1000
        expire = timed(self._expire_producers, "it cannot let idle producers go", self.fail)
        self._expiry = self.runtime.clock.call_later(delay, expire)

    def _expire_producers(self) -> None:
        now = self.now_ms()
        for partition in self.partitions.values():
            partition.log.producers.expire(now)
        self._schedule_expiry()


def log_directory(topic: str, index: int, topic_id: Uuid) -> str:
    """Below the topic's id: while a slow node still holds a deleted topic, its successor needs another place."""
    return f"{topic_id}/{topic}-{index}"
