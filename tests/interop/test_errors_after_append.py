"""What Apache Kafka answers for a batch that it has appended when the leader moves before the others have it.

The code is that of an error before the append; only the offset beside it tells. The client relies on that.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.errors import NotLeaderOrFollowerError
from ottla.wire.messages import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from ottla.wire.records import Accumulator
from tests.interop.apache import ApacheKafka
from tests.interop.brokers import ApacheBroker
from tests.interop.plain import Connection
from tests.interop.waiting import eventually

_VERSION = 11
_LONG_MS = 60_000
_ANY_REPLICA = -2


def _addresses(bootstrap: str) -> dict[int, str]:
    with Connection(bootstrap) as connection:
        answer = connection.ask(MetadataRequest(topics=[]), 12)
    assert isinstance(answer, MetadataResponse)
    return {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}


def _produce(address: str, topic: str, value: bytes) -> ProduceResponse.PartitionProduceResponse:
    accumulator = Accumulator(batch_size=1 << 16, max_bytes=1 << 20)
    accumulator.append(topic, 0, None, value)
    (batch,) = accumulator.drain(topic, 0, force=True)
    batch.seal()
    data = ProduceRequest.PartitionProduceData(index=0, records=bytes(memoryview(batch)))
    topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
    with Connection(address) as connection:
        answer = connection.ask(ProduceRequest(acks=-1, timeout_ms=_LONG_MS, topic_data=topics), _VERSION)
    assert isinstance(answer, ProduceResponse)
    return answer.responses[0].partition_responses[0]


def _log_end(address: str, topic: str) -> int:
    """Of the leader's own log, whatever the others have."""
    request = ListOffsetsRequest
    wanted = request.ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [request.ListOffsetsTopic(name=topic, partitions=[wanted])]
    with Connection(address) as connection:
        answer = connection.ask(request(replica_id=_ANY_REPLICA, topics=topics), 5)
    assert isinstance(answer, ListOffsetsResponse)
    return answer.topics[0].partitions[0].offset


@pytest.mark.kafka_full
def test_a_leader_that_moves_while_a_batch_waits_for_replicas_names_the_offset_of_the_batch(
    kafka_installed: None,
) -> None:
    # The node that is halted is to stay in sync.
    patient = {"broker.session.timeout.ms": "120000", "replica.lag.time.max.ms": "120000"}
    with ApacheKafka(nodes=3, properties=patient) as kafka, ThreadPoolExecutor(1) as pool:
        broker = ApacheBroker(kafka)
        topic = broker.create_topic()
        addresses = _addresses(kafka.bootstrap)
        leader, other, halted = kafka.node_ids
        broker.move_leader(topic, 0, leader)
        assert _produce(addresses[leader], topic, b"0").base_offset == 0
        os.kill(kafka.pid(halted), signal.SIGSTOP)
        try:
            pending = pool.submit(_produce, addresses[leader], topic, b"1")
            eventually(lambda: _log_end(addresses[leader], topic) == 2, "the batch to be appended")
            assert not pending.done()
            broker.move_leader(topic, 0, other)
            answer = pending.result(60)
        finally:
            os.kill(kafka.pid(halted), signal.SIGCONT)
        assert (answer.error_code, answer.base_offset) == (NotLeaderOrFollowerError.code, 1)
