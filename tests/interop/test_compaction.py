"""A compacted topic ends up as Apache Kafka's: the same history through both brokers, then the same batches.

A history is random, from its seed: keys, tombstones, transactions that are committed and aborted, producers with and
without ids, codecs, segments of a few batches. It comes in phases, each of which ends with exactly one pass of the
cleaner: min.compaction.lag.ms holds it back until the phase is written, and a record that the pass has to drop, in
the last segment, shows that it is through. delete.retention.ms is 0, so that what gets its horizon in one pass goes
in the next.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from ottla._native.record_batch import read_header
from ottla.broker import Cluster
from ottla.wire.batch_header import DELETE_HORIZON
from ottla.wire.records import decode_fetch
from tests.interop import confluent
from tests.interop.apache import ApacheKafka
from tests.interop.plain import Connection
from tests.interop.waiting import eventually

pytestmark = pytest.mark.kafka

PHASES = 4
SEGMENT = 3000
HELD_BACK = str(10**12)
CONFIG = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": str(SEGMENT),
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
    "min.compaction.lag.ms": HELD_BACK,
}
EAGER = {"log.cleaner.backoff.ms": "50"}
PLAIN, IDEMPOTENT, TRANSACTIONAL = "plain", "idempotent", "transactional"


class Send(NamedTuple):
    """Records of one batch, and by which producer; None ends its transaction, committed or not."""

    producer: str
    records: list[tuple[bytes, bytes | None]] | None
    commit: bool = False


@dataclass
class ReadBatch:
    """What both brokers must agree on. Producers are numbered as they come; of a horizon counts that there is one."""

    base_offset: int
    last_offset: int
    producer: int | None
    sequence: int
    attributes: int
    records: list[tuple[int, int | None, bytes | None, bytes | None]]


@pytest.fixture(scope="module")
def eager_apache(kafka_installed: None) -> Iterator[ApacheKafka]:
    with ApacheKafka(nodes=1, properties={**EAGER, "log.initial.task.delay.ms": "3600000"}) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def eager_cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, config=EAGER) as cluster:
        yield cluster


def history(seed: int) -> list[list[Send]]:
    source = random.Random(seed)
    # The last batch of a producer is aborted: it has to stay, without its records.
    aborted = [Send(TRANSACTIONAL, [(b"aborted", b"")]), Send(TRANSACTIONAL, None)]
    return [[*(step for _ in range(40) for step in _steps(source)), *aborted] for _ in range(PHASES)]


def _steps(source: random.Random) -> list[Send]:
    producer = source.choice([PLAIN, IDEMPOTENT, TRANSACTIONAL])
    if producer != TRANSACTIONAL:
        return [Send(producer, _records(source))]
    batches = [Send(producer, _records(source)) for _ in range(source.randint(1, 3))]
    return [*batches, Send(producer, None, commit=source.random() < 0.6)]


def _records(source: random.Random) -> list[tuple[bytes, bytes | None]]:
    return [
        (
            b"key %d" % source.randrange(15),
            None if source.random() < 0.25 else source.randbytes(3) * source.randrange(20),
        )
        for _ in range(source.randint(1, 6))
    ]


class Writer:
    """The producers of a history on one broker, and its topic."""

    def __init__(self, bootstrap: str, name: str, start_ms: int) -> None:
        self._bootstrap = bootstrap
        self._topic = name
        self._time = start_ms
        # Nothing leaves before a flush, so that each flush is a batch.
        common = {"bootstrap.servers": bootstrap, "linger.ms": 30_000, "log_level": 0}
        self._producers = {
            PLAIN: Producer({**common, "enable.idempotence": False, "compression.type": "zstd"}),
            IDEMPOTENT: Producer({**common, "enable.idempotence": True, "compression.type": "none"}),
            TRANSACTIONAL: Producer({**common, "transactional.id": f"of {name}", "compression.type": "lz4"}),
        }
        self._producers[TRANSACTIONAL].init_transactions(60)
        self._in_transaction = False
        self._connection = Connection(bootstrap)
        self.end_offset = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def write(self, step: Send) -> None:
        producer = self._producers[step.producer]
        if step.records is None:
            producer.commit_transaction(60) if step.commit else producer.abort_transaction(60)
            self._in_transaction = False
            self.end_offset += 1
            # The marker may come after the response of the coordinator, but has to come before what follows.
            eventually(self._has_all, "the marker")
            return
        if step.producer == TRANSACTIONAL and not self._in_transaction:
            producer.begin_transaction()
            self._in_transaction = True
        for key, value in step.records:
            self._time += 1
            producer.produce(self._topic, value, key, timestamp=self._time)
        assert producer.flush(60) == 0
        self.end_offset += len(step.records)

    def _has_all(self) -> bool:
        return self._connection.fetch(self._topic, self.end_offset - 1).high_watermark == self.end_offset


def lag(bootstrap: str, topic: str, value: str) -> None:
    resource = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry("min.compaction.lag.ms", value, incremental_operation=AlterConfigOpType.SET)
        ],
    )
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(60)


def read(bootstrap: str, topic: str) -> list[ReadBatch]:
    """Every batch of the topic, as a fetch brings it."""
    found: list[ReadBatch] = []
    producers: dict[int, int] = {}
    offset = 0
    with Connection(bootstrap) as connection:
        while True:
            answer = connection.fetch(topic, offset)
            data = memoryview(bytes(answer.records or b""))
            position = 0
            while position < len(data):
                batch = read_header(data, position)
                whole = data[position : position + batch.size]
                found.append(
                    ReadBatch(
                        batch.base_offset,
                        batch.last_offset,
                        producers.setdefault(batch.producer_id, len(producers))
                        if batch.has_producer_id
                        else None,
                        batch.base_sequence,
                        batch.attributes,
                        [
                            (
                                record.offset,
                                None if batch.is_control else record.timestamp,
                                record.key,
                                record.value,
                            )
                            for record in decode_fetch(whole, topic, 0, control=True)
                        ],
                    )
                )
                position += batch.size
                offset = batch.next_offset
            if offset >= answer.high_watermark:
                return found


def offsets(batches: list[ReadBatch]) -> set[int]:
    return {offset for batch in batches for offset, *_ in batch.records}


def run(bootstrap: str, seed: int, start_ms: int) -> list[list[ReadBatch]]:
    """What a topic holds after each phase."""
    topic = confluent.create_topic(bootstrap, config=CONFIG)
    states = []
    with Writer(bootstrap, topic, start_ms) as writer:
        for phase in history(seed):
            for step in phase:
                writer.write(step)
            goes = writer.end_offset
            writer.write(Send(PLAIN, [(b"sentinel", b"goes"), (b"sentinel", b"stays")]))
            # It fits into a segment with nothing else.
            writer.write(Send(IDEMPOTENT, [(b"fills a segment", b"x" * (SEGMENT - 100))]))
            lag(bootstrap, topic, "0")
            eventually(partial(_is_gone, bootstrap, topic, goes), "the end of a pass", within=120)
            lag(bootstrap, topic, HELD_BACK)
            states.append(read(bootstrap, topic))
    return states


def _is_gone(bootstrap: str, topic: str, offset: int) -> bool:
    return offset not in offsets(read(bootstrap, topic))


@pytest.mark.parametrize("seed", range(6))
def test_the_same_history_leaves_the_same_batches(
    eager_apache: ApacheKafka, eager_cluster: Cluster, seed: int
) -> None:
    start_ms = int(time.time() * 1000) - 3_600_000
    expected = run(eager_apache.bootstrap, seed, start_ms)
    found = run(eager_cluster.bootstrap, seed, start_ms)
    for phase, (ours, apaches) in enumerate(zip(found, expected, strict=True)):
        assert ours == apaches, f"phase {phase}"
    assert {batch.attributes & DELETE_HORIZON for batch in expected[-1]} == {0, DELETE_HORIZON}
    assert any(not batch.records for state in expected for batch in state)
