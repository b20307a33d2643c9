"""A broker of either kind is killed, its files are damaged, and it starts again: what is left, and what was done.

One life and one restart of each broker for all kinds of damage; each has a topic of its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.interop import confluent
from tests.interop.apache import ApacheKafka
from tests.interop.conftest import BROKERS
from tests.interop.peers import PEERS

CONFLUENT = PEERS[0]
RECORDS, IN_A_SEGMENT = 9, 3
STRAY = "nosuch-0"
_SEGMENT_BYTES = 1024 * 1024
"""The least that Kafka takes."""


@dataclass(frozen=True)
class Damaged:
    """A broker that was killed, damaged and started again."""

    bootstrap: str
    folder: Path
    topics: dict[str, str]
    sizes: dict[str, int]
    """Of the last segment of each topic, before."""

    def log(self, kind: str) -> Path:
        return self.folder / f"{self.topics[kind]}-0"

    def left(self, kind: str, count: int) -> list[bytes]:
        topic = self.topics[kind]
        assert CONFLUENT.range_of(self.bootstrap, topic, 0) == (0, count)
        return [record.value or b"" for record in CONFLUENT.consume(self.bootstrap, topic, count)]


def value(number: int) -> bytes:
    return b"%d" % number * 300_000


def fill(bootstrap: str, topic: str) -> None:
    """Each record is a batch of its own."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(topic, value(number))
        assert producer.flush(30) == 0


def segments(log: Path) -> list[Path]:
    return sorted(log.glob("*.log"))


def tear(log: Path) -> None:
    """The last batch once more, but for its end."""
    last = segments(log)[-1]
    content = last.read_bytes()
    last.write_bytes(content + content[-1000:] + content[:500])


def add_zeros(log: Path) -> None:
    last = segments(log)[-1]
    last.write_bytes(last.read_bytes() + bytes(10_000))


def flip(log: Path) -> None:
    """A bit of the second batch in the second of three segments."""
    _, second, _ = segments(log)
    content = bytearray(second.read_bytes())
    content[len(content) // 2] ^= 1
    second.write_bytes(content)


DAMAGES = {"torn": tear, "zeros": add_zeros, "flipped": flip}


def leave_a_stray(folder: Path, topic: str) -> None:
    """The replica of a topic that the cluster has never heard of."""
    stray = folder / STRAY
    shutil.copytree(folder / f"{topic}-0", stray)
    (stray / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAKg")


@contextmanager
def standalone(data_dir: Path) -> Iterator[str]:
    """The embedded cluster in a process of its own, which is killed in the end."""
    command = [
        sys.executable,
        "-m",
        "ottla.broker",
        "--data-dir",
        str(data_dir),
        "--port",
        "0",
        "--log",
        "none",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            bootstrap = process.stdout.readline().strip()
            assert bootstrap, "it does not start"
            yield bootstrap
        finally:
            process.kill()


@pytest.fixture(scope="module", params=BROKERS)
def damaged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    if request.param == "ottla":
        root = tmp_path_factory.mktemp("data")
        with standalone(root) as bootstrap:
            topics = fill_topics(bootstrap)
        sizes = damage(root / "node-1", topics)
        with standalone(root) as bootstrap:
            yield Damaged(bootstrap, root / "node-1", topics, sizes)
    else:
        request.getfixturevalue("kafka_installed")
        with ApacheKafka() as kafka:
            topics = fill_topics(kafka.bootstrap)
            kafka.kill_node(1)
            sizes = damage(kafka.log_directory(1), topics)
            kafka.start_node(1)
            yield Damaged(kafka.bootstrap, kafka.log_directory(1), topics, sizes)


def fill_topics(bootstrap: str) -> dict[str, str]:
    config = {"segment.bytes": str(_SEGMENT_BYTES)}
    topics = {kind: confluent.create_topic(bootstrap, 1, 1, config) for kind in DAMAGES}
    for topic in topics.values():
        fill(bootstrap, topic)
    return topics


def damage(folder: Path, topics: dict[str, str]) -> dict[str, int]:
    """Strikes the log of each topic; how long the last segment of each was."""
    leave_a_stray(folder, topics["torn"])
    sizes = {}
    for kind, strike in DAMAGES.items():
        log = folder / f"{topics[kind]}-0"
        sizes[kind] = segments(log)[-1].stat().st_size
        strike(log)
    return sizes


@pytest.mark.parametrize("kind", ["torn", "zeros"])
def test_a_tail_that_is_no_batch_is_cut_off_and_nothing_else(damaged: Damaged, kind: str) -> None:
    assert damaged.left(kind, RECORDS) == [value(number) for number in range(RECORDS)]
    assert segments(damaged.log(kind))[-1].stat().st_size == damaged.sizes[kind]
    confluent.produce(damaged.bootstrap, damaged.topics[kind], [b"next"])
    assert damaged.left(kind, RECORDS + 1)[-1] == b"next"


def test_a_batch_whose_checksum_is_wrong_ends_the_log_with_the_segments_behind_it(damaged: Damaged) -> None:
    left = IN_A_SEGMENT + 1
    assert damaged.left("flipped", left) == [value(number) for number in range(left)]
    names = [path.name for path in segments(damaged.log("flipped"))]
    assert names == [f"{0:020d}.log", f"{IN_A_SEGMENT:020d}.log"]
    confluent.produce(damaged.bootstrap, damaged.topics["flipped"], [b"next"])
    assert damaged.left("flipped", left + 1)[-1] == b"next"


def test_a_replica_of_no_known_topic_is_put_aside(damaged: Damaged) -> None:
    names = [path.name for path in damaged.folder.iterdir() if path.name.startswith("nosuch")]
    (name,) = names
    assert name.startswith(f"{STRAY}.")
    assert name.endswith("-stray")
    assert len(segments(damaged.folder / name)) == RECORDS // IN_A_SEGMENT
