"""Other people's producers while nodes are killed, held and cut off: all that was acknowledged is there, in order.

Idempotent producers write everything once, others at least once, and in the end all replicas are equal. On Apache
Kafka a killed node is a process that gets SIGKILL, and a held one gets SIGSTOP; its links cannot be cut there.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

import ottla
from tests.interop import confluent, tools
from tests.interop.brokers import Broker, EmbeddedBroker
from tests.interop.peers import PEERS, Peer
from tests.interop.peers.by_confluent import Confluent
from tests.interop.streams import DURABLE, PARTITIONS, Stream, undisturbed
from tests.interop.waiting import eventually

FIRST, *OTHERS = PEERS
CONFLUENT = FIRST
# One request at a time, so that the order is kept.
AT_LEAST_ONCE = Confluent(enable_idempotence=False, max_in_flight=1)
# Apache Kafka is here to show that the tests are right; one client does for that.
every_peer = pytest.mark.parametrize(
    ("failing3", "peer"),
    [
        *(pytest.param("ottla", peer, id=f"ottla-{peer.name}") for peer in PEERS),
        pytest.param("apache", FIRST, id=f"apache-{FIRST.name}", marks=pytest.mark.kafka),
        *(
            pytest.param("apache", peer, id=f"apache-{peer.name}", marks=pytest.mark.kafka_full)
            for peer in OTHERS
        ),
    ],
    indirect=["failing3"],
)
# The console producer is at work until the last of several disturbances.
LINES = 100_000
SLOWLY = (
    *("--command-property", "batch.size=500"),
    *("--command-property", "max.in.flight.requests.per.connection=1"),
)
embedded_only = pytest.mark.parametrize("failing3", ["ottla"], indirect=True)
# kafka-python drops the sockets of nodes that it did not reach without closing them.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(autouse=True)
def _dropped_sockets_end_here() -> Iterator[None]:
    yield
    gc.collect()


def wait_until_equal(broker: Broker, topic: str, partitions: int = PARTITIONS) -> None:
    """Until every replica of a partition is in sync, and as large as the others."""
    broker.wait_until_in_sync(topic, partitions)
    wanted = [ottla.TopicPartition(topic, index) for index in range(partitions)]
    with ottla.Client(broker.bootstrap) as kafka:

        def sizes() -> list[list[int]]:
            found = []
            for directories in kafka.admin.describe_log_dirs().values():
                (directory,) = directories.values()
                found.append([directory.replicas[each].size for each in wanted])
            return found

        eventually(lambda: len({tuple(each) for each in sizes()}) == 1, f"equal replicas of {topic}")


def kill(broker: Broker, topic: str) -> None:
    """Kills a leader, and starts it again when others lead."""
    node = broker.leader(topic)
    broker.kill_node(node)
    try:
        broker.wait_until_fenced(node)
    finally:
        broker.start_node(node)


def hold(broker: Broker, topic: str) -> None:
    """Holds a leader until its session has ended. When it goes on, it believes for a while that it still leads."""
    node = broker.leader(topic)
    broker.pause_node(node)
    try:
        broker.wait_until_fenced(node)
    finally:
        broker.resume_node(node)


def cut_off(broker: Broker, topic: str) -> None:
    """Cuts a leader off from its followers until it has dropped them, and can commit nothing any more."""
    assert isinstance(broker, EmbeddedBroker)
    node = broker.leader(topic)
    broker.cut_off(node)
    try:
        eventually(
            lambda: confluent.in_sync(broker.bootstrap, topic) == [node], f"node {node} to be alone in sync"
        )
    finally:
        broker.heal(node)


Disturbance = Callable[[Broker, str], None]


def nothing_is_lost_or_doubled(peer: Peer, broker: Broker, disturbance: Disturbance) -> None:
    topic = ""

    def disturb(its_topic: str, stream: Stream) -> None:
        nonlocal topic
        topic = its_topic
        disturbance(broker, topic)
        broker.wait_until_in_sync(topic, PARTITIONS)
        stream.wait_for_more()

    undisturbed(peer, broker, disturb)
    wait_until_equal(broker, topic)


@every_peer
def test_a_leader_that_is_killed_loses_and_doubles_nothing(failing3: Broker, peer: Peer) -> None:
    nothing_is_lost_or_doubled(peer, failing3, kill)


@every_peer
def test_a_leader_that_is_held_beyond_its_session_loses_and_doubles_nothing(
    failing3: Broker, peer: Peer
) -> None:
    nothing_is_lost_or_doubled(peer, failing3, hold)


@embedded_only
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_leader_that_is_cut_off_loses_and_doubles_nothing(failing3: Broker, peer: Peer) -> None:
    nothing_is_lost_or_doubled(peer, failing3, cut_off)


@embedded_only
@pytest.mark.parametrize("disturbance", [kill, hold, cut_off], ids=lambda each: each.__name__)
def test_a_producer_that_is_not_idempotent_loses_nothing(failing3: Broker, disturbance: Disturbance) -> None:
    topic = failing3.create_topic(PARTITIONS, DURABLE)
    stream = Stream(AT_LEAST_ONCE, failing3, topic)
    try:
        stream.wait_for_more()
        disturbance(failing3, topic)
        stream.wait_for_more()
    finally:
        outcome = stream.finish()
    assert outcome.errors == []
    for partition in range(PARTITIONS):
        first, end = CONFLUENT.range_of(failing3.bootstrap, topic, partition)
        found = CONFLUENT.consume(failing3.bootstrap, topic, end - first, partition=partition)
        numbers = [int(record.value or b"") for record in found]
        # What was sent again comes behind the first of its kind, so these are in order all the same.
        assert list(dict.fromkeys(numbers)) == list(range(partition, outcome.sent, PARTITIONS))
    wait_until_equal(failing3, topic)


def wait_for_more(broker: Broker, topic: str, producing: Future[str]) -> None:
    """Until there is another record in the first partition, or all were sent."""
    before = CONFLUENT.range_of(broker.bootstrap, topic)[1]
    eventually(
        lambda: producing.done() or CONFLUENT.range_of(broker.bootstrap, topic)[1] > before, "the next record"
    )


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_installed")
@embedded_only
def test_the_console_producer_and_consumer_lose_and_double_nothing(failing3: Broker) -> None:
    topic = failing3.create_topic(1, DURABLE)
    lines = [f"line {number}" for number in range(LINES)]
    with ThreadPoolExecutor(1) as pool:
        producing = pool.submit(
            tools.output,
            failing3.bootstrap,
            *("kafka-console-producer", "--topic", topic, *SLOWLY),
            text="".join(f"{line}\n" for line in lines),
        )
        for disturbance in (kill, hold, cut_off):
            wait_for_more(failing3, topic, producing)
            assert not producing.done(), f"before {disturbance.__name__}"
            disturbance(failing3, topic)
            failing3.wait_until_in_sync(topic, 1)
        producing.result()
    wait_until_equal(failing3, topic, 1)
    whole = ("--partition", "0", "--offset", "earliest", "--max-messages", str(LINES))
    found = tools.output(failing3.bootstrap, "kafka-console-consumer", "--topic", topic, *whole)
    assert found.splitlines() == lines
    assert CONFLUENT.range_of(failing3.bootstrap, topic) == (0, LINES)
