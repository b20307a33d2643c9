"""The embedded cluster answers two thousand requests as Apache Kafka does, but for what is listed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ottla.broker import Cluster
from tests.interop.apache import ApacheKafka
from tests.interop.comparison import recording
from tests.interop.comparison.compare import differing, stale, unexplained
from tests.interop.comparison.differences import DIFFERENCES
from tests.interop.comparison.normal import Plain
from tests.interop.comparison.play import play
from tests.interop.comparison.settings import SETTINGS

Answers = dict[str, Plain]

_SHOWN = 40


@pytest.fixture(scope="module")
def of_ottla() -> Answers:
    with Cluster(brokers=1, config=SETTINGS) as cluster:
        return play(cluster.bootstrap)


@pytest.fixture(scope="module")
def of_kafka(kafka_installed: None) -> Answers:
    with ApacheKafka(nodes=1, properties=SETTINGS) as kafka:
        return play(kafka.bootstrap)


def report(found: Iterable[object]) -> str:
    """One after the other, and how many there are when they are too many to read."""
    lines = [str(each) for each in found]
    more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "\n".join(lines[:_SHOWN] + more)


def test_the_embedded_cluster_answers_as_apache_kafka_did(of_ottla: Answers) -> None:
    found = differing(recording.load(), of_ottla)
    assert report(unexplained(found, DIFFERENCES)) == ""


def test_every_listed_difference_is_still_there(of_ottla: Answers) -> None:
    assert stale(differing(recording.load(), of_ottla), DIFFERENCES) == []


@pytest.mark.kafka
def test_the_recording_is_what_apache_kafka_answers(of_kafka: Answers) -> None:
    assert report(differing(of_kafka, recording.load())) == "", "see tests/interop/comparison/record.py"
