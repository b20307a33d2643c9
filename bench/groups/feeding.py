"""Records for every partition of a topic, all the time."""

from __future__ import annotations

import threading
import uuid
from types import TracebackType
from typing import Self

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

INTERVAL = 0.005
"""Seconds between two records of one partition: what a gap is measured with."""
_DEADLINE = 30.0


def create_topic(bootstrap: str, partitions: int) -> str:
    name = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(_DEADLINE)
    return name


class Feed:
    """Writes to each partition of a topic in turn, in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, "acks": 1, "log_level": 0})
        self._topic = topic
        self._partitions = partitions
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed")

    def __enter__(self) -> Self:
        # The first record is there before anybody reads.
        self._write()
        self._producer.flush(_DEADLINE)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stops.set()
        self._thread.join()
        self._producer.flush(_DEADLINE)

    def _run(self) -> None:
        while not self._stops.wait(INTERVAL):
            self._write()
            self._producer.poll(0)

    def _write(self) -> None:
        for partition in range(self._partitions):
            self._producer.produce(self._topic, b"0123456789", partition=partition)
