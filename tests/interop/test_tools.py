"""Kafka's own command-line tools against both brokers: what the Java clients understand, and what people type."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

import pytest

from tests.interop import confluent, tools
from tests.interop.brokers import ApacheBroker, Broker, EmbeddedBroker
from tests.interop.peers import PEERS, Sent
from tests.interop.waiting import eventually

pytestmark = pytest.mark.usefixtures("kafka_installed")
# Also the embedded cluster: it is the tools that need Java. What they say to Apache Kafka is what this file expects.
_BROKERS = [
    pytest.param("ottla", marks=pytest.mark.kafka),
    pytest.param("apache", marks=pytest.mark.kafka_full),
]

CONFLUENT = PEERS[0]


@pytest.fixture(params=_BROKERS)
def broker(request: pytest.FixtureRequest) -> Broker:
    if request.param == "ottla":
        return EmbeddedBroker(request.getfixturevalue("embedded"))
    return ApacheBroker(request.getfixturevalue("apache"))


@pytest.fixture(params=_BROKERS)
def broker3(request: pytest.FixtureRequest) -> Broker:
    if request.param == "ottla":
        return EmbeddedBroker(request.getfixturevalue("embedded3"))
    return ApacheBroker(request.getfixturevalue("apache3"))


def new_name() -> str:
    return f"tools-{uuid.uuid4().hex[:12]}"


def test_topics_are_created_listed_described_altered_and_deleted(broker: Broker) -> None:
    topic = new_name()

    def topics(*arguments: str) -> str:
        return tools.output(broker.bootstrap, "kafka-topics", *arguments)

    made = topics("--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=5000")
    assert made.strip() == f"Created topic {topic}."
    assert topic in topics("--list").split()

    described = topics("--describe", "--topic", topic)
    assert re.search(r"PartitionCount: 2\s+ReplicationFactor: 1\s+Configs: .*retention.ms=5000", described)
    assert re.search(r"Partition: 1\s+Leader: 1\s+Replicas: 1\s+Isr: 1", described)

    topics("--alter", "--topic", topic, "--partitions", "4")
    assert "PartitionCount: 4" in topics("--describe", "--topic", topic)
    topics("--delete", "--topic", topic)
    assert topic not in topics("--list").split()


def test_a_topic_that_exists_is_refused_in_kafkas_words(broker: Broker) -> None:
    topic = broker.create_topic()
    done = tools.run(broker.bootstrap, "kafka-topics", "--create", "--topic", topic)
    assert done.returncode == 1
    assert f"Topic '{topic}' already exists." in done.stdout


# With Apache Kafka, test_records.py does the same.
@pytest.mark.parametrize("broker", ["ottla"], indirect=True)
@pytest.mark.parametrize(
    "codec",
    [
        *(pytest.param(codec, marks=pytest.mark.kafka) for codec in ("none", "zstd")),
        *(pytest.param(codec, marks=pytest.mark.kafka_full) for codec in ("gzip", "snappy", "lz4")),
    ],
)
def test_other_clients_read_what_the_console_producer_wrote(broker: Broker, codec: str) -> None:
    topic = broker.create_topic()
    lines = [f"line {number}" for number in range(200)]
    tools.output(
        broker.bootstrap,
        "kafka-console-producer",
        *("--topic", topic, "--command-property", f"compression.type={codec}"),
        text="\n".join(lines) + "\n",
    )
    found = CONFLUENT.consume(broker.bootstrap, topic, 200)
    assert [record.value for record in found] == [line.encode() for line in lines]


def test_the_console_consumer_reads_a_partition_from_an_offset(broker: Broker) -> None:
    topic = broker.create_topic(partitions=2)
    records = [Sent(b"v%d" % n, b"k%d" % n, (("h", b"x"),)) for n in range(20)]
    CONFLUENT.produce(broker.bootstrap, topic, records, partition=1, codec="zstd")
    read = tools.output(
        broker.bootstrap,
        "kafka-console-consumer",
        *("--topic", topic, "--partition", "1", "--offset", "5", "--max-messages", "15"),
        *("--timeout-ms", "60000"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"),
        *("--formatter-property", "print.timestamp=true"),
    )
    assert read.splitlines() == [f"CreateTime:1700000000000\th:x\tk{n}\tv{n}" for n in range(5, 20)]


def test_configs_are_altered_and_described(broker: Broker) -> None:
    topic = broker.create_topic()
    of_topic = ("--entity-type", "topics", "--entity-name", topic)

    def configs(*arguments: str) -> str:
        return tools.output(broker.bootstrap, "kafka-configs", *arguments)

    configs("--alter", *of_topic, "--add-config", "retention.ms=4321,cleanup.policy=[compact,delete]")
    described = configs("--describe", *of_topic)
    assert "retention.ms=4321" in described
    assert "cleanup.policy=compact,delete" in described
    configs("--alter", *of_topic, "--delete-config", "retention.ms")
    everything = configs("--describe", *of_topic, "--all")
    assert "retention.ms=4321" not in everything
    assert "DEFAULT_CONFIG:log.segment.bytes=1073741824" in everything


def test_configs_of_a_broker_are_described(broker: Broker) -> None:
    of_broker = ("--entity-type", "brokers", "--entity-name", "1", "--all")
    described = tools.output(broker.bootstrap, "kafka-configs", "--describe", *of_broker)
    assert "num.partitions=1 sensitive=false" in described


def test_offsets_are_got(broker: Broker) -> None:
    topic = broker.create_topic(partitions=2)
    CONFLUENT.produce(broker.bootstrap, topic, [Sent(b"x")] * 7, partition=1)

    def offsets(*arguments: str) -> list[str]:
        return tools.output(broker.bootstrap, "kafka-get-offsets", "--topic", topic, *arguments).split()

    assert offsets() == [f"{topic}:0:0", f"{topic}:1:7"]
    assert offsets("--time", "-2") == [f"{topic}:0:0", f"{topic}:1:0"]
    assert offsets("--time", "max-timestamp")[-1] == f"{topic}:1:0"


def test_records_are_deleted(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create_topic()
    CONFLUENT.produce(broker.bootstrap, topic, [Sent(b"x")] * 9)
    wanted = tmp_path / "offsets.json"
    wanted.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 6}]})
    )
    said = tools.output(broker.bootstrap, "kafka-delete-records", "--offset-json-file", str(wanted))
    assert f"partition: {topic}-0\tlow_watermark: 6" in said
    assert CONFLUENT.range_of(broker.bootstrap, topic) == (6, 9)


def test_versions_of_apis_are_listed(broker: Broker) -> None:
    said = tools.output(broker.bootstrap, "kafka-broker-api-versions")
    assert re.search(r"\(id: 1 rack: null isFenced: false\)", said)
    # What the client would use of what the broker offers.
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", said)
    assert re.search(r"Fetch\(1\): 4 to 18 \[usable: 18\]", said)
    assert "UNKNOWN" not in said


def test_the_performance_tool_gets_through(broker: Broker) -> None:
    topic = broker.create_topic(partitions=3)
    said = tools.output(
        broker.bootstrap,
        tools.PERFORMANCE,
        *("--topic", topic, "--num-records", "20000", "--record-size", "200", "--throughput", "-1"),
    )
    assert "20000 records sent" in said
    counts = [CONFLUENT.range_of(broker.bootstrap, topic, partition)[1] for partition in range(3)]
    assert sum(counts) == 20_000


def test_leaders_are_elected(broker3: Broker) -> None:
    topic = broker3.create_topic(partitions=1)
    other = next(node for node in broker3.node_ids if node != broker3.leader(topic))
    broker3.move_leader(topic, 0, other)
    election = ("--topic", topic, "--partition", "0", "--election-type", "preferred")
    tools.output(broker3.bootstrap, "kafka-leader-election", *election)
    preferred = confluent.replicas(broker3.bootstrap, topic)[0]
    eventually(lambda: broker3.leader(topic) == preferred, f"node {preferred} to lead {topic}")
