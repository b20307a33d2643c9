"""Transactional producers by plain requests, in clusters whose transaction coordinator a test plays."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.wire.messages import (
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.broker.worlds import Client, batch

Produced = ProduceResponse.PartitionProduceResponse
TV1, TV2 = 11, 12
"""Versions of Produce of producers with transactions of version 1 and 2."""


def transactional_batch(*values: bytes, producer: tuple[int, int, int], transactional: bool = True) -> bytes:
    producer_id, epoch, sequence = producer
    return batch(
        *values,
        transactional=transactional,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


@dataclass
class Producer:
    """One producer; `epoch` and `sequence` are those of its next batch."""

    client: Client
    topic: str = "orders"
    id: int = 1
    epoch: int = 0
    sequence: int = 0
    version: int = TV2

    async def send(
        self, *values: bytes, partition: int = 0, acks: int = -1, transactional_id: str | None = "tx"
    ) -> Produced:
        """Sends one batch; its sequences are used up where it was taken."""
        records = transactional_batch(*values, producer=(self.id, self.epoch, self.sequence))
        data = ProduceRequest.PartitionProduceData(index=partition, records=records)
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=5000,
            topic_data=[ProduceRequest.TopicProduceData(name=self.topic, partition_data=[data])],
        )
        response = await self.client.ask(request, self.version, ProduceResponse)
        produced = response.responses[0].partition_responses[0]
        if not produced.error_code:
            self.sequence += len(values)
        return produced

    async def end(
        self,
        *partitions: tuple[str, int],
        commit: bool = True,
        coordinator_epoch: int = 0,
        version: int | None = None,
        epoch: int | None = None,
    ) -> list[int]:
        """What the coordinator does at the end of a transaction: the codes of the partitions."""
        transaction_version = (2 if self.version >= TV2 else 1) if version is None else version
        if epoch is None:
            epoch = self.epoch + (1 if transaction_version == 2 else 0)
        codes = await write_markers(
            self.client,
            self.id,
            epoch,
            *(partitions or ((self.topic, 0),)),
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        if transaction_version == 2 and not any(codes):
            self.epoch, self.sequence = epoch, 0
        return codes


async def write_markers(
    client: Client,
    producer_id: int,
    epoch: int,
    *partitions: tuple[str, int],
    commit: bool = True,
    coordinator_epoch: int = 0,
    transaction_version: int = 1,
) -> list[int]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )
    response = await client.ask(WriteTxnMarkersRequest(markers=[marker]), 2, WriteTxnMarkersResponse)
    return codes_of(response, producer_id, *partitions)


def codes_of(response: WriteTxnMarkersResponse, producer_id: int, *partitions: tuple[str, int]) -> list[int]:
    (result,) = (each for each in response.markers if each.producer_id == producer_id)
    codes = {
        (topic.name, partition.partition_index): partition.error_code
        for topic in result.topics
        for partition in topic.partitions
    }
    return [codes[key] for key in partitions]


async def fetch_committed(
    client: Client,
    topic: str = "orders",
    offset: int = 0,
    *,
    max_wait: int = 0,
    min_bytes: int = 1,
    isolation: int = 1,
) -> FetchResponse.PartitionData:
    wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=max_wait,
        min_bytes=min_bytes,
        max_bytes=1 << 24,
        isolation_level=isolation,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[wanted])],
    )
    response = await client.ask(request, 12, FetchResponse)
    return response.responses[0].partitions[0]


def aborted(fetched: FetchResponse.PartitionData) -> list[tuple[int, int]] | None:
    if fetched.aborted_transactions is None:
        return None
    return [(each.producer_id, each.first_offset) for each in fetched.aborted_transactions]
