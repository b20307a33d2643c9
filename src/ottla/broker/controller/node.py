"""The controller as a server: it lets the state machine decide, writes the decisions down, and responds.

A decision becomes a batch of the metadata log (metadata_log.py), is applied, and is then fetched by the nodes. A
controller that starts on the volume of another takes over: same image, next epoch, and every broker that was alive
gets a whole session to be heard of. A response that
follows from a change waits until every node that is connected has fetched it (for a second at most), so that a client
that has made a topic finds it on any node. Apache Kafka does not wait; docs/fidelity.md says why this does.

What is decided is in state.py, and never here. A controller that cannot go on stops, and says why: nodes that hear
nothing any more serve on with what they know.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.configs import BrokerConfigs
from ottla.broker.controller.decision import CONTROLLER_ID, Decision
from ottla.broker.controller.handlers import CONTROLLER
from ottla.broker.controller.metadata_log import MetadataLog, SnapshotPolicy
from ottla.broker.controller.state import ControllerState
from ottla.broker.log.config import NEVER
from ottla.broker.log.fs import FileSystem
from ottla.broker.metadata.records import MetadataRecord
from ottla.broker.metadata.snapshots import SnapshotId
from ottla.broker.server.background import reason, timed
from ottla.broker.server.dispatch import Dispatcher
from ottla.broker.server.faults import Faults
from ottla.broker.server.server import Limits, Server
from ottla.errors import (
    BrokerError,
    KafkaStorageError,
    NotControllerError,
    PositionOutOfRangeError,
    SnapshotNotFoundError,
)
from ottla.runtime import Runtime, Timer
from ottla.wire import Message, Uuid

if TYPE_CHECKING:
    from ottla.broker.replication.partition import PartitionKey

_log = logging.getLogger("ottla.broker.controller")

_WAIT_FOR_NODES: Final = 1.0
_AT_LEAST: Final = 1.0
"""How often sessions are looked at; one may begin at any time."""
_ASLEEP: Final = 0.5
_GRACE: Final = 0.2


class ControllerNode:
    """The one controller of a cluster."""

    def __init__(
        self,
        runtime: Runtime,
        fs: FileSystem,
        state: ControllerState,
        configs: BrokerConfigs,
    ) -> None:
        self.id = CONTROLLER_ID
        self.runtime = runtime
        self.state = state
        self._configs = configs
        self.host, self.port = "", 0
        self._log = MetadataLog(fs, SnapshotPolicy.of(configs), self.now_ms())
        # Without faults: a rule for the next Fetch of a client must not strike a node that follows the log.
        self.dispatcher = Dispatcher(self, CONTROLLER.limited({}), Faults(), listener="CONTROLLER")
        self._server = Server(
            runtime, self.dispatcher, Limits(max_idle_seconds=NEVER), "controller", self.fail
        )
        # The offset that each node is known to have applied everything below of.
        self._positions: dict[int, int] = {}
        # The latest fetch of each node; an earlier one, on a connection that broke, has nothing to say any more.
        self._fetches: dict[int, object] = {}
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._timers: dict[str, Timer] = {}
        self._due = 0.0
        self.failure: str | None = None
        """Why it has stopped by itself."""
        self._ending: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int = 0, *, nodes_are_gone: bool = False) -> None:
        """Takes over what the log has, or begins a new cluster; a free port is chosen where none is named.

        `nodes_are_gone` says that no node can have outlived the last controller: none gets a session to be heard of.
        """
        image = self._log.replay()
        self.state.take_over(image, self.now())
        self.host = host
        self.port = await self._server.listen(host, port)
        if not self._log.end_offset:
            self.commit(self.state.bootstrap())
        if nodes_are_gone:
            for broker_id in list(self.state.image.brokers):
                self.commit(self.state.fence_broker(broker_id))
        self._look_again(_AT_LEAST)
        self._tend("leader.imbalance.check.interval.seconds", 1, self.state.balance_leaders)
        self._tend("unclean.leader.election.interval.ms", 1000, self.state.elect_unclean_leaders)

    @property
    def is_stopped(self) -> bool:
        """Whether it has been told to stop, or has stopped by itself."""
        return self._ending is not None

    async def stop(self, *, clean: bool = True) -> None:
        """Once; a second call waits for the first. One that is not clean leaves its files as they are."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(clean))
        await asyncio.shield(self._ending)

    async def _end(self, clean: bool) -> None:
        self._cancel_timers()
        await self._server.close()
        if clean:
            self._log.close()

    def fail(self, what: str, error: Exception) -> None:
        """Stops the controller, because it cannot do something that it has to."""
        _log.error("the controller stops: %s", what, exc_info=error)
        if self._ending is None:
            self.failure = reason(what, error)
            self.dispatcher.pause()
            self._cancel_timers()
            self._ending = asyncio.create_task(self._end(clean=False))

    def _cancel_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def now(self) -> float:
        return self.runtime.clock.monotonic()

    def now_ms(self) -> int:
        return int(self.runtime.clock.time() * 1000)

    def topic_name(self, topic_id: Uuid) -> str | None:
        topic = self.state.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def touched(self, request: Message) -> list[PartitionKey]:
        return []

    # Decisions

    def commit(self, records: Sequence[MetadataRecord]) -> int:
        """Writes records to the metadata log and applies them; the log's end behind them."""
        if self.failure is not None:
            raise NotControllerError(f"The controller has stopped: {self.failure}")
        if records:
            now_ms = self.now_ms()
            self._append(records, now_ms)
            try:
                self.state.apply(records)
            except Exception as error:
                # The log has a decision that the state lacks: whatever is decided next may contradict it.
                self.fail("it cannot apply its own decision", error)
                raise
            self._wake()
            self._tend_log(now_ms)
        return self._log.end_offset

    def _append(self, records: Sequence[MetadataRecord], now_ms: int) -> None:
        try:
            self._log.append(records, now_ms)
        except KafkaStorageError as error:
            if self._log.is_lost:
                self.fail("it cannot write the metadata log any more", error)
            raise

    def _tend_log(self, now_ms: int) -> None:
        try:
            self._log.tend(self.state.image, now_ms)
        except (OSError, BrokerError) as error:
            # What is decided is in the log; the next decision tries again.
            _log.warning("the controller cannot write a snapshot of the metadata log: %s", error)

    async def carry_out(self, decision: Decision[Any]) -> Any:
        """Commits a decision; its response, when the nodes know."""
        if decision.records:
            await self.known_to_nodes(self.commit(decision.records))
        return decision.response

    async def known_to_nodes(self, offset: int) -> None:
        """Until every node that is alive and connected has fetched the log up to `offset`."""
        deadline = self.now() + _WAIT_FOR_NODES
        while self._is_behind(offset) and self.now() < deadline:
            await self._change(deadline - self.now())

    def _is_behind(self, offset: int) -> bool:
        alive = {broker.id for broker in self.state.image.alive_brokers()}
        return any(node in alive and position < offset for node, position in self._positions.items())

    def _forget(self, node_id: int, fetch: object) -> None:
        """A node's connection is gone: no response waits for it."""
        if self._fetches.get(node_id) is fetch:
            self._positions.pop(node_id, None)
            self._wake()

    def forget(self, node_id: int) -> None:
        """A node has stopped by itself, between two of its fetches: no response waits for the next."""
        self._positions.pop(node_id, None)
        self._wake()

    # The metadata log

    async def read(self, node_id: int, offset: int, max_bytes: int, wait: float) -> bytes:
        """What a node lacks from `offset` on; waits if that is nothing yet."""
        fetch = self._fetches[node_id] = object()
        self._positions[node_id] = offset
        self.state.has_read(node_id, offset - 1)
        self._wake()
        deadline = self.now() + wait
        try:
            while self._log.end_offset <= offset and self.now() < deadline:
                await self._change(deadline - self.now())
        except asyncio.CancelledError:
            self._forget(node_id, fetch)
            raise
        if offset < self._log.start_offset:
            return b""  # a snapshot has taken its place meanwhile, which the next fetch gets to know
        return self._log.read(offset, max_bytes)

    def stored(self, offset: int, max_bytes: int) -> bytes:
        """What the log has from `offset` on, for who looks at the controller from outside."""
        return self._log.read(offset, max_bytes)

    def snapshot_for(self, offset: int) -> SnapshotId | None:
        """What a node has to begin with that wants to read from `offset`; None if the log has that."""
        return self._log.snapshot if offset < self._log.start_offset else None

    def read_snapshot(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[bytes, int]:
        """A part of a snapshot, and the size of the whole; the BrokerError if there is none."""
        try:
            size = self._log.snapshot_size(snapshot)
        except KeyError:
            raise SnapshotNotFoundError from None
        if not 0 <= position < size:
            raise PositionOutOfRangeError
        return self._log.read_snapshot(snapshot, position, max_bytes), size

    @property
    def log_end_offset(self) -> int:
        return self._log.end_offset

    @property
    def epoch(self) -> int:
        """One more than that of the controller before it."""
        return self._log.epoch

    async def _change(self, within: float) -> None:
        """Until something has changed, or the time is up."""
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[changed] = None
        timer = self.runtime.clock.call_later(within, _set, changed)
        try:
            await changed
        finally:
            timer.cancel()
            self._waiting.pop(changed, None)

    def _wake(self) -> None:
        for waiting in list(self._waiting):
            _set(waiting)

    # What time does

    def _watch_sessions(self) -> None:
        """Fences a broker whose session is over, and looks again at once where there may be another."""
        if self.now() - self._due > _ASLEEP:
            # A controller that was asleep itself, or whose clock a test has moved, cannot know which
            # brokers were silent: those that live get the time for a heartbeat.
            self._look_again(_GRACE)
            return
        records = self.state.expire(self.now())
        if records:
            _log.info("the controller fences a broker without a heartbeat: %s", records)
            self.commit(records)
        expiry = self.state.next_expiry
        self._look_again(_AT_LEAST if expiry is None else min(_AT_LEAST, max(0.0, expiry - self.now())))

    def _look_again(self, delay: float) -> None:
        self._due = self.now() + delay
        watch = timed(self._watch_sessions, "it cannot watch the sessions of the nodes", self.fail)
        self._timers["sessions"] = self.runtime.clock.call_later(delay, watch)

    def _tend(self, interval: str, per_second: int, decide: Callable[[], Sequence[MetadataRecord]]) -> None:
        """Lets the state machine decide again and again; `interval` is the config that says how often."""

        def again() -> None:
            self.commit(decide())
            self._tend(interval, per_second, decide)

        delay = self._configs.value(interval) / per_second
        tended = timed(again, f"it cannot do what {interval} is about", self.fail)
        self._timers[interval] = self.runtime.clock.call_later(delay, tended)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
