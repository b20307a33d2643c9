"""The harness itself: real clusters serve other clients, lose and regain nodes, and never stay behind."""

import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.interop import confluent, jars, java
from tests.interop.apache import ApacheKafka
from tests.interop.node import NodeError
from tests.interop.supervise import is_running
from tests.interop.waiting import eventually

pytestmark = pytest.mark.kafka

REPOSITORY = Path(__file__).parents[2]


def numbered(start: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


def test_one_node_gives_back_what_it_acknowledged_in_order(apache: ApacheKafka) -> None:
    topic = confluent.create_topic(apache.bootstrap)
    confluent.produce(apache.bootstrap, topic, numbered(0, 1000))
    assert confluent.consume(apache.bootstrap, topic, 1000) == numbered(0, 1000)


def test_three_nodes_give_back_what_they_acknowledged(apache3: ApacheKafka) -> None:
    topic = confluent.create_topic(apache3.bootstrap, partitions=6, replicas=3)
    confluent.produce(apache3.bootstrap, topic, numbered(0, 1000))
    assert sorted(confluent.consume(apache3.bootstrap, topic, 1000)) == sorted(numbered(0, 1000))


def test_a_killed_leader_loses_no_acknowledged_record_and_comes_back(apache3: ApacheKafka) -> None:
    durable = {"min.insync.replicas": "2"}
    topic = confluent.create_topic(apache3.bootstrap, replicas=3, config=durable)
    confluent.produce(apache3.bootstrap, topic, numbered(0, 500))
    killed = confluent.leader(apache3.bootstrap, topic)
    apache3.kill_node(killed)
    try:
        confluent.produce(apache3.bootstrap, topic, numbered(500, 1000))
        eventually(
            lambda: confluent.leader(apache3.bootstrap, topic) not in (killed, -1),
            "every node to know the next leader",
        )
    finally:
        apache3.start_node(killed)
    eventually(
        lambda: confluent.in_sync(apache3.bootstrap, topic) == apache3.node_ids,
        f"node {killed} to be in sync again",
        within=60,
    )
    assert confluent.consume(apache3.bootstrap, topic, 1000) == numbered(0, 1000)


def test_a_stopped_node_leaves_the_cluster_and_comes_back(apache3: ApacheKafka) -> None:
    apache3.stop_node(2)
    try:
        eventually(lambda: confluent.brokers(apache3.bootstrap) == [1, 3], "node 2 to be gone")
    finally:
        apache3.start_node(2)
    assert confluent.brokers(apache3.bootstrap) == [1, 2, 3]


def test_console_tools_see_the_same_topics_and_records_as_other_clients(apache: ApacheKafka) -> None:
    topic = confluent.create_topic(apache.bootstrap)
    listed = apache.tool("kafka-topics", "--list")
    assert (listed.returncode, topic in listed.stdout.split()) == (0, True), listed.stderr

    apache.tool("kafka-console-producer", "--topic", topic, text="one\ntwo\n").check_returncode()
    assert confluent.consume(apache.bootstrap, topic, 2) == [b"one", b"two"]

    wanted = ("--topic", topic, "--from-beginning", "--max-messages", "2")
    assert apache.tool("kafka-console-consumer", *wanted).stdout.splitlines() == ["one", "two"]


def test_every_tool_is_in_the_jars(kafka_installed: None) -> None:
    classes: set[str] = set()
    for jar in jars.ensure():
        with zipfile.ZipFile(jar) as archive:
            classes.update(archive.namelist())
    wanted = {name.replace(".", "/") + ".class" for name in (java.NODE, java.FORMATTER, *java.TOOLS.values())}
    assert wanted <= classes


def test_a_tool_that_outlasts_its_time_is_killed(apache: ApacheKafka) -> None:
    topic = confluent.create_topic(apache.bootstrap)
    with pytest.raises(subprocess.TimeoutExpired):
        apache.tool("kafka-console-consumer", "--topic", topic, within=1)


def test_nodes_end_with_a_harness_that_is_killed(kafka_installed: None, tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from tests.interop.apache import ApacheKafka\n"
        "with ApacheKafka() as kafka:\n"
        "    print(kafka.pid(1), flush=True)\n"
        "    sys.stdin.read()\n"
    )
    harness = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # a killed harness cannot remove its folder
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with harness:
        assert harness.stdout is not None
        pid = int(harness.stdout.readline())
        assert is_running(pid)
        harness.send_signal(signal.SIGKILL)
    eventually(lambda: not is_running(pid), f"the node's process {pid} to vanish", within=60)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("log.segment.bytes", "-1", "Invalid value -1 for configuration log.segment.bytes"),
        ("authorizer.class.name", "no.such.Class", "ClassNotFoundException: no.such.Class"),
    ],
    ids=["while-formatting", "while-starting"],
)
def test_a_node_that_dies_early_says_why(kafka_installed: None, name: str, value: str, reason: str) -> None:
    with pytest.raises(NodeError, match=re.escape(reason)), ApacheKafka(properties={name: value}):
        pass
