"""One of two log directories of a broker, of either kind, is taken away while it runs; the other one serves on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

import ottla
from ottla.broker import Cluster
from ottla.errors import KafkaStorageError
from tests.interop import confluent
from tests.interop.apache import ApacheKafka
from tests.interop.conftest import BROKERS
from tests.interop.peers import PEERS
from tests.interop.waiting import eventually

CONFLUENT = PEERS[0]
TOPICS = 4
_LARGE = b"x" * 600_000
"""Two of them do not fit into a segment."""


@pytest.fixture(params=BROKERS)
def bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A broker with two log directories; its metadata are in the first."""
    folders = [tmp_path / "first", tmp_path / "second"]
    if request.param == "ottla":
        with Cluster(data_dir=folders) as cluster:
            yield cluster.bootstrap
    else:
        request.getfixturevalue("kafka_installed")
        log_dirs = ",".join(map(str, folders))
        with ApacheKafka(properties={"log.dirs": log_dirs, "metadata.log.dir": str(folders[0])}) as kafka:
            yield kafka.bootstrap


def test_a_directory_that_is_gone_takes_its_replicas_offline_and_no_others(bootstrap: str) -> None:
    topics = [
        confluent.create_topic(bootstrap, 1, 1, {"segment.bytes": str(1024 * 1024)}) for _ in range(TOPICS)
    ]
    for topic in topics:
        confluent.produce(bootstrap, topic, [_LARGE])
    with ottla.Client(bootstrap) as kafka:
        described = kafka.admin.describe_log_dirs([1])[1]
        (failing,) = (path for path in described if "second" in path)
        held = {each.topic for each in described[failing].replicas}
        lost = [topic for topic in topics if topic in held]
        kept = [topic for topic in topics if topic not in held]
        assert lost
        assert kept
        # At once, and not file by file: the broker writes into it meanwhile.
        Path(failing).rename(f"{failing}-gone")
        # The next segment finds no directory.
        with pytest.raises((KafkaException, TimeoutError)):
            confluent.produce(bootstrap, lost[0], [_LARGE], within=5)
        eventually(
            lambda: isinstance(kafka.admin.describe_log_dirs([1])[1][failing].error, KafkaStorageError),
            "the directory to be offline",
        )
        for topic in lost:
            eventually(lambda: confluent.leader(bootstrap, topic, 0) == -1, f"{topic} to have no leader")  # noqa: B023
    for topic in kept:
        confluent.produce(bootstrap, topic, [b"after"])
        assert [record.value for record in CONFLUENT.consume(bootstrap, topic, 2)] == [_LARGE, b"after"]
