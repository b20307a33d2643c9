"""Sink: the produce requests to one broker. It builds them from the RecBufs that are ready, and handles responses.

Draining is one synchronous step: the producer id, the sequence numbers and the request are taken in the same moment,
so that nothing can change in between. What has to be waited for (a connection, an id, the compression of a large
batch) is begun, and draining goes on when it is there. There is no permanent task.

Responses are handled in the order of their requests: a later one waits for those before it.

Invariants: a RecBuf is in `_ready` only of its leader's sink; a batch is in at most one request; and whatever becomes
of a request, each of its batches is delivered, failed or queued again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Final

from ottla.client.connections.brokers import Brokers
from ottla.client.connections.connection import BrokerConnection
from ottla.client.connections.purposes import Purpose
from ottla.client.metadata import BrokerView, Metadata
from ottla.client.partitioners import LeaderLatency
from ottla.client.produce.batch import ProducerBatch
from ottla.client.produce.completions import Completions
from ottla.client.produce.failures import purged_before
from ottla.client.produce.producer_id import Identities
from ottla.client.produce.recbuf import BatchTemplate, EpochEnd, RecBuf
from ottla.client.produce.responses import BatchAction, action_after, error_in
from ottla.client.produce.settings import ProduceSettings
from ottla.client.produce.wakeups import Wakeups
from ottla.client.tasks import Tasks
from ottla.errors import (
    BrokerError,
    ClientClosedError,
    ConnectionFailedError,
    KafkaError,
    ProtocolError,
)
from ottla.net import OnDone, PendingRequest
from ottla.runtime import Runtime, Timer
from ottla.wire import ZERO_UUID, Message, Uuid
from ottla.wire.messages import ProduceRequest, ProduceResponse
from ottla.wire.records import seal
from ottla.wire.templates import RECORDS, Acknowledged, AcknowledgementTemplate, RecordsTemplate

_logger = logging.getLogger("ottla.client.produce.producer")

_TOPIC_IDS_SINCE: Final = 13
_UNKNOWN: Final = -1
_LARGE: Final = 32 * 1024
"""Compressing more than this takes longer than handing it to a thread."""
_SMALL: Final = 128 * 1024
"""Up to this size a batch is copied into its request, which is one piece then."""
_MOST_AHEAD: Final = 1024 * 1024
"""Bytes that wait for the socket, from which on nothing more is sent without acknowledgements."""
_JITTER: Final = 0.2
"""The share of a back-off by which it may be shorter or longer, so that others end with it (KIP-580 has as much)."""

_EPOCH_ENDS: Final = {
    BatchAction.RETRY_NOT_STORED: EpochEnd.NOT_STORED,
    BatchAction.RETRY_NEW_EPOCH: EpochEnd.FORGOTTEN,
    BatchAction.RETRY_NEW_ID: EpochEnd.FORGOTTEN,
}

_Sent = tuple[RecBuf, ProducerBatch]


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What all sinks of a client share."""

    settings: ProduceSettings
    runtime: Runtime
    brokers: Brokers
    metadata: Metadata
    tasks: Tasks
    ids: Identities
    wakeups: Wakeups
    completions: Completions
    latency: LeaderLatency


@dataclass(slots=True, eq=False)
class _InFlight:
    """A request in flight: its batches, by what the response will call their partitions."""

    version: int
    batches: dict[tuple[str | Uuid, int], _Sent] = field(default_factory=dict)
    response: Message | Acknowledged | None = None
    error: KafkaError | None = None
    """One of the two, once it is over."""


class Sink:
    """The produce requests to one broker."""

    def __init__(self, node_id: int, context: SinkContext) -> None:
        self.node_id = node_id
        self._context = context
        self._settings = context.settings
        self._completions = context.completions
        self._clock = context.runtime.clock
        # In the order in which they are served: a RecBuf of which a batch went into a request goes to the end.
        self._ready: dict[RecBuf, None] = {}
        self.requests: deque[_InFlight] = deque()
        """Those without a response, in the order in which they were sent."""
        self._connection: BrokerConnection | None = None
        self._newest = _UNKNOWN
        """The version of Produce that this broker and we have."""
        self._is_connecting = False
        self._is_draining = False
        self._failures = 0
        self._phase = context.runtime.random.uniform(0.0, 1.0)
        self._pause: Timer | None = None
        self._is_closed = False

    def add(self, recbuf: RecBuf) -> None:
        """It has something to send, and goes out when the sink is drained."""
        self._ready[recbuf] = None

    def remove(self, recbuf: RecBuf) -> None:
        """This broker leads it no more."""
        self._ready.pop(recbuf, None)

    def drain_soon(self) -> None:
        """Drains in the next iteration of the loop, with everything else that comes until then."""
        if self._ready and not self._is_draining and not self._is_closed:
            self._is_draining = True
            asyncio.get_running_loop().call_soon(self._drain_now)

    def close(self) -> None:
        """Sends nothing any more; responses to pending requests are ignored."""
        self._is_closed = True
        self._ready.clear()
        if self._pause is not None:
            self._pause.cancel()

    # Draining

    def _drain_now(self) -> None:
        self._is_draining = False
        if self._ready:
            self.drain(self._clock.monotonic())

    def drain(self, now: float) -> None:
        """Sends what is ready, as far as it can be sent."""
        while self._ready and not self._is_closed:
            connection = self._usable_connection(now)
            sendable = connection is not None and len(self.requests) < self._settings.max_in_flight
            self._context.latency.on_ready(self.node_id, now, sendable=sendable)
            if connection is None or not sendable:
                return
            request = self._take(now)
            if not request:
                return
            self._send(connection, request)
            if self._ready:
                now = self._clock.monotonic()

    def _usable_connection(self, now: float) -> BrokerConnection | None:
        """The connection, if requests may go over it now; else what leads to that is under way."""
        connection = self._connection
        if connection is None or connection.is_closed:
            if self._pause is None and not self._is_connecting:
                self._is_connecting = True
                self._context.tasks.spawn(self._connect(), f"connect the sink of broker {self.node_id}")
            return None
        if connection.paused_until and (pause := connection.paused_until - now) > 0:
            self._wait(pause)
            return None
        if self._settings.acks == 0 and connection.pending_bytes >= _MOST_AHEAD:
            # No response holds it back, and what it has taken counts as delivered.
            connection.when_drained(self.drain_soon)
            return None
        return connection

    async def _connect(self) -> None:
        try:
            broker = self._context.brokers.get(self.node_id)
            self._connection = await broker.connection(Purpose.PRODUCE)
            self._newest = _UNKNOWN
            self._failures = 0
        except ClientClosedError:
            return
        except KafkaError as error:
            # Nothing was sent: the records wait, for this broker or for another leader.
            _logger.info("nothing can be produced to broker %d yet: %s", self.node_id, error)
            self._context.metadata.refresh_now(f"broker {self.node_id} cannot be reached for producing")
            for recbuf in self._ready:
                recbuf.blocked_by(error)
            self._wait(self._settings.backoff.delay(self._failures))
            self._failures += 1
        finally:
            self._is_connecting = False
        self.drain_soon()

    def _wait(self, seconds: float) -> None:
        if self._pause is None:
            self._pause = self._clock.call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self.drain_soon()

    def _take(self, now: float) -> list[_Sent]:
        """One batch each of the partitions that are ready, in turn, as many as a request may hold."""
        taken: list[_Sent] = []
        without_id: list[RecBuf] = []
        room = self._settings.max_request_size
        wakeups, ids, ready = self._context.wakeups, self._context.ids, self._ready
        for recbuf in list(ready):
            batch = recbuf.next_batch(now, wakeups.slack)
            if batch is None:
                # A hook may have purged its topic just now.
                ready.pop(recbuf, None)
                # It may be ready later: with a time it has an alarm, and an event brings it back.
                if (when := recbuf.ready_at()) is not None and when > now:
                    wakeups.remind(recbuf, when)
                continue
            # A thread compresses a large batch first; then the RecBuf is ready again.
            if self._settings.codec and not batch.is_compressed and batch.encoded.raw_size >= _LARGE:
                del ready[recbuf]
                recbuf.is_compressing = True
                name = f"compress {recbuf.topic}-{recbuf.partition}"
                self._context.tasks.spawn(self._compress(recbuf, batch), name)
                continue
            if taken and batch.encoded.size > room:
                break
            del ready[recbuf]
            # Before a hook hears of it, which may abort all that is not sent.
            if not recbuf.send(batch, ids.identity_for(recbuf.topic, recbuf.partition), self.node_id, now):
                # Others may have their ids: it waits behind them until one has come.
                ids.want(recbuf.retired_id)
                without_id.append(recbuf)
                continue
            self._seal(batch, now)
            room -= batch.encoded.size
            taken.append((recbuf, batch))
            if (recbuf.queued or recbuf.buffer.records) and (when := recbuf.ready_at()) is not None:
                if when <= now:
                    ready[recbuf] = None
                else:
                    wakeups.remind(recbuf, when)
        if without_id:
            ready.update(dict.fromkeys(without_id))
        return taken

    async def _compress(self, recbuf: RecBuf, batch: ProducerBatch) -> None:
        settings = self._settings
        try:
            await self._context.runtime.run(seal, batch.encoded, settings.codec, settings.codec_level)
            batch.is_compressed = True
        except Exception as error:
            _logger.exception("a batch to %s-%d could not be compressed", recbuf.topic, recbuf.partition)
            if not batch.is_done:
                recbuf.give_up(batch)
                self._completions.failed(batch, error)
        finally:
            recbuf.is_compressing = False
        self._context.wakeups.consider(recbuf)

    def _seal(self, batch: ProducerBatch, now: float) -> None:
        settings, encoded = self._settings, batch.encoded
        if settings.is_idempotent:
            producer_id, epoch = batch.identity
            encoded.set_producer(producer_id, epoch, batch.sequence, settings.transactional_id is not None)
        seal(encoded, settings.codec, settings.codec_level)
        if batch.sealed_at is None:
            batch.sealed_at = now
            self._completions.sealed(batch)

    # Sending

    def _send(self, connection: BrokerConnection, taken: list[_Sent]) -> None:
        try:
            version = self._version(connection, taken)
        except KafkaError as error:
            # This broker has no version of Produce that we have: nothing was sent.
            self._refuse_all(taken, error)
            return
        request = _InFlight(version)
        by_id = version >= _TOPIC_IDS_SINCE
        for sent in taken:
            recbuf = sent[0]
            request.batches[recbuf.topic_id if by_id else recbuf.topic, recbuf.partition] = sent
        if self._settings.acks == 0:
            self._send_oneway(connection, request)
            return
        self.requests.append(request)
        on_done = partial(self._finish, request)
        try:
            if len(taken) == 1 and taken[0][1].encoded.size <= _SMALL:
                self._send_alone(connection, version, taken[0], on_done)
            else:
                connection.begin(self._message(taken), version, on_done)
        except KafkaError as error:
            # In its turn, behind what is lost with the same connection.
            request.error = error
            asyncio.get_running_loop().call_soon(self._handle_in_turn)
        self._completions.written(taken)

    def _version(self, connection: BrokerConnection, taken: list[_Sent]) -> int:
        version = self._newest
        if version == _UNKNOWN:
            version = self._newest = connection.version(ProduceRequest)
        most = self._context.ids.most_version
        if most is not None and version > most:
            return connection.version(ProduceRequest, most)
        if version >= _TOPIC_IDS_SINCE:
            for recbuf, _ in taken:
                if recbuf.topic_id == ZERO_UUID:
                    return connection.version(ProduceRequest, _TOPIC_IDS_SINCE - 1)
        return version

    def _send_alone(self, connection: BrokerConnection, version: int, sent: _Sent, on_done: OnDone) -> None:
        """One small batch: what is around it was the same the last time."""
        recbuf, batch = sent
        template = recbuf.template
        if template is None or template.request.version != version:
            message = self._message_around([(recbuf, RECORDS)])
            template = recbuf.template = BatchTemplate(
                RecordsTemplate(message, version, self._settings.client_id),
                AcknowledgementTemplate(message, version),
            )
        request = partial(template.request.encode, memoryview(batch.encoded))
        connection.begin_encoded(
            template.request.api, version, request, on_done, template.acknowledgement.decode
        )

    def _message(self, taken: Iterable[_Sent]) -> ProduceRequest:
        return self._message_around([(recbuf, memoryview(batch.encoded)) for recbuf, batch in taken])

    def _message_around(self, taken: list[tuple[RecBuf, memoryview]]) -> ProduceRequest:
        topics: dict[tuple[str, Uuid], ProduceRequest.TopicProduceData] = {}
        for recbuf, records in taken:
            key = (recbuf.topic, recbuf.topic_id)
            topic = topics.get(key)
            if topic is None:
                topic = ProduceRequest.TopicProduceData(name=recbuf.topic, topic_id=recbuf.topic_id)
                topics[key] = topic
            topic.partition_data.append(
                ProduceRequest.PartitionProduceData(index=recbuf.partition, records=records)
            )
        return ProduceRequest(
            transactional_id=self._context.ids.transactional_id,
            acks=self._settings.acks,
            timeout_ms=self._settings.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    def _send_oneway(self, connection: BrokerConnection, request: _InFlight) -> None:
        """Without acknowledgements a batch is delivered when it is handed over."""
        try:
            connection.send_oneway(self._message(request.batches.values()), request.version)
        except KafkaError as error:
            self._not_sent(request, error)
            return
        now = self._clock.monotonic()
        self._completions.written(request.batches.values())
        for recbuf, batch in request.batches.values():
            self._delivered(recbuf, batch, -1, -1, now)
        self._completions.space_freed()

    # Responses

    def _finish(self, request: _InFlight, pending: PendingRequest) -> None:
        request.response, request.error = pending.response, pending.error
        self._handle_in_turn()

    def _handle_in_turn(self) -> None:
        requests = self.requests
        while requests and (requests[0].response is not None or requests[0].error is not None):
            first = requests.popleft()
            if self._is_closed:
                continue
            error = first.error
            if first.response is not None:
                self._handle(first, first.response)
            elif isinstance(error, ConnectionFailedError):
                self._not_sent(first, error)
            elif isinstance(error, ProtocolError) and not isinstance(error, BrokerError):
                self._refuse_all(list(first.batches.values()), error)
            else:
                assert error is not None
                self._lost(first, error)
        if self._ready:
            self.drain_soon()

    def _refuse_all(self, sent: list[_Sent], error: BaseException) -> None:
        for recbuf, batch in sent:
            if recbuf.request_done(batch):
                self._fail(recbuf, batch, error)
            self._context.wakeups.consider(recbuf)

    def _not_sent(self, request: _InFlight, error: BaseException) -> None:
        for recbuf, batch in request.batches.values():
            batch.attempts -= 1
            if recbuf.request_done(batch):
                self._retry(recbuf, batch, error, ambiguous=False, at_once=True)
            self._context.wakeups.consider(recbuf)

    def _lost(self, request: _InFlight, error: BaseException) -> None:
        """No response: each batch may be stored, or not."""
        self._context.metadata.refresh_now(f"a produce request to broker {self.node_id} had no response")
        for recbuf, batch in request.batches.values():
            if recbuf.request_done(batch):
                self._retry(recbuf, batch, error, ambiguous=True)
            self._context.wakeups.consider(recbuf)

    def _handle(self, request: _InFlight, response: Message | Acknowledged) -> None:
        if isinstance(response, Acknowledged):
            ((recbuf, batch),) = request.batches.values()
            self._delivered(recbuf, batch, *response, self._clock.monotonic())
            if self._completions.space_waiters:
                self._completions.space_freed()
            return
        assert isinstance(response, ProduceResponse)
        by_id = request.version >= _TOPIC_IDS_SINCE
        left = request.batches
        now = self._clock.monotonic()
        for topic in response.responses:
            name: str | Uuid = topic.topic_id if by_id else topic.name
            for partition in topic.partition_responses:
                sent = left.pop((name, partition.index), None)
                if sent is None:
                    _logger.error(
                        "broker %d answered for %s-%s, which was not in the request",
                        self.node_id,
                        name,
                        partition.index,
                    )
                elif partition.error_code == 0:
                    self._delivered(*sent, partition.base_offset, partition.log_append_time_ms, now)
                else:
                    self._handle_error(*sent, partition, response.node_endpoints, now)
        if self._completions.space_waiters:
            self._completions.space_freed()
        if left:
            # What a broker leaves out may be stored all the same.
            _logger.error("broker %d left %d partitions of a produce request out", self.node_id, len(left))
            self._lost(request, KafkaError(f"broker {self.node_id} did not answer for this partition"))

    def _delivered(
        self, recbuf: RecBuf, batch: ProducerBatch, base_offset: int, log_append_time: int, now: float
    ) -> None:
        if recbuf.delivered(batch):
            self._completions.delivered(batch, base_offset, log_append_time, now)
        if recbuf.batches or recbuf.buffer.records:
            self._context.wakeups.consider(recbuf)

    def _handle_error(
        self,
        recbuf: RecBuf,
        batch: ProducerBatch,
        response: ProduceResponse.PartitionProduceResponse,
        endpoints: list[ProduceResponse.NodeEndpoint],
        now: float,
    ) -> None:
        error = error_in(response, recbuf.topic, self.node_id)
        assert error is not None
        action = action_after(
            error,
            idempotent=self._settings.is_idempotent,
            transactional=self._settings.transactional_id is not None,
            first=recbuf.is_first(batch),
            ambiguous=batch.is_ambiguous,
            appended=response.base_offset >= 0,
            records=batch.encoded.count,
        )
        if action is BatchAction.COMPLETE:
            self._delivered(recbuf, batch, -1, response.log_append_time_ms, now)
            return
        if recbuf.request_done(batch):
            self._carry_out(action, recbuf, batch, error)
            self._adopt_leader_hint(recbuf, error, response, endpoints)
        self._context.wakeups.consider(recbuf)

    def _carry_out(
        self, action: BatchAction, recbuf: RecBuf, batch: ProducerBatch, error: BrokerError
    ) -> None:
        _logger.debug("%s-%d: %s after %s", recbuf.topic, recbuf.partition, action.name, error)
        if action is BatchAction.SPLIT:
            if recbuf.is_purged:
                self._fail(recbuf, batch, purged_before(recbuf, batch, error))
                return
            batch.last_error = error
            recbuf.split(batch)
        elif action in (BatchAction.FAIL, BatchAction.FAIL_AMBIGUOUS):
            if action is BatchAction.FAIL_AMBIGUOUS:
                recbuf.mark_ambiguous(batch)
            self._fail(recbuf, batch, error)
        elif action is BatchAction.RETRY_BEHIND:
            self._retry(recbuf, batch, error, ambiguous=False, at_once=True)
        else:
            is_expected = action is BatchAction.RETRY_NOT_STORED and recbuf.has_gap
            if action in _EPOCH_ENDS:
                level = logging.DEBUG if is_expected else logging.WARNING
                words = "%s-%d begins a new producer epoch after %s"
                _logger.log(level, words, recbuf.topic, recbuf.partition, error)
                recbuf.end_epoch(_EPOCH_ENDS[action], new_id=action is BatchAction.RETRY_NEW_ID)
            # Behind a batch that was given up this is no sign of trouble: nothing is gained by waiting.
            ambiguous = action is BatchAction.RETRY_AMBIGUOUS
            self._retry(recbuf, batch, error, ambiguous=ambiguous, at_once=is_expected)

    def _retry(
        self,
        recbuf: RecBuf,
        batch: ProducerBatch,
        error: BaseException,
        *,
        ambiguous: bool,
        at_once: bool = False,
    ) -> None:
        if ambiguous:
            recbuf.mark_ambiguous(batch)
        if (stopped := self._context.ids.stopped) is not None:
            self._fail(recbuf, batch, stopped)
            return
        if recbuf.is_purged:
            self._fail(recbuf, batch, purged_before(recbuf, batch, error))
            return
        if batch.attempts > self._settings.retries and recbuf.may_fail(batch):
            self._fail(recbuf, batch, error)
            return
        now = self._clock.monotonic()
        recbuf.retry(batch, error, now if at_once else self._again_at(recbuf.failures, now))

    def _again_at(self, failures: int, now: float) -> float:
        """When a back-off that begins now is over: one of few moments, so that partitions go together again.

        Many fail together, or one shortly after the other. The jitter is where the moments of this sink lie.
        """
        back_off = self._settings.backoff.mean(failures)
        if back_off == 0:
            return now
        step = 2 * _JITTER * back_off
        earliest = now + (1 - _JITTER) * back_off
        return (ceil(earliest / step - self._phase) + self._phase) * step

    def _fail(self, recbuf: RecBuf, batch: ProducerBatch, error: BaseException) -> None:
        recbuf.give_up(batch)
        self._completions.failed(batch, batch.final_error(error))

    def _adopt_leader_hint(
        self,
        recbuf: RecBuf,
        error: BrokerError,
        response: ProduceResponse.PartitionProduceResponse,
        endpoints: list[ProduceResponse.NodeEndpoint],
    ) -> None:
        """The new leader, if the response names it (KIP-951); else metadata has to."""
        leader = response.current_leader
        if leader is not None and leader.leader_id >= 0 and leader.leader_id != self.node_id:
            brokers = [BrokerView(each.node_id, each.host, each.port, each.rack) for each in endpoints]
            topic: str | Uuid = recbuf.topic if recbuf.topic_id == ZERO_UUID else recbuf.topic_id
            self._context.metadata.hint(
                topic, recbuf.partition, leader.leader_id, leader.leader_epoch, brokers
            )
        elif error.refresh_retriable:
            self._context.metadata.refresh_now(f"{recbuf.topic}-{recbuf.partition}: {error.name}")
