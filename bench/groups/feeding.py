"""Records for every partition of a topic, at a steady rate, by a process of its own.

Both clients read what ottla writes: confluent-kafka's producer sends a request for each partition, and some thousand
of these in a second take half of a small machine from what is measured.
"""

from __future__ import annotations

import threading
import time
import uuid

import ottla

INTERVAL = 0.05
"""Seconds between two records of one partition: what a gap is measured with. All members wake for them at the same
time, so much more often a machine of two cores would be busy with that alone."""
_DEADLINE = 30.0


def create_topic(bootstrap: str, partitions: int) -> str:
    name = f"bench-{uuid.uuid4().hex[:8]}"
    with ottla.Client(bootstrap) as client:
        client.admin.create_topic(name, partitions, 1)
    return name


class Feed:
    """Writes a record to each partition of a topic, again and again by the clock, until it is closed."""

    def __init__(self, bootstrap: str) -> None:
        self._client = ottla.Client(bootstrap, linger_ms=1)
        self._stops = threading.Event()
        self._thread: threading.Thread | None = None

    def handle(self, do: str, topic: str, partitions: int) -> None:
        if do != "start" or self._thread is not None:
            raise ValueError(f"this feed cannot {do}")
        self._write(topic, partitions)
        self._client.flush(_DEADLINE)
        self._thread = threading.Thread(target=self._run, args=(topic, partitions), name="feed")
        self._thread.start()

    def close(self) -> None:
        self._stops.set()
        if self._thread is not None:
            self._thread.join()
        self._client.close()

    def _run(self, topic: str, partitions: int) -> None:
        due = time.monotonic()
        while not self._stops.wait(max(0.0, due - time.monotonic())):
            self._write(topic, partitions)
            # What the machine has kept it from is not made up for: records in a bunch say nothing about a gap.
            due = max(due + INTERVAL, time.monotonic())

    def _write(self, topic: str, partitions: int) -> None:
        for partition in range(partitions):
            self._client.produce(topic, b"0123456789", partition=partition)
