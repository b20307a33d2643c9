"""Idempotent producers while leaders move and nodes come and go: nothing is lost, nothing comes twice."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.interop.brokers import Broker
from tests.interop.peers import PEERS, Outcome, Peer
from tests.interop.waiting import eventually

PARTITIONS = 3
FIRST, *OTHERS = PEERS
# Apache Kafka is here to show that the tests are right; one client does for that.
every_peer = pytest.mark.parametrize(
    ("broker3", "peer"),
    [
        *(pytest.param("ottla", peer, id=f"ottla-{peer.name}") for peer in PEERS),
        pytest.param("apache", FIRST, id=f"apache-{FIRST.name}", marks=pytest.mark.kafka),
        *(
            pytest.param("apache", peer, id=f"apache-{peer.name}", marks=pytest.mark.kafka_full)
            for peer in OTHERS
        ),
    ],
    indirect=["broker3"],
)
# kafka-python drops the sockets of nodes that it did not reach without closing them.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
DURABLE = {"min.insync.replicas": "2"}


@pytest.fixture(autouse=True)
def _dropped_sockets_end_here() -> Iterator[None]:
    yield
    gc.collect()


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


@every_peer
def test_moving_leaders_loses_and_doubles_nothing(broker3: Broker, peer: Peer) -> None:
    def disturb(topic: str, stream: Stream) -> None:
        for turn in range(6):
            partition = turn % PARTITIONS
            others = [node for node in broker3.node_ids if node != broker3.leader(topic, partition)]
            broker3.move_leader(topic, partition, others[turn % len(others)])
            stream.wait_for_more()

    undisturbed(peer, broker3, disturb)


@every_peer
def test_restarting_every_node_loses_and_doubles_nothing(broker3: Broker, peer: Peer) -> None:
    def disturb(topic: str, stream: Stream) -> None:
        for node_id in broker3.node_ids:
            broker3.restart(node_id, topic, PARTITIONS)
            stream.wait_for_more()

    undisturbed(peer, broker3, disturb)
