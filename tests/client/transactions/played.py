"""A cluster of one played broker that serves transactions, as far as a producer needs it, and fails by script.

It is the coordinator and the leader of everything at once, so that a test can say what each request gets: an error
code, no response before anything is done, or none after it. What it keeps is what Kafka would have: whether a
transaction is open, under which epoch, and which batches lie in which partition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.client.client import AsyncClient
from ottla.net.connection import Connection
from ottla.wire import Message, Uuid, api_for_key, decode_request
from ottla.wire.batches import BatchHeader, batch_headers
from ottla.wire.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    GetTelemetrySubscriptionsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
    RequestHeader,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from tests.client.connections.peers import PlayedBroker, all_versions, answer
from tests.client.worlds import World, in_simulation

TOPIC = "orders"
TOPIC_ID = Uuid(bytes(range(16)))
DROP = "drop"
"""The request is lost."""
LOSE = "lose"
"""It is carried out, and its response is lost."""
CONCURRENT, INVALID_STATE, FENCED, INVALID_EPOCH, ABORTABLE = 51, 48, 90, 47, 120


@dataclass
class Coordinated:
    """What the coordinator knows of the transactional id."""

    producer_id: int = 7
    epoch: int = -1
    is_open: bool = False
    outcome: bool | None = None
    """How the last one has ended."""
    ended_epoch: int = -1
    partitions: set[int] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)


class PlayedKafka(PlayedBroker):
    """`script[api]` is what the next requests of that API get, in order: a code, DROP or LOSE; then all goes well."""

    def __init__(self, version: int = 2, partitions: int = 2, most: dict[str, int] | None = None) -> None:
        super().__init__(greet=self._say_versions)
        self.version = version
        self.features_epoch = 1
        self.known = Coordinated()
        self.log: dict[int, list[BatchHeader]] = {number: [] for number in range(partitions)}
        self.ends: list[tuple[bool, int]] = []
        """Every transaction that was ended: whether committed, and at which epoch."""
        self.offsets: dict[str, dict[tuple[str, int], int]] = {}
        self.script: dict[str, list[int | str]] = {}
        self.asked: list[tuple[str, int, Message]] = []
        """Every request: its name, its version and itself."""
        self._most = most or {}
        self._handlers: dict[str, Callable[[Any, int], Message]] = {
            "Metadata": self._metadata,
            "FindCoordinator": self._find,
            "InitProducerId": self._init,
            "AddPartitionsToTxn": self._add_partitions,
            "AddOffsetsToTxn": self._add_offsets,
            "TxnOffsetCommit": self._commit_offsets,
            "EndTxn": self._end,
            "DescribeTransactions": self._describe,
            "Produce": self._produce,
            "GetTelemetrySubscriptions": lambda request, code: GetTelemetrySubscriptionsResponse(
                error_code=35
            ),
        }

    def count(self, api: str) -> int:
        return sum(name == api for name, _, _ in self.asked)

    def versions(self, api: str) -> list[int]:
        return [version for name, version, _ in self.asked if name == api]

    def will(self, api: str, *actions: int | str) -> None:
        self.script[api] = list(actions)

    def _say_versions(self, header: RequestHeader) -> list[bytes]:
        keys = all_versions()
        for each in keys:
            name = api_for_key(each.api_key).name
            each.max_version = min(each.max_version, self._most.get(name, each.max_version))
        feature = ApiVersionsResponse.FinalizedFeatureKey(
            name="transaction.version", max_version_level=self.version, min_version_level=self.version
        )
        return answer(
            header,
            ApiVersionsResponse(
                api_keys=keys, finalized_features_epoch=self.features_epoch, finalized_features=[feature]
            ),
        )

    def _take(self, connection: Connection, frame: memoryview) -> None:
        header, request = decode_request(bytes(frame))
        if isinstance(request, ApiVersionsRequest):
            super()._take(connection, frame)
            return
        name = api_for_key(request.API_KEY).name
        self.asked.append((name, header.request_api_version, request))
        waiting = self.script.get(name)
        action = waiting.pop(0) if waiting else 0
        if action == DROP:
            connection.close()
            return
        response = self._handlers[name](request, action if isinstance(action, int) else 0)
        if action == LOSE:
            connection.close()
            return
        connection.send(answer(header, response))

    # What it serves

    def _metadata(self, request: MetadataRequest, code: int) -> Message:
        brokers = [
            MetadataResponse.MetadataResponseBroker(
                node_id=1, host=self.listener.host, port=self.listener.port
            )
        ]
        partitions = [
            MetadataResponse.MetadataResponsePartition(
                partition_index=number, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
            )
            for number in self.log
        ]
        topics = [
            MetadataResponse.MetadataResponseTopic(
                name=each.name,
                topic_id=TOPIC_ID if each.name == TOPIC else Uuid(bytes(16)),
                partitions=partitions if each.name == TOPIC else [],
                error_code=0 if each.name == TOPIC else 3,
            )
            for each in request.topics or []
        ]
        return MetadataResponse(brokers=brokers, cluster_id="played", controller_id=1, topics=topics)

    def _find(self, request: FindCoordinatorRequest, code: int) -> Message:
        return FindCoordinatorResponse(
            coordinators=[
                FindCoordinatorResponse.Coordinator(
                    key=key, node_id=1, host=self.listener.host, port=self.listener.port, error_code=code
                )
                for key in request.coordinator_keys
            ]
        )

    def _init(self, request: InitProducerIdRequest, code: int) -> Message:
        known = self.known
        if code:
            return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
        if known.is_open:
            known.is_open = False
            self.ends.append((False, known.epoch))
        known.epoch += 1
        known.outcome = None
        return InitProducerIdResponse(producer_id=known.producer_id, producer_epoch=known.epoch)

    def _add_partitions(self, request: AddPartitionsToTxnRequest, code: int) -> Message:
        named = [(topic.name, number) for topic in request.v3_and_below_topics for number in topic.partitions]
        if not code:
            code = self._check(request.v3_and_below_producer_epoch)
        if not code:
            self.known.is_open = True
            self.known.partitions.update(number for _, number in named)
        result = AddPartitionsToTxnResponse
        return result(
            results_by_topic_v3_and_below=[
                result.AddPartitionsToTxnTopicResult(
                    name=name,
                    results_by_partition=[
                        result.AddPartitionsToTxnPartitionResult(
                            partition_index=number, partition_error_code=code
                        )
                    ],
                )
                for name, number in named
            ]
        )

    def _add_offsets(self, request: AddOffsetsToTxnRequest, code: int) -> Message:
        code = code or self._check(request.producer_epoch)
        if not code:
            self.known.is_open = True
            self.known.groups.add(request.group_id)
        return AddOffsetsToTxnResponse(error_code=code)

    def _commit_offsets(self, request: TxnOffsetCommitRequest, code: int) -> Message:
        code = code or self._check(request.producer_epoch)
        if not code and self.version < 2 and request.group_id not in self.known.groups:
            code = INVALID_STATE
        if not code:
            self.known.is_open = True
            self.known.groups.add(request.group_id)
            offsets = self.offsets.setdefault(request.group_id, {})
            for topic in request.topics:
                for each in topic.partitions:
                    offsets[topic.name, each.partition_index] = each.committed_offset
        result = TxnOffsetCommitResponse
        return result(
            topics=[
                result.TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        result.TxnOffsetCommitResponsePartition(
                            partition_index=each.partition_index, error_code=code
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _end(self, request: EndTxnRequest, code: int) -> Message:
        known = self.known
        if code:
            return EndTxnResponse(error_code=code)
        if self.version >= 2:
            return self._end_and_bump(request)
        if request.producer_epoch != known.epoch:
            return EndTxnResponse(error_code=FENCED)
        if not known.is_open:
            return EndTxnResponse(error_code=0 if known.outcome is request.committed else INVALID_STATE)
        self._ended(request)
        return EndTxnResponse()

    def _end_and_bump(self, request: EndTxnRequest) -> Message:
        known = self.known
        if request.producer_epoch == known.epoch - 1 and not known.is_open and known.outcome is not None:
            code = 0 if known.outcome is request.committed else INVALID_STATE
        elif request.producer_epoch != known.epoch:
            code = FENCED
        elif not known.is_open and request.committed:
            code = INVALID_STATE
        else:
            code = 0
            self._ended(request)
            known.epoch += 1
        if code:
            return EndTxnResponse(error_code=code)
        return EndTxnResponse(producer_id=known.producer_id, producer_epoch=known.epoch)

    def _describe(self, request: DescribeTransactionsRequest, code: int) -> Message:
        known = self.known
        states = {None: "Empty", True: "CompleteCommit", False: "CompleteAbort"}
        (transactional_id,) = request.transactional_ids
        return DescribeTransactionsResponse(
            transaction_states=[
                DescribeTransactionsResponse.TransactionState(
                    error_code=code,
                    transactional_id=transactional_id,
                    transaction_state="Ongoing" if known.is_open else states[known.outcome],
                    producer_id=known.producer_id,
                    producer_epoch=known.epoch,
                )
            ]
        )

    def _ended(self, request: EndTxnRequest) -> None:
        self.ends.append((request.committed, request.producer_epoch))
        self.known.is_open = False
        self.known.outcome = request.committed
        self.known.partitions, self.known.groups = set(), set()

    def _check(self, epoch: int) -> int:
        return 0 if epoch == self.known.epoch else FENCED

    def _produce(self, request: ProduceRequest, code: int) -> Message:
        result = ProduceResponse
        return result(
            responses=[
                result.TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        self._append(request, each.index, each.records, code) for each in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    def _append(
        self, request: ProduceRequest, number: int, records: Any, code: int
    ) -> ProduceResponse.PartitionProduceResponse:
        (batch,) = batch_headers(bytes(records))
        assert request.transactional_id is not None
        assert batch.is_transactional
        log = self.log[number]
        same = [
            each
            for each in log
            if (each.producer_epoch, each.base_sequence) == (batch.producer_epoch, batch.base_sequence)
        ]
        last = [each for each in log if each.producer_epoch == batch.producer_epoch]
        expected = last[-1].base_sequence + last[-1].count if last else 0
        if not code and batch.producer_epoch != self.known.epoch:
            code = INVALID_EPOCH
        if not code and self.version < 2 and number not in self.known.partitions:
            code = INVALID_STATE
        if not code and not same and batch.base_sequence != expected:
            code = 45
        if not code:
            self.known.is_open = True
            self.known.partitions.add(number)
            if not same:
                log.append(batch)
        return ProduceResponse.PartitionProduceResponse(
            index=number,
            error_code=code,
            base_offset=-1 if code else sum(each.count for each in log) - batch.count,
        )

    def stored(self, number: int = 0) -> int:
        """Records of one partition."""
        return sum(each.count for each in self.log[number])


OPTIONS: dict[str, Any] = {
    "transactional_id": "billing",
    "linger_ms": 0,
    "retry_backoff_ms": 10,
    "retry_backoff_max_ms": 50,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 20,
    "metadata_min_age_ms": 10,
    "enable_metrics_push": False,
}


def with_played(
    body: Callable[[World, PlayedKafka, AsyncClient], Any],
    version: int = 2,
    *,
    most: dict[str, int] | None = None,
    **options: Any,
) -> None:
    """Runs the body in a simulation, with a played cluster and a transactional client of it."""

    async def main(world: World) -> None:
        kafka = PlayedKafka(version, most=most)
        await kafka.listen(world)
        client = world.client(kafka.bootstrap, **{**OPTIONS, **options})
        try:
            await body(world, kafka, client)
        finally:
            await client.close(1.0)
            await kafka.close()

    in_simulation(main)
