"""Kills a cluster by itself, again and again, under load, and looks whether it has all that it acknowledged.

    python -m tests.broker.kills --kills 100

What a node acknowledges it has written before it responds, so it outlives the process, whatever becomes of it. An
idempotent producer of confluent-kafka, which knows nothing of all that, sends records with numbers throughout. In the
end every record that it was told of is where it was told, once, and numbers grow in every partition.
"""

from __future__ import annotations

import argparse
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

TOPIC = "orders"
PARTITIONS = 4
RECORDS_BETWEEN_KILLS = 400
WITHIN = 180.0


def run(kills: int, data_dir: Path, brokers: int = 1) -> int:
    """How many records were acknowledged; an AssertionError if one of them is not as it should be."""
    ports = _free_ports(brokers)
    load = _Load(f"127.0.0.1:{ports}")
    for number in range(kills):
        with _cluster(data_dir, ports, brokers) as process:
            load.produce(RECORDS_BETWEEN_KILLS * (number + 1))
            process.send_signal(signal.SIGKILL)
    with _cluster(data_dir, ports, brokers):
        load.finish()
        _check(load.acknowledged, _stored(load.bootstrap))
    return sum(map(len, load.acknowledged.values()))


def _free_ports(count: int) -> int:
    """The first of some ports in a row.

    From below those that a system gives to connections: it would give them away while the cluster is down.
    """
    while True:
        first = random.randrange(20_000, 32_000)
        if all(_is_free(port) for port in range(first, first + count)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@contextmanager
def _cluster(data_dir: Path, port: int, brokers: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "ottla.broker", "--data-dir", str(data_dir), "--port", str(port)]
    command += ["--brokers", str(brokers), "--topic", f"{TOPIC}:{PARTITIONS}", "--log", "error"]
    # Small segments: kills come while they roll as well.
    command += ["--config", "log.segment.bytes=1048576", "--config", "log.index.interval.bytes=1024"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().strip(), "it does not start"
            yield process
        finally:
            process.kill()


class _Load:
    """A producer, and what it was told."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.acknowledged: dict[int, dict[int, bytes]] = defaultdict(dict)
        """By partition and offset."""
        self._count = self._sent = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 20,
                "message.timeout.ms": int(WITHIN * 1000),
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def produce(self, acknowledged: int) -> None:
        """Sends until that many are acknowledged, with some more on their way."""
        deadline = time.monotonic() + WITHIN
        while self._count < acknowledged:
            assert time.monotonic() < deadline, f"{self._count} records are acknowledged, not {acknowledged}"
            while self._sent - self._count < RECORDS_BETWEEN_KILLS // 2:
                value = b"%d" % self._sent
                self._producer.produce(
                    TOPIC, value, partition=self._sent % PARTITIONS, on_delivery=self._told
                )
                self._sent += 1
            self._producer.poll(0.05)

    def finish(self) -> None:
        """Until all that was sent is acknowledged."""
        assert not self._producer.flush(WITHIN), "not all records are acknowledged"
        assert self._count == self._sent

    def _told(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert isinstance(value, bytes)
        assert offset not in self.acknowledged[partition], f"offset {offset} is given twice"
        self.acknowledged[partition][offset] = value
        self._count += 1


def _stored(bootstrap: str) -> dict[int, dict[int, bytes]]:
    """All records, by partition and offset."""
    found: dict[int, dict[int, bytes]] = {}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "kills", "log_level": 0})
    try:
        for index in range(PARTITIONS):
            found[index] = _read(consumer, index)
    finally:
        consumer.close()
    return found


def _read(consumer: Consumer, index: int) -> dict[int, bytes]:
    low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, index), timeout=WITHIN)
    assert low == 0
    consumer.assign([TopicPartition(TOPIC, index, low)])
    records: dict[int, bytes] = {}
    while len(records) < high:
        message = consumer.poll(WITHIN)
        assert message is not None, f"partition {index} has {len(records)} records, it should have {high}"
        assert message.error() is None, message.error()
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert isinstance(value, bytes)
        records[offset] = value
    return records


def _check(acknowledged: dict[int, dict[int, bytes]], stored: dict[int, dict[int, bytes]]) -> None:
    for index, records in stored.items():
        numbers = [int(records[offset]) for offset in sorted(records)]
        assert numbers == sorted(set(numbers)), f"partition {index} has records twice, or out of order"
        lost = acknowledged[index].items() - records.items()
        assert not lost, f"partition {index} has lost {sorted(lost)[:5]}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.broker.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--brokers", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        count = run(options.kills, Path(directory), options.brokers)
    sys.stdout.write(f"{options.kills} kills, {count} records acknowledged, none lost, none twice\n")


if __name__ == "__main__":
    main()
