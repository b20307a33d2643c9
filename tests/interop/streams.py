"""Producers at work while something is done to their cluster, and what has to be there in the end.

An idempotent producer sends numbers round the partitions of a topic with a replica on each node, two of which have
to be in sync. Whatever happens meanwhile: every number is there once, in order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.interop.brokers import Broker
from tests.interop.peers import Outcome, Peer
from tests.interop.waiting import eventually

PARTITIONS = 3
DURABLE = {"min.insync.replicas": "2"}


class Stream:
    """A producer at work in a thread, and how far it has come."""

    def __init__(self, peer: Peer, broker: Broker, topic: str) -> None:
        self._number = 0
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._outcome = self._pool.submit(peer.stream, broker.bootstrap, topic, PARTITIONS, self._more)

    def wait_for_more(self, records: int = 300) -> None:
        """Until so many more were sent: the next disturbance meets a producer at full speed."""
        wanted = self._number + records
        eventually(
            lambda: self._number >= wanted or self._outcome.done(), f"record {wanted} to be sent", within=90
        )

    def finish(self) -> Outcome:
        self._stopped.set()
        try:
            return self._outcome.result(120)
        finally:
            self._pool.shutdown()

    def _more(self, number: int) -> bool:
        self._number = number
        return not self._stopped.is_set()


def undisturbed(peer: Peer, broker: Broker, disturb: Callable[[str, Stream], None]) -> None:
    """Every number that was sent is there once, in order, whatever was done meanwhile."""
    topic = broker.create_topic(PARTITIONS, DURABLE)
    stream = Stream(peer, broker, topic)
    try:
        stream.wait_for_more()
        disturb(topic, stream)
        stream.wait_for_more()
    finally:
        outcome = stream.finish()
    assert outcome.errors == []
    for partition in range(PARTITIONS):
        wanted = [b"%d" % number for number in range(partition, outcome.sent, PARTITIONS)]
        found = peer.consume(broker.bootstrap, topic, len(wanted), partition=partition)
        assert [record.value for record in found] == wanted
        assert peer.range_of(broker.bootstrap, topic, partition) == (0, len(wanted))
