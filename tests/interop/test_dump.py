"""`python -m ottla.broker dump` beside Kafka's own DumpLogSegments: on the logs of Apache Kafka, and on ours.

Lines of both are parsed and compared one by one: batches, records, entries of indexes and snapshots, decoded records.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.broker import Cluster
from tests.broker.dump.support import dump, dump_json
from tests.interop import java, supervise
from tests.interop.apache import ApacheKafka
from tests.interop.waiting import eventually
from tools import make_record_schema

pytestmark = pytest.mark.kafka

PLAIN, TRANSACTIONAL = "plain", "transactional"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_PROPERTIES = {
    "log.initial.task.delay.ms": str(60 * 60 * 1000),
    # A snapshot of the metadata log for every few records.
    "metadata.log.max.record.bytes.between.snapshots": "1000",
}


@pytest.fixture(scope="module")
def directories(kafka_installed: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The log directory of a Kafka while it ran, and after it has stopped."""
    folder = tmp_path_factory.mktemp("kafka")
    with ApacheKafka(1, properties=_PROPERTIES) as kafka:
        fill(kafka.bootstrap)
        share(kafka)
        # Files are deleted and renamed in a live directory; those of these topics are not.
        running = folder / "running"
        running.mkdir()
        for log in (f"{PLAIN}-0", f"{TRANSACTIONAL}-0"):
            shutil.copytree(kafka.log_directory(1) / log, running / log)
        kafka.stop_node(1)
        shutil.copytree(kafka.log_directory(1), folder / "stopped")
    return {"running": running, "stopped": folder / "stopped"}


@pytest.fixture(scope="module")
def own(kafka_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of an embedded cluster's node."""
    folder = tmp_path_factory.mktemp("own")
    with Cluster(1, data_dir=folder) as cluster:
        fill(cluster.bootstrap)
    return folder / "node-1"


def fill(bootstrap: str) -> None:
    """Records of all codecs, several segments, transactions of each fate, offsets of both kinds of groups."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic(PLAIN, 1, 1, config={"segment.bytes": str(1024 * 1024)}),
        NewTopic(TRANSACTIONAL, 1, 1),
    ]
    for created in admin.create_topics(topics).values():
        created.result(timeout=30)
    for codec in CODECS:
        for idempotent in (False, True):
            produce_plain(bootstrap, codec, idempotent)
    for number, fate in enumerate(("commit", "abort", "commit", "abort", "none")):
        transact(bootstrap, f"id-{number}", fate)
    for protocol in ("classic", "consumer"):
        join_and_commit(bootstrap, f"group-{protocol}", protocol)


def produce_plain(bootstrap: str, codec: str, idempotent: bool) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "batch.num.messages": 25,
            "log_level": 0,
            "linger.ms": 20,
        }
    )
    for number in range(400):
        producer.produce(
            PLAIN,
            None if number % 50 == 7 else f"wörter {random.Random(number).randbytes(600).hex()}".encode(),
            None if number % 3 == 0 else f"key {number}".encode(),
            headers=[("trace", b"%d" % number), ("empty", None)] if number % 7 == 0 else None,
        )
    assert producer.flush(60) == 0


def transact(bootstrap: str, transactional_id: str, fate: str) -> None:
    # What is left open is to be open still when the node stops.
    settings = {"transactional.id": transactional_id, "transaction.timeout.ms": 900_000}
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(5):
        producer.produce(TRANSACTIONAL, b"%d" % number)
    assert producer.flush(60) == 0
    if fate == "commit":
        producer.send_offsets_to_transaction([TopicPartition(PLAIN, 0, 3)], _group_metadata(bootstrap), 30)
        producer.commit_transaction(60)
    elif fate == "abort":
        producer.abort_transaction(60)


def _group_metadata(bootstrap: str) -> object:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "in-transactions"})
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()


def join_and_commit(bootstrap: str, group: str, protocol: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([PLAIN])

    def has_read() -> bool:
        message = consumer.poll(0.5)
        return message is not None and message.error() is None

    eventually(has_read, f"{group} to read", within=60)
    consumer.commit(asynchronous=False)
    consumer.close()


def share(kafka: ApacheKafka) -> None:
    """Has a share group read something, which leaves records in two of Kafka's own topics."""
    reset = ("--add-config", "share.auto.offset.reset=earliest")
    kafka.tool(
        "kafka-configs", "--alter", "--entity-type", "groups", "--entity-name", "sharers", *reset
    ).check_returncode()
    read = kafka.tool(
        "kafka-console-share-consumer", "--topic", TRANSACTIONAL, "--group", "sharers", "--max-messages", "3"
    )
    assert len(read.stdout.splitlines()) == 3, read.stderr


# What both tools say


def kafkas(files: Sequence[Path], *options: str) -> tuple[dict[str, list[str]], str]:
    """Lines by file, and what went to standard error."""
    command = java.command(java.TOOLS["kafka-dump-log"], "--files", ",".join(map(str, files)), *options)
    done = supervise.run(command, text="", within=120, env=java.environment())
    assert done.returncode == 0, done.stderr
    return by_file(done.stdout.splitlines()), done.stderr


def ours(files: Sequence[Path], *options: str) -> dict[str, list[str]]:
    done = dump(*files, *options)
    assert (done.code, done.complaints) == (0, [])
    return by_file(done.lines)


def by_file(lines: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        if line.startswith("Dumping "):
            current = found.setdefault(line.removeprefix("Dumping "), [])
        else:
            current.append(line)
    return found


_CONTENTS = re.compile(
    r"\] (?:headerValues: \[(?P<values>.*?)\] )?(?:key: (?P<key>.*?) ?)?(?:payload: (?P<value>.*))?$"
)
_JSON = re.compile(r"([A-Z]\w+):? (\{.*\})$")


def parsed(line: str) -> dict[str, Any]:
    """The fields of a line of either tool; what is JSON as objects."""
    if not line.startswith("| "):
        return dict(re.findall(r"(\S+): (\S+)", line)) or {"line": line}
    head, _, rest = line.partition("headerKeys: [")
    fields: dict[str, Any] = dict(re.findall(r"(\S+): (\S+)", head))
    fields["headerKeys"], _, said = rest.partition("]")
    contents = _CONTENTS.search("]" + said) if "key: " in said or "payload: " in said else None
    if contents is not None:
        fields["key"], fields["payload"] = map(_object, (contents["key"], contents["value"]))
        return fields
    control = _JSON.search(said)
    fields["control"] = (control[1], json.loads(control[2])) if control else said.strip()
    if said.startswith(" headerValues"):
        fields["control"] = ""
    return fields


def _object(text: str | None) -> object:
    return json.loads(text) if text is not None and text.startswith("{") else text


def assert_same(files: Sequence[Path], *options: str) -> dict[str, list[dict[str, Any]]]:
    """Both tools say the same of every file; what they say."""
    theirs, _ = kafkas(files, *options)
    found = ours(files, *options)
    assert list(found) == list(theirs) == [str(path) for path in files]
    for path, lines in theirs.items():
        assert len(found[path]) == len(lines), path
        for mine, line in zip(found[path], lines, strict=True):
            assert parsed(mine) == parsed(line), f"{path}\n{mine}\n{line}"
    return {path: [parsed(line) for line in lines] for path, lines in theirs.items()}


def files_of(directory: Path, pattern: str) -> list[Path]:
    found = sorted(directory.glob(pattern))
    assert found, pattern
    return found


# Logs of Apache Kafka


@pytest.mark.parametrize("state", ["running", "stopped"])
@pytest.mark.parametrize("option", ["--deep-iteration", "--print-data-log"])
def test_batches_and_records_of_kafka_are_those_that_kafkas_tool_shows(
    directories: dict[str, Path], state: str, option: str
) -> None:
    same = assert_same(files_of(directories[state], "[pt]*-0/*.log"), option)
    lines = [line for each in same.values() for line in each]
    assert len(same) > 3
    assert {line["compresscodec"] for line in lines if "compresscodec" in line} == set(CODECS)
    markers = [line["control"] for line in lines if str(line.get("control")).startswith("endTxnMarker")]
    # Each is written behind the response to its producer, and may come after that of the next.
    assert sorted(marker.split()[1] for marker in markers) == ["ABORT", "ABORT", "COMMIT", "COMMIT"]
    assert sum("offset" in line for line in lines) > 4000


def test_batches_alone_are_those_that_kafkas_tool_shows(directories: dict[str, Path]) -> None:
    assert_same(files_of(directories["stopped"], "*/*.log"))
    assert_same(files_of(directories["stopped"], f"{PLAIN}-0/*.log"), "--max-bytes", "100000")


def test_contents_alone_are_those_that_kafkas_tool_shows(directories: dict[str, Path]) -> None:
    files = files_of(directories["stopped"], f"{PLAIN}-0/*.log")[:1]
    options = ("--print-data-log", "--skip-record-metadata")
    theirs, _ = kafkas(files, *options)
    # Kafka's tool leaves a line empty where a record has neither key nor value.
    marked = {path: [line or "|" for line in lines] for path, lines in theirs.items()}
    assert ours(files, *options) == marked
    assert "|" in marked[str(files[0])]


def test_indexes_snapshots_and_aborted_transactions_are_those_that_kafkas_tool_shows(
    directories: dict[str, Path],
) -> None:
    suffixes = ("*.index", "*.timeindex", "*.snapshot", "*.txnindex")
    files = [path for suffix in suffixes for path in files_of(directories["stopped"], f"*/{suffix}")]
    same = assert_same(files)
    entries = [line for lines in same.values() for line in lines]
    assert sum("position" in line for line in entries) > 10
    assert sum("timestamp" in line and "producerId" not in line for line in entries) > 10
    assert sum("lastStableOffset" in line for line in entries) == 2
    opened = [line for line in entries if "OptionalLong[" in str(line.get("currentTxnFirstOffset"))]
    assert len(opened) == 1


def test_an_index_that_is_preallocated_has_the_entries_that_are_written(directories: dict[str, Path]) -> None:
    newest = files_of(directories["running"], f"{PLAIN}-0/*.index")[-1]
    assert newest.stat().st_size > 1024 * 1024
    closed = directories["stopped"] / f"{PLAIN}-0" / newest.name
    assert len(ours([closed])[str(closed)]) > 3
    assert ours([newest])[str(newest)] == ours([closed])[str(closed)]


def test_indexes_of_kafka_pass_both_checks(directories: dict[str, Path]) -> None:
    files = [
        path
        for suffix in ("index", "timeindex")
        for path in files_of(directories["stopped"], f"{PLAIN}-0/*.{suffix}")
    ]
    for option in ("--index-sanity-check", "--verify-index-only"):
        theirs, errors = kafkas(files, option)
        assert (ours(files, option), errors) == (theirs, "")


@pytest.mark.parametrize(
    ("topic", "option", "at_least"),
    [
        ("__consumer_offsets", "--offsets-decoder", 10),
        ("__transaction_state", "--transaction-log-decoder", 15),
        ("__share_group_state", "--share-group-state-decoder", 1),
        ("__cluster_metadata", "--cluster-metadata-decoder", 40),
    ],
)
def test_records_of_kafkas_own_topics_are_decoded_as_kafkas_tool_does(
    directories: dict[str, Path], topic: str, option: str, at_least: int
) -> None:
    files = files_of(directories["stopped"], f"{topic}-*/*.log")
    same = assert_same(files, option)
    records = [line for lines in same.values() for line in lines if "offset" in line]
    assert sum(isinstance(record.get("payload"), dict) for record in records) >= at_least
    assert ours(files, "--print-data-log") == ours(files, option), "the directory's name says as much"


def test_snapshots_of_the_metadata_log_are_decoded_as_kafkas_tool_does(directories: dict[str, Path]) -> None:
    files = files_of(directories["stopped"], "**/*.checkpoint")
    assert len(files) >= 3
    same = assert_same(files, "--cluster-metadata-decoder")
    types = {line["payload"]["type"] for lines in same.values() for line in lines if line.get("payload")}
    assert {"FEATURE_LEVEL_RECORD", "TOPIC_RECORD", "PARTITION_RECORD", "REGISTER_BROKER_RECORD"} <= types


def test_a_log_directory_of_kafka_is_summed_up(directories: dict[str, Path]) -> None:
    done = dump_json(directories["stopped"])
    assert (done.code, done.complaints) == (0, [])
    whole, *logs = done.objects
    assert (whole["node.id"], whole["cleanShutdown"], whole["logs"]) == ("1", True, len(logs))
    by_topic = {each["topic"]: each for each in logs}
    plain = by_topic[PLAIN]
    assert plain["logEndOffset"] == plain["highWatermark"] == 400 * 2 * len(CODECS)
    assert plain["segments"] > 1
    assert len(by_topic[TRANSACTIONAL]["openTransactions"]) == 1
    small = [
        path
        for path in directories["stopped"].rglob("*")
        if path.name.endswith(("checkpoint", "state", "ties"))
    ]
    assert len(small) > 10
    assert [dump(path).code for path in small] == [0] * len(small)


def test_the_schemas_are_those_of_kafkas_jars(kafka_installed: None) -> None:
    from tests.interop import jars

    (folder,) = {jar.parent for jar in jars.ensure()}
    assert make_record_schema.TARGET.read_text() == make_record_schema.make(folder)


# Our logs


def test_kafkas_tool_reads_our_batches_and_records(own: Path) -> None:
    same = assert_same(files_of(own, "[pt]*-0/*.log"), "--print-data-log")
    batches = [line for lines in same.values() for line in lines if "isvalid" in line]
    assert {batch["isvalid"] for batch in batches} == {"true"}
    assert {batch["compresscodec"] for batch in batches} == set(CODECS)
    assert len(same) > 3


def test_kafkas_tool_reads_our_indexes_and_snapshots_without_a_complaint(own: Path) -> None:
    suffixes = ("*.index", "*.timeindex", "*.snapshot", "*.txnindex")
    files = [path for suffix in suffixes for path in files_of(own, f"*/{suffix}")]
    same = assert_same(files)
    assert sum("position" in line for lines in same.values() for line in lines) > 10
    _, errors = kafkas(files)
    assert errors == ""


@pytest.mark.parametrize(
    ("topic", "option"),
    [("__consumer_offsets", "--offsets-decoder"), ("__transaction_state", "--transaction-log-decoder")],
)
def test_kafkas_tool_decodes_the_records_of_our_coordinators(own: Path, topic: str, option: str) -> None:
    same = assert_same(files_of(own, f"{topic}-*/*.log"), option)
    assert sum(isinstance(line.get("payload"), dict) for lines in same.values() for line in lines) >= 5


def test_our_log_directory_is_summed_up(own: Path) -> None:
    done = dump_json(own)
    assert done.complaints == []
    by_topic = {each["topic"]: each for each in done.of_kind("log")}
    assert by_topic[PLAIN]["logEndOffset"] == 400 * 2 * len(CODECS)
    assert len(by_topic[TRANSACTIONAL]["openTransactions"]) == 1
