"""Sink: the outbox for one broker. It builds produce requests from the RecBufs that are ready, and reads the answers.

Draining is one synchronous step: the producer id, the sequence numbers and the request are taken in the same moment,
so that nothing can change in between. What has to be waited for (a connection, an id, the compression of a large
batch) is begun, and draining goes on when it is there. There is no permanent task.

Requests are answered in the order in which they were sent, and their answers are handled in that order: a later one
waits for those before it.

Invariants: a RecBuf is in `_ready` only of its own sink; a batch is in at most one request; and whatever becomes of a
request, each of its batches is delivered, failed or queued again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from ottla.client.connections.brokers import Brokers
from ottla.client.connections.connection import BrokerConnection
from ottla.client.connections.purposes import Purpose
from ottla.client.metadata import BrokerView, Metadata
from ottla.client.partitioners import LeaderLatency
from ottla.client.produce.answers import Verdict, error_in, given_up_error, judge
from ottla.client.produce.batch import ProducerBatch
from ottla.client.produce.outcomes import Outcomes
from ottla.client.produce.producer_id import ProducerIds
from ottla.client.produce.recbuf import EpochEnd, RecBuf
from ottla.client.produce.schedule import DrainSchedule
from ottla.client.produce.settings import ProduceSettings
from ottla.client.tasks import Tasks
from ottla.errors import (
    BrokerError,
    ClientClosedError,
    ConnectionFailedError,
    KafkaError,
    ProtocolError,
)
from ottla.runtime import Runtime, Timer
from ottla.wire import ZERO_UUID, Message, Uuid
from ottla.wire.messages import ProduceRequest, ProduceResponse
from ottla.wire.records import seal

_logger = logging.getLogger("ottla.client.produce.producer")

_TOPIC_IDS_SINCE: Final = 13
_LARGE: Final = 32 * 1024
"""Compressing more than this takes longer than handing it to a thread."""
_MOST_AHEAD: Final = 1024 * 1024
"""Bytes that wait for the socket, from which on nothing more is sent without acknowledgements."""
_ABOUT: Final = 0.2
"""The share of a back-off by which it may be shorter or longer, so that others end with it (KIP-580 has as much)."""

_EPOCH_ENDS: Final = {
    Verdict.REFUTED: EpochEnd.REFUTED,
    Verdict.NEW_EPOCH: EpochEnd.UNTOLD,
    Verdict.NEW_ID: EpochEnd.UNTOLD,
}

_Sent = tuple[RecBuf, ProducerBatch]


@dataclass(slots=True)
class SinkParts:
    """What all sinks of a client share."""

    settings: ProduceSettings
    runtime: Runtime
    brokers: Brokers
    metadata: Metadata
    tasks: Tasks
    ids: ProducerIds
    schedule: DrainSchedule
    outcomes: Outcomes
    latency: LeaderLatency


@dataclass(slots=True, eq=False)
class _Request:
    """A request that is under way: the batches by what the answer calls their partitions."""

    version: int = 0
    batches: dict[tuple[str | Uuid, int], _Sent] = field(default_factory=dict)
    answer: asyncio.Future[Message] | None = None


class Sink:
    """The produce requests to one broker."""

    def __init__(self, node_id: int, parts: SinkParts) -> None:
        self.node_id = node_id
        self._parts = parts
        self._settings = parts.settings
        self._clock = parts.runtime.clock
        # In the order in which they are served: whoever got a place in a request goes to the end.
        self._ready: dict[RecBuf, None] = {}
        self._requests: deque[_Request] = deque()
        self._connection: BrokerConnection | None = None
        self._is_connecting = False
        self._is_draining = False
        self._failures = 0
        self._phase = parts.runtime.random.uniform(0.0, 1.0)
        self._pause: Timer | None = None
        self._is_closed = False

    @property
    def in_flight(self) -> int:
        return len(self._requests)

    def add(self, recbuf: RecBuf) -> None:
        """It has something to send; drained soon, with everything else that comes until then."""
        self._ready[recbuf] = None
        self.drain_soon()

    def remove(self, recbuf: RecBuf) -> None:
        self._ready.pop(recbuf, None)

    def drain_soon(self) -> None:
        if self._ready and not self._is_draining and not self._is_closed:
            self._is_draining = True
            asyncio.get_running_loop().call_soon(self._drain)

    def close(self) -> None:
        """Sends nothing any more; what is under way is forgotten."""
        self._is_closed = True
        self._ready.clear()
        if self._pause is not None:
            self._pause.cancel()

    # Draining

    def _drain(self) -> None:
        self._is_draining = False
        while self._ready and not self._is_closed:
            connection = self._usable_connection()
            now = self._clock.monotonic()
            sendable = connection is not None and self.in_flight < self._settings.max_in_flight
            self._parts.latency.on_ready(self.node_id, now, sendable=sendable)
            if connection is None or not sendable:
                return
            request = self._take(now)
            if not request:
                return
            self._send(connection, request, now)

    def _usable_connection(self) -> BrokerConnection | None:
        """The connection, if requests may go over it now; else what leads to that is under way."""
        connection = self._connection
        if connection is None or connection.is_closed:
            if self._pause is None and not self._is_connecting:
                self._is_connecting = True
                self._parts.tasks.spawn(self._connect(), f"connect the sink of broker {self.node_id}")
            return None
        if connection.paused_until and (pause := connection.paused_until - self._clock.monotonic()) > 0:
            self._wait(pause)
            return None
        if self._settings.acks == 0 and connection.pending_bytes >= _MOST_AHEAD:
            # No answer holds it back, and what it has taken counts as delivered.
            connection.when_drained(self.drain_soon)
            return None
        return connection

    async def _connect(self) -> None:
        try:
            broker = self._parts.brokers.get(self.node_id)
            self._connection = await broker.connection(Purpose.PRODUCE)
            self._failures = 0
        except ClientClosedError:
            return
        except KafkaError as error:
            # Nothing was sent: the records wait, for this broker or for whoever leads instead of it.
            _logger.info("nothing can be produced to broker %d yet: %s", self.node_id, error)
            self._parts.metadata.refresh_now(f"broker {self.node_id} cannot be reached for producing")
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
        nameless: list[RecBuf] = []
        room = self._settings.max_request_size
        schedule, ids, ready = self._parts.schedule, self._parts.ids, self._ready
        for recbuf in list(ready):
            batch = recbuf.next_batch(now, schedule.slack)
            if batch is None or not self._is_packed(recbuf, batch):
                del ready[recbuf]
                # It may be ready later: with a time it has an alarm, and an event brings it back.
                if batch is None and (when := recbuf.ready_at()) is not None and when > now:
                    schedule.remind(recbuf, when)
                continue
            if taken and batch.encoded.size > room:
                break
            del ready[recbuf]
            if not recbuf.identify(batch, ids.current):
                # Others may have their ids: it waits behind them until one has come.
                ids.want(recbuf.retired_id)
                nameless.append(recbuf)
                continue
            # First: a hook that is told of it may abort all that is not sent.
            recbuf.sent(batch, self.node_id, now)
            self._seal(batch, now)
            room -= batch.encoded.size
            taken.append((recbuf, batch))
            if (when := recbuf.ready_at()) is not None:
                if when <= now:
                    ready[recbuf] = None
                else:
                    schedule.remind(recbuf, when)
        ready.update(dict.fromkeys(nameless))
        return taken

    def _is_packed(self, recbuf: RecBuf, batch: ProducerBatch) -> bool:
        """Whether the batch may be sealed here and now; a large one is compressed by a thread first."""
        settings = self._settings
        if batch.is_packed or settings.codec == 0 or batch.encoded.raw_size < _LARGE:
            return True
        recbuf.is_packing = True
        self._parts.tasks.spawn(self._pack(recbuf, batch), f"compress {recbuf.topic}-{recbuf.partition}")
        return False

    async def _pack(self, recbuf: RecBuf, batch: ProducerBatch) -> None:
        settings = self._settings
        try:
            await self._parts.runtime.run(seal, batch.encoded, settings.codec, settings.codec_level)
            batch.is_packed = True
        except Exception as error:
            _logger.exception("a batch to %s-%d could not be compressed", recbuf.topic, recbuf.partition)
            if not batch.is_done:
                recbuf.give_up(batch)
                self._parts.outcomes.failed(batch, error)
        finally:
            recbuf.is_packing = False
        self._parts.schedule.consider(recbuf)

    def _seal(self, batch: ProducerBatch, now: float) -> None:
        settings, encoded = self._settings, batch.encoded
        if settings.is_idempotent:
            producer_id, epoch = batch.identity
            encoded.set_producer(producer_id, epoch, batch.sequence)
        seal(encoded, settings.codec, settings.codec_level)
        if batch.sealed_at is None:
            batch.sealed_at = now
            self._parts.outcomes.sealed(batch)

    # Sending

    def _send(self, connection: BrokerConnection, taken: list[_Sent], now: float) -> None:
        try:
            message, request = self._message(connection, taken)
        except KafkaError as error:
            # This broker does not speak our Produce at all: nothing was sent.
            self._refuse_all(taken, error)
            return
        if self._settings.acks == 0:
            self._tell(connection, message, request)
            return
        self._requests.append(request)
        request.answer = connection.send(message, request.version)
        request.answer.add_done_callback(self._on_answer)
        self._parts.outcomes.written(taken)

    def _message(self, connection: BrokerConnection, taken: list[_Sent]) -> tuple[ProduceRequest, _Request]:
        version = connection.version(ProduceRequest)
        if version >= _TOPIC_IDS_SINCE and any(recbuf.topic_id == ZERO_UUID for recbuf, _ in taken):
            version = connection.version(ProduceRequest, _TOPIC_IDS_SINCE - 1)
        by_id = version >= _TOPIC_IDS_SINCE
        request = _Request(version)
        topics: dict[tuple[str, Uuid], ProduceRequest.TopicProduceData] = {}
        for recbuf, batch in taken:
            key = (recbuf.topic, recbuf.topic_id)
            topic = topics.get(key)
            if topic is None:
                topic = ProduceRequest.TopicProduceData(name=recbuf.topic, topic_id=recbuf.topic_id)
                topics[key] = topic
            topic.partition_data.append(
                ProduceRequest.PartitionProduceData(index=recbuf.partition, records=memoryview(batch.encoded))
            )
            request.batches[recbuf.topic_id if by_id else recbuf.topic, recbuf.partition] = (recbuf, batch)
        message = ProduceRequest(
            acks=self._settings.acks,
            timeout_ms=self._settings.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        return message, request

    def _tell(self, connection: BrokerConnection, message: ProduceRequest, request: _Request) -> None:
        """Without acknowledgements a batch is delivered when it is handed over."""
        try:
            connection.send_oneway(message, request.version)
        except KafkaError as error:
            self._not_sent(request, error)
            return
        now = self._clock.monotonic()
        self._parts.outcomes.written(request.batches.values())
        for recbuf, batch in request.batches.values():
            self._delivered(recbuf, batch, -1, -1, now)
        self._parts.outcomes.space_freed()

    # Answers

    def _on_answer(self, _: asyncio.Future[Message]) -> None:
        while self._requests and (answer := self._requests[0].answer) is not None and answer.done():
            request = self._requests.popleft()
            error = answer.exception() if not answer.cancelled() else ClientClosedError()
            if self._is_closed:
                continue
            if error is None:
                self._handle(request, answer.result())
            elif isinstance(error, ConnectionFailedError):
                self._not_sent(request, error)
            elif isinstance(error, ProtocolError) and not isinstance(error, BrokerError):
                self._refuse_all(list(request.batches.values()), error)
            else:
                self._lost(request, error)
        self.drain_soon()

    def _refuse_all(self, sent: list[_Sent], error: BaseException) -> None:
        for recbuf, batch in sent:
            if recbuf.answered(batch):
                self._fail(recbuf, batch, error)
            self._parts.schedule.consider(recbuf)

    def _not_sent(self, request: _Request, error: BaseException) -> None:
        for recbuf, batch in request.batches.values():
            batch.attempts -= 1
            if recbuf.answered(batch):
                self._retry(recbuf, batch, error, unsure=False, at_once=True)
            self._parts.schedule.consider(recbuf)

    def _lost(self, request: _Request, error: BaseException) -> None:
        """No answer: each batch may be stored, or not."""
        self._parts.metadata.refresh_now(f"a produce request to broker {self.node_id} had no answer")
        for recbuf, batch in request.batches.values():
            if recbuf.answered(batch):
                self._retry(recbuf, batch, error, unsure=True)
            self._parts.schedule.consider(recbuf)

    def _handle(self, request: _Request, answer: Message) -> None:
        assert isinstance(answer, ProduceResponse)
        by_id = request.version >= _TOPIC_IDS_SINCE
        left = request.batches
        now = self._clock.monotonic()
        for topic in answer.responses:
            name: str | Uuid = topic.topic_id if by_id else topic.name
            for partition in topic.partition_responses:
                sent = left.pop((name, partition.index), None)
                if sent is None:
                    _logger.error(
                        "broker %d answered for %s-%s, which was not asked",
                        self.node_id,
                        name,
                        partition.index,
                    )
                elif partition.error_code == 0:
                    self._delivered(*sent, partition.base_offset, partition.log_append_time_ms, now)
                else:
                    self._handle_error(*sent, partition, answer.node_endpoints, now)
        self._parts.outcomes.space_freed()
        if left:
            # What a broker leaves out may be stored all the same.
            _logger.error("broker %d left %d partitions of a produce request out", self.node_id, len(left))
            self._lost(request, KafkaError(f"broker {self.node_id} did not answer for this partition"))

    def _delivered(
        self, recbuf: RecBuf, batch: ProducerBatch, base_offset: int, log_append_time: int, now: float
    ) -> None:
        if recbuf.delivered(batch):
            self._parts.outcomes.delivered(batch, base_offset, log_append_time, now)
        self._parts.schedule.consider(recbuf)

    def _handle_error(
        self,
        recbuf: RecBuf,
        batch: ProducerBatch,
        answer: ProduceResponse.PartitionProduceResponse,
        endpoints: list[ProduceResponse.NodeEndpoint],
        now: float,
    ) -> None:
        error = error_in(answer, recbuf.topic, self.node_id)
        assert error is not None
        verdict = judge(
            error,
            idempotent=self._settings.is_idempotent,
            first=recbuf.is_first(batch),
            unsure=batch.is_unsure,
            appended=answer.base_offset >= 0,
            records=batch.encoded.count,
        )
        if verdict is Verdict.DELIVERED:
            self._delivered(recbuf, batch, -1, answer.log_append_time_ms, now)
            return
        if recbuf.answered(batch):
            self._carry_out(verdict, recbuf, batch, error)
            self._heed_leader(recbuf, error, answer, endpoints)
        self._parts.schedule.consider(recbuf)

    def _carry_out(self, verdict: Verdict, recbuf: RecBuf, batch: ProducerBatch, error: BrokerError) -> None:
        _logger.debug("%s-%d: %s after %s", recbuf.topic, recbuf.partition, verdict.name, error)
        if verdict is Verdict.SPLIT:
            batch.last_error = error
            recbuf.split(batch)
        elif verdict in (Verdict.FAIL, Verdict.FAIL_UNSURE):
            if verdict is Verdict.FAIL_UNSURE:
                recbuf.doubt(batch)
            self._fail(recbuf, batch, error)
        elif verdict is Verdict.RETRY_BEHIND:
            self._retry(recbuf, batch, error, unsure=False, at_once=True)
        else:
            is_expected = verdict is Verdict.REFUTED and recbuf.has_gap
            if verdict in _EPOCH_ENDS:
                level = logging.DEBUG if is_expected else logging.WARNING
                words = "%s-%d begins a new producer epoch after %s"
                _logger.log(level, words, recbuf.topic, recbuf.partition, error)
                recbuf.end_epoch(_EPOCH_ENDS[verdict], new_id=verdict is Verdict.NEW_ID)
            # Behind a batch that was given up this is no sign of trouble: nothing is gained by waiting.
            self._retry(recbuf, batch, error, unsure=verdict is Verdict.RETRY_UNSURE, at_once=is_expected)

    def _retry(
        self,
        recbuf: RecBuf,
        batch: ProducerBatch,
        error: BaseException,
        *,
        unsure: bool,
        at_once: bool = False,
    ) -> None:
        if unsure:
            recbuf.doubt(batch)
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
        step = 2 * _ABOUT * back_off
        earliest = now + (1 - _ABOUT) * back_off
        return (ceil(earliest / step - self._phase) + self._phase) * step

    def _fail(self, recbuf: RecBuf, batch: ProducerBatch, error: BaseException) -> None:
        recbuf.give_up(batch)
        self._parts.outcomes.failed(batch, given_up_error(batch, error))

    def _heed_leader(
        self,
        recbuf: RecBuf,
        error: BrokerError,
        answer: ProduceResponse.PartitionProduceResponse,
        endpoints: list[ProduceResponse.NodeEndpoint],
    ) -> None:
        """Who leads instead, if the answer says so (KIP-951); else metadata has to."""
        leader = answer.current_leader
        if leader is not None and leader.leader_id >= 0 and leader.leader_id != self.node_id:
            brokers = [BrokerView(each.node_id, each.host, each.port, each.rack) for each in endpoints]
            topic: str | Uuid = recbuf.topic if recbuf.topic_id == ZERO_UUID else recbuf.topic_id
            self._parts.metadata.hint(topic, recbuf.partition, leader.leader_id, leader.leader_epoch, brokers)
        elif error.refresh_retriable:
            self._parts.metadata.refresh_now(f"{recbuf.topic}-{recbuf.partition}: {error.name}")
