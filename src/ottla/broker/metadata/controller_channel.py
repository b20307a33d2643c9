"""A node's connections to the controller: registration, heartbeats, the metadata log, and forwarded requests.

Four connections, because a connection serves one request at a time: one for the long poll of the metadata log, one
for heartbeats, one for who is in sync, one for what clients request of the controller. All of them go over the
Runtime's network, and `cut` cuts them: a node that is cut off serves on with what it knows, until the controller
fences it.

A connection that fails is opened again: the controller may be started anew, and goes on where it was. Records that
are fetched and cannot be applied are another matter: they end the node. The channel knows nothing of the node but
what it registers: the image that it replays the log into, and two calls for what it cannot do itself, are handed in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from ottla.broker.metadata.features import SUPPORTED
from ottla.broker.metadata.image import Delta, MetadataImage
from ottla.broker.metadata.names import METADATA_TOPIC
from ottla.broker.metadata.records import read_records
from ottla.broker.metadata.snapshots import read_snapshot
from ottla.broker.server.background import Fail, unending
from ottla.errors import BrokerError, KafkaError, RequestTimedOutError, StaleBrokerEpochError, raise_for_code
from ottla.net.channel import Channel
from ottla.runtime import Runtime
from ottla.wire import Message, Uuid, decode_response, encode_request
from ottla.wire.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    EnvelopeRequest,
    EnvelopeResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)

if TYPE_CHECKING:
    from ottla.broker.server.call import Call

_log = logging.getLogger("ottla.broker.metadata.controller_channel")

FETCH_VERSION: Final = 12
"""The last that names topics by name and carries the broker's id at the top."""
_FETCH_WAIT: Final = 10.0
_FETCH_BYTES: Final = 8 * 1024 * 1024
_SNAPSHOT_VERSION: Final = 0
_REQUEST_TIMEOUT: Final = 30.0
_RETRY: Final = 0.05
_START_TIMEOUT: Final = 60.0
"""On top of the session of an incarnation that was killed, which has to end before the next one is let in."""

_R = TypeVar("_R", bound=Message)
_Failures = (OSError, TimeoutError, KafkaError)


Listener = BrokerRegistrationRequest.Listener


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """What a broker registers as; its listener is known only when it listens."""

    id: int
    cluster_id: str
    rack: str | None = None
    previous_epoch: int = -1
    """That of the incarnation before, if it stopped cleanly: its logs have all that it ever acknowledged."""
    log_dirs: tuple[Uuid, ...] = ()
    """The ids of its log directories (KIP-858)."""


class SessionConfigs(Protocol):
    """Broker configs by name, typed: broker.session.timeout.ms and broker.heartbeat.interval.ms."""

    def value(self, name: str) -> Any: ...


class ControllerChannel:
    """What a node has to do with the controller."""

    def __init__(
        self,
        controller: tuple[str, int],
        broker: BrokerIdentity,
        runtime: Runtime,
        image: MetadataImage,
        configs: SessionConfigs,
        *,
        on_change: Callable[[Delta], None],
        fail: Fail,
    ) -> None:
        self._address = controller
        self._broker = broker
        self._runtime = runtime
        self._clock = runtime.clock
        self._image = image
        self._configs = configs
        self._on_change = on_change
        self._fail = fail
        self._listener = Listener()
        self._incarnation = Uuid(runtime.random.randbytes(16))
        self._epoch = -1
        self._catching_up: MetadataImage | None = MetadataImage()
        """Of a node that starts: what it has read of the log so far."""
        self._channels: dict[str, Channel] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._offline_log_dirs: list[Uuid] = []
        self._beat_now = asyncio.Event()
        self._alive = asyncio.Event()
        self._running = asyncio.Event()
        self._running.set()
        self._cut = False
        self._leaving = False
        self._closed = False

    # Life

    async def start(self, listener: Listener) -> None:
        """Registers the broker with its listener; returns when it has been unfenced and knows it.

        ConnectionAbortedError if the channel is shut meanwhile.
        """
        self._listener = listener
        if not self._closed:
            self._tasks = [
                asyncio.create_task(unending(self._follow, "it cannot apply the metadata log", self._fail)),
                asyncio.create_task(unending(self._beat, "it cannot send heartbeats", self._fail)),
            ]
        session = self._configs.value("broker.session.timeout.ms") / 1000
        try:
            await asyncio.wait_for(self._alive.wait(), _START_TIMEOUT + session)
        except TimeoutError:
            raise TimeoutError(f"the controller has not let node {self._broker.id} in") from None
        self._check_not_closed()

    async def leave(self) -> None:
        """Requests a controlled shutdown, until every leadership has moved or the controller cannot be reached."""
        self._leaving = True
        try:
            while not (await self._heartbeat()).should_shut_down:
                await self._clock.sleep(_RETRY)
        except _Failures as error:
            _log.warning("node %s leaves without the controller's consent: %s", self._broker.id, error)

    def shut(self) -> None:
        """Nothing leaves any more. Calls that still wait, `start` included, fail: the node has stopped."""
        self._closed = True
        self._alive.set()
        for channel in self._channels.values():
            channel.close()

    async def close(self) -> None:
        """Shuts the channel, and ends the tasks."""
        self.shut()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for channel in list(self._channels.values()):
            await channel.wait_closed()

    def pause(self) -> None:
        """No heartbeat leaves and no change is applied until `resume`."""
        self._running.clear()

    def resume(self) -> None:
        self._running.set()

    def cut(self) -> None:
        """Nothing reaches the controller, and nothing comes from there, until `heal`."""
        self._cut = True
        for channel in self._channels.values():
            channel.close()

    def heal(self) -> None:
        self._cut = False

    # Requests

    async def forward(self, request: Message, call: Call) -> Message:
        """The controller's response to a client's request, sent for the principal of the call (KIP-590)."""
        header = call.header
        parts = encode_request(request, call.version, header.correlation_id, header.client_id)
        envelope = EnvelopeRequest(
            request_data=b"".join(parts)[4:],
            request_principal=call.principal.to_bytes(),
            client_host_address=b"\x7f\0\0\1",
        )
        response = await self._forward(envelope, 0, EnvelopeResponse)
        raise_for_code(response.error_code)
        assert response.response_data is not None
        return decode_response(call.handler.api, call.version, response.response_data)

    async def create_topics(self, topics: list[CreateTopicsRequest.CreatableTopic]) -> CreateTopicsResponse:
        """For topics that come into being because a client uses them."""
        request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
        return await self._forward(request, 7, CreateTopicsResponse)

    @property
    def broker_epoch(self) -> int:
        """Of this incarnation; -1 until the controller has registered it."""
        return self._epoch

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Proposes to the controller who is in sync."""
        await self._running.wait()
        return await self._request("isr", request, 3, AlterPartitionResponse)

    async def allocate_producer_ids(self) -> tuple[int, int]:
        """A block of ids: the first, and the one behind the last."""
        request = AllocateProducerIdsRequest(broker_id=self._broker.id, broker_epoch=self._epoch)
        block = await self._forward(request, 0, AllocateProducerIdsResponse)
        raise_for_code(block.error_code)
        return block.producer_id_start, block.producer_id_start + block.producer_id_len

    async def assign_replicas(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        """Tells the controller in which directories replicas lie."""
        await self._running.wait()
        return await self._request("dirs", request, 0, AssignReplicasToDirsResponse)

    def log_dir_failed(self, directory_id: Uuid) -> None:
        """The controller learns of it at once, with a heartbeat, and again with each as long as the node runs."""
        self._offline_log_dirs.append(directory_id)
        self._beat_now.set()

    async def _request(self, purpose: str, request: Message, version: int, expected: type[_R]) -> _R:
        try:
            channel = await self._channel(purpose)
            response = await channel.request(request, version, _REQUEST_TIMEOUT)
        except BrokerError:
            raise
        except _Failures as error:
            raise RequestTimedOutError(f"the controller cannot be reached: {error}") from error
        assert isinstance(response, expected)
        return response

    async def _forward(self, request: Message, version: int, expected: type[_R]) -> _R:
        """As `_request`, but as in Kafka it waits for a controller that is away; not where the link is cut."""
        deadline = self._clock.monotonic() + _REQUEST_TIMEOUT
        while True:
            try:
                return await self._request("forward", request, version, expected)
            except RequestTimedOutError:
                if self._cut or self._closed or self._clock.monotonic() >= deadline:
                    raise
            await self._clock.sleep(_RETRY)

    async def _channel(self, purpose: str) -> Channel:
        lock = self._opening.setdefault(purpose, asyncio.Lock())
        async with lock:
            self._check_connected()
            channel = self._channels.get(purpose)
            if channel is None or channel.is_closed:
                host, port = self._address
                channel = await Channel.open(
                    self._runtime, host, port, client_id=f"node-{self._broker.id}-{purpose}"
                )
                if self._closed or self._cut:
                    channel.close()
                    await channel.wait_closed()
                self._check_connected()
                self._channels[purpose] = channel
            return channel

    def _check_connected(self) -> None:
        self._check_not_closed()
        if self._cut:
            raise ConnectionRefusedError("the link to the controller is cut")

    def _check_not_closed(self) -> None:
        if self._closed:
            raise ConnectionAbortedError(f"node {self._broker.id} has been stopped")

    # Tasks of the node

    async def _follow(self) -> None:
        """Registers, then replays the metadata log as it grows; begins anew whenever a connection fails."""
        while True:
            try:
                await self._running.wait()
                if self._epoch < 0:
                    await self._register()
                await self._notice_own_state()
                fetched = await self._pull()
                image = await self._fetch_snapshot(fetched)
            except _Failures as error:
                _log.info("node %s: the metadata log cannot be followed: %s", self._broker.id, error)
                await self._clock.sleep(_RETRY)
            else:
                # Outside of the try: a volume's OSError is no failure of a connection, and does not pass.
                self._take(fetched, image)

    def _take(self, fetched: FetchResponse.PartitionData, snapshot: MetadataImage | None) -> None:
        """Applies what has come. A node that starts acts on it only when it has all that the controller had.

        As in Kafka: on its way through the log it would come by topics that are long deleted, and whose successors
        have the logs of the same names.
        """
        catching_up = self._catching_up
        image = self._image if catching_up is None else catching_up
        if snapshot is not None:
            delta = image.become(snapshot)
        else:
            delta = image.apply_all(read_records(fetched.records or b"", image.offset + 1))
        if catching_up is None:
            self._on_change(delta)
        elif snapshot is None and catching_up.offset + 1 >= fetched.high_watermark:
            self._catching_up = None
            self._on_change(self._image.become(catching_up))

    async def _register(self) -> None:
        request = BrokerRegistrationRequest(
            broker_id=self._broker.id,
            cluster_id=self._broker.cluster_id,
            incarnation_id=self._incarnation,
            listeners=[self._listener],
            features=[
                BrokerRegistrationRequest.Feature(
                    name=feature.name,
                    min_supported_version=feature.min_version,
                    max_supported_version=feature.max_version,
                )
                for feature in SUPPORTED
            ],
            rack=self._broker.rack,
            log_dirs=list(self._broker.log_dirs),
            previous_broker_epoch=self._broker.previous_epoch,
        )
        response = await self._request("heartbeat", request, 4, BrokerRegistrationResponse)
        raise_for_code(response.error_code)
        self._epoch = response.broker_epoch

    async def _pull(self) -> FetchResponse.PartitionData:
        """The next records of the metadata log, or the id of a snapshot where the log begins behind them."""
        channel = await self._channel("metadata")
        partition = FetchRequest.FetchPartition(
            partition=0, fetch_offset=self._next_offset, partition_max_bytes=_FETCH_BYTES
        )
        request = FetchRequest(
            replica_id=self._broker.id,
            max_wait_ms=0 if self._catching_up is not None else int(_FETCH_WAIT * 1000),
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            topics=[FetchRequest.FetchTopic(topic=METADATA_TOPIC, partitions=[partition])],
        )
        response = await channel.request(request, FETCH_VERSION, _FETCH_WAIT + _REQUEST_TIMEOUT)
        assert isinstance(response, FetchResponse)
        raise_for_code(response.error_code)
        (fetched,) = response.responses[0].partitions
        raise_for_code(fetched.error_code)
        await self._running.wait()
        return fetched

    @property
    def _next_offset(self) -> int:
        image = self._image if self._catching_up is None else self._catching_up
        return image.offset + 1

    async def _fetch_snapshot(self, fetched: FetchResponse.PartitionData) -> MetadataImage | None:
        """The image of the snapshot that a fetch has named, if it has."""
        named = fetched.snapshot_id
        if named is None or named.end_offset < 0:
            return None
        data = bytearray()
        size = 1
        while len(data) < size:
            part = await self._pull_snapshot(named, len(data))
            raise_for_code(part.error_code)
            data += part.unaligned_records or b""
            size = part.size
        await self._running.wait()
        return read_snapshot(data, named.end_offset)

    async def _pull_snapshot(
        self, named: FetchResponse.SnapshotId, position: int
    ) -> FetchSnapshotResponse.PartitionSnapshot:
        channel = await self._channel("metadata")
        partition = FetchSnapshotRequest.PartitionSnapshot(
            snapshot_id=FetchSnapshotRequest.SnapshotId(end_offset=named.end_offset, epoch=named.epoch),
            position=position,
        )
        request = FetchSnapshotRequest(
            replica_id=self._broker.id,
            max_bytes=_FETCH_BYTES,
            topics=[FetchSnapshotRequest.TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
        )
        response = await channel.request(request, _SNAPSHOT_VERSION, _REQUEST_TIMEOUT)
        assert isinstance(response, FetchSnapshotResponse)
        return response.topics[0].partitions[0]

    async def _notice_own_state(self) -> None:
        own = self._image.brokers.get(self._broker.id)
        if own is None or own.epoch != self._epoch:
            return
        if own.fenced and not self._leaving:
            # Caught up far enough to know itself: it may serve now.
            await self._heartbeat()
        elif not own.fenced:
            self._alive.set()

    async def _beat(self) -> None:
        interval = self._configs.value("broker.heartbeat.interval.ms") / 1000
        while True:
            await self._until_next_beat(interval)
            await self._running.wait()
            try:
                if self._epoch >= 0:
                    await self._beat_once()
            except _Failures as error:
                _log.info("node %s: no heartbeat: %s", self._broker.id, error)

    async def _until_next_beat(self, interval: float) -> None:
        timer = self._clock.call_later(interval, self._beat_now.set)
        try:
            await self._beat_now.wait()
        finally:
            timer.cancel()
        self._beat_now.clear()

    async def _beat_once(self) -> None:
        try:
            await self._heartbeat()
        except StaleBrokerEpochError:
            _log.info("node %s has been forgotten and registers again", self._broker.id)
            await self._register()

    async def _heartbeat(self) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self._broker.id,
            broker_epoch=self._epoch,
            current_metadata_offset=self._image.offset,
            want_fence=False,
            want_shut_down=self._leaving,
            offline_log_dirs=list(self._offline_log_dirs),
        )
        response = await self._request("heartbeat", request, 1, BrokerHeartbeatResponse)
        raise_for_code(response.error_code)
        return response
