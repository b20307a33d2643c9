"""Transactional producers of a cluster with virtual time: plain requests, to the node that is responsible."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.coordinator.internal_topics import TRANSACTIONS_TOPIC
from ottla.errors import BrokerError
from ottla.wire import Message
from ottla.wire.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from ottla.wire.records import decode_fetch
from tests.broker.worlds import Client, World, batch, in_simulation

ID, TOPIC = "me", "orders"
NONE, LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 0, 14, 15, 16
INVALID_EPOCH, INVALID_STATE, MAPPING, CONCURRENT, FENCED = 47, 48, 49, 51, 90

_R = TypeVar("_R", bound=Message)


class TransactionsWorld:
    """A cluster, a topic of two partitions on all its nodes, and producers with one transactional id."""

    def __init__(self, world: World, cluster: AsyncCluster) -> None:
        self.world = world
        self.cluster = cluster
        self.clock = cluster.node(1).runtime.clock
        self._clients: dict[object, Client] = {}

    async def begin(self) -> None:
        await self.cluster.create_topic(TOPIC, 2, replicas=len(self.cluster.nodes))
        request = FindCoordinatorRequest(key=ID, key_type=1)
        await (await self.client(1)).ask(request, 3, FindCoordinatorResponse)
        await self.loaded()
        await self.cluster.wait_until_in_sync(TRANSACTIONS_TOPIC)

    # Nodes

    @property
    def partition(self) -> int:
        return next(iter(self.cluster.nodes.values())).transactions.partition_of(ID)

    @property
    def coordinator(self) -> int:
        return self.cluster.leader(TRANSACTIONS_TOPIC, self.partition)

    def status(self) -> str:
        """What the coordinator has of the id."""
        node = self.cluster.node(self.coordinator)
        return node.transactions.read(ID, lambda shard: shard.states[ID].status.label)

    def _is_loaded(self) -> bool:
        try:
            self.cluster.node(self.coordinator).transactions.read(ID, lambda shard: None)
        except (BrokerError, KeyError, ValueError, RuntimeError):
            return False
        return True

    async def loaded(self) -> None:
        await self.cluster.wait_for(self._is_loaded, "the coordinator")

    async def settled(self) -> str:
        """The state, when no marker is on its way."""

        def is_settled() -> bool:
            return self._is_loaded() and not self.status().startswith("Prepare")

        await self.cluster.wait_for(is_settled, "the markers")
        return self.status()

    async def client(self, node: int) -> Client:
        key = self.cluster.node(node)
        if key not in self._clients:
            self._clients[key] = await self.world.client(self.cluster, node)
        return self._clients[key]

    async def move(self) -> None:
        """Another node leads the partition, and has loaded it."""
        before = self.coordinator
        await self.cluster.move_leader(TRANSACTIONS_TOPIC, self.partition, before % 3 + 1)
        await self.cluster.wait_for(lambda: self.coordinator != before, "the move")
        await self.loaded()

    async def lead_from_outside(self) -> int:
        """A node leads the first partition that has no replica of the coordinator's; the node."""
        partition = self.cluster.node(1).image.partition(TRANSACTIONS_TOPIC, self.partition)
        assert partition is not None
        (outside,) = set(self.cluster.nodes) - set(partition.replicas)
        if self.cluster.leader(TOPIC, 0) != outside:
            await self.cluster.move_leader(TOPIC, 0, outside)
            await self.cluster.wait_for(lambda: self.cluster.leader(TOPIC, 0) == outside, "the leader")
        return outside

    async def kill(self, node: int) -> None:
        """The node is gone without a word, and the cluster has noticed."""
        await self.cluster.stop_node(node, clean=False)
        await self.cluster.fence_node(node)
        await self.cluster.wait_for(
            lambda: all(not each.image.brokers[node].alive for each in self.cluster.nodes.values()),
            f"the end of node {node}",
        )

    # Requests

    async def _ask(self, request: Message, version: int, expected: type[_R], node: int | None = None) -> _R:
        return await (await self.client(node or self.coordinator)).ask(request, version, expected)

    async def init_once(
        self, producer: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000
    ) -> tuple[int, int, int]:
        request = InitProducerIdRequest(
            transactional_id=ID,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer[0],
            producer_epoch=producer[1],
        )
        response = await self._ask(request, 5, InitProducerIdResponse)
        return response.error_code, response.producer_id, response.producer_epoch

    async def init(self, producer: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000) -> tuple[int, int]:
        """Until it has succeeded, as a producer does it."""
        while True:
            code, *found = await self.init_once(producer, timeout_ms)
            if code not in (LOADING, CONCURRENT):
                assert code == NONE
                return found[0], found[1]
            await self.clock.sleep(0.1)

    async def add(self, producer: tuple[int, int], *partitions: int) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
                    name=TOPIC, partitions=list(partitions or (0,))
                )
            ],
        )
        response = await self._ask(request, 3, AddPartitionsToTxnResponse)
        codes = {
            partition.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        }
        (code,) = codes
        return code

    async def produce(
        self,
        producer: tuple[int, int],
        *values: bytes,
        partition: int = 0,
        sequence: int = 0,
        version: int = 12,
    ) -> int:
        records = batch(
            *values,
            transactional=True,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
        )
        data = ProduceRequest.PartitionProduceData(index=partition, records=records)
        request = ProduceRequest(
            transactional_id=ID,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])],
        )
        node = self.cluster.leader(TOPIC, partition)
        response = await self._ask(request, version, ProduceResponse, node)
        return response.responses[0].partition_responses[0].error_code

    async def end(
        self, producer: tuple[int, int], *, commit: bool, version: int = 5
    ) -> tuple[int, tuple[int, int]]:
        request = EndTxnRequest(
            transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )
        response = await self._ask(request, version, EndTxnResponse)
        return response.error_code, (response.producer_id, response.producer_epoch)

    async def end_at(self, node: int, producer: tuple[int, int], *, commit: bool) -> int:
        """The error code of a node that may not be the coordinator."""
        request = EndTxnRequest(
            transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )
        return (await self._ask(request, 5, EndTxnResponse, node)).error_code

    async def ended(self, producer: tuple[int, int], *, commit: bool, version: int = 5) -> tuple[int, int]:
        """Until the coordinator knows it, as a producer does it."""
        while True:
            await self.loaded()
            code, following = await self.end(producer, commit=commit, version=version)
            if code not in (LOADING, NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT):
                assert code == NONE
                return following
            await self.clock.sleep(0.1)

    async def read(self, partition: int = 0) -> tuple[list[bytes], int]:
        """What a reader of committed records gets, and how far it can read."""
        values: list[bytes] = []
        position = 0
        while True:
            fetched = await self._fetch_committed(partition, position)
            if not fetched.records:
                assert position == fetched.last_stable_offset
                return values, position
            aborted = [(each.producer_id, each.first_offset) for each in fetched.aborted_transactions or ()]
            records = decode_fetch(bytes(fetched.records), TOPIC, partition, offset=position, aborted=aborted)
            values += [record.value or b"" for record in records]
            position = records.next_offset

    async def _fetch_committed(self, partition: int, offset: int) -> FetchResponse.PartitionData:
        wanted = FetchRequest.FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            max_bytes=1 << 24,
            isolation_level=1,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic=TOPIC, partitions=[wanted])],
        )
        response = await self._ask(request, 12, FetchResponse, self.cluster.leader(TOPIC, partition))
        return response.responses[0].partitions[0]

    def end_offset(self, partition: int = 0) -> int:
        node = self.cluster.node(self.cluster.leader(TOPIC, partition))
        return node.replicas.partitions[TOPIC, partition].log.log_end_offset


def play(story: Callable[[TransactionsWorld], Awaitable[None]], brokers: int = 3, **config: object) -> None:
    async def main(world: World) -> None:
        options: dict[str, object] = {"transaction.state.log.num.partitions": 2, **config}
        async with world.cluster(brokers, config=options) as cluster:
            transactions = TransactionsWorld(world, cluster)
            await transactions.begin()
            await story(transactions)

    in_simulation(main)
