"""Idempotent producers while leaders move and nodes come and go: nothing is lost, nothing comes twice."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.interop.brokers import Broker
from tests.interop.peers import PEERS, Peer
from tests.interop.streams import PARTITIONS, Stream, undisturbed

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


@pytest.fixture(autouse=True)
def _dropped_sockets_end_here() -> Iterator[None]:
    yield
    gc.collect()


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
