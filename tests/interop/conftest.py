"""Fixtures for tests against brokers: one cluster of each kind and size for the whole run.

The clusters are shared: a test makes topics of its own, and leaves every node running. What takes `broker` or
`broker3` runs on the embedded cluster, and on Apache Kafka where there is one (the marker `kafka`).
"""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker import Cluster
from tests.interop import jars, java
from tests.interop.apache import ApacheKafka
from tests.interop.brokers import ApacheBroker, Broker, EmbeddedBroker


@pytest.fixture(scope="session")
def kafka_installed(request: pytest.FixtureRequest) -> None:
    """Java and all jars are there. Whoever starts a cluster of their own asks for this fixture."""
    problem = java.problem()
    if problem is not None:
        pytest.fail(problem, pytrace=False)
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    # The first run downloads for a while, and its progress is no part of any test's output.
    with capture.global_and_fixture_disabled():
        jars.ensure()


_HERE = Path(__file__).parent
_KAFKA_PYTHON = "kafka-python"
# Retention deletes what tests have written with times of long ago: Apache Kafka's half a minute after a start, by
# default, that of the embedded cluster every five minutes.
# And Apache Kafka moves leaders back to the first of their replicas, every five minutes, whatever a test is at.
_PATIENT = {
    "log.initial.task.delay.ms": str(60 * 60 * 1000),
    "auto.leader.rebalance.enable": "false",
}
_UNHURRIED = {"log.retention.check.interval.ms": str(24 * 60 * 60 * 1000)}


@pytest.fixture(scope="session")
def apache(kafka_installed: None) -> Iterator[ApacheKafka]:
    """Apache Kafka, one node."""
    with ApacheKafka(nodes=1, properties=_PATIENT) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def apache3(kafka_installed: None) -> Iterator[ApacheKafka]:
    """Apache Kafka, three nodes; internal topics have three replicas, two of which must be in sync."""
    with ApacheKafka(nodes=3, properties=_PATIENT) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def embedded() -> Iterator[Cluster]:
    """The embedded cluster, one node."""
    with Cluster(brokers=1, config=_UNHURRIED) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def embedded3() -> Iterator[Cluster]:
    """The embedded cluster, three nodes."""
    with Cluster(brokers=3, config=_UNHURRIED) as cluster:
        yield cluster


# A node that fails is missed within a second.
_ALERT = {
    "broker.session.timeout.ms": "600",
    "broker.heartbeat.interval.ms": "60",
    "replica.lag.time.max.ms": "600",
}


@pytest.fixture(scope="session")
def alert3() -> Iterator[Cluster]:
    """The embedded cluster, three nodes that miss each other soon."""
    with Cluster(brokers=3, config={**_ALERT, **_UNHURRIED}) as cluster:
        yield cluster


BROKERS = ["ottla", pytest.param("apache", marks=pytest.mark.kafka)]


@pytest.fixture(params=BROKERS)
def broker(request: pytest.FixtureRequest) -> Broker:
    """A cluster of one node, of either kind."""
    # By name, so that Apache Kafka starts only for those who want it.
    if request.param == "ottla":
        return EmbeddedBroker(request.getfixturevalue("embedded"))
    return ApacheBroker(request.getfixturevalue("apache"))


@pytest.fixture(params=BROKERS)
def broker3(request: pytest.FixtureRequest) -> Broker:
    """A cluster of three nodes, of either kind."""
    if request.param == "ottla":
        return EmbeddedBroker(request.getfixturevalue("embedded3"))
    return ApacheBroker(request.getfixturevalue("apache3"))


@pytest.fixture(params=BROKERS)
def failing3(request: pytest.FixtureRequest) -> Broker:
    """A cluster of three nodes whose nodes may fail: it takes seconds to notice, and not half a minute."""
    if request.param == "ottla":
        return EmbeddedBroker(request.getfixturevalue("alert3"))
    return ApacheBroker(request.getfixturevalue("apache3"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            # One worker runs all of a folder, or of a file: they share brokers, which take long to start.
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(_HERE).parts[0]))
        if _KAFKA_PYTHON in item.name:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(autouse=True)
def _dropped_sockets_end_with_their_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """kafka-python drops sockets without closing them: they are collected here, and not in a later test."""
    yield
    if _KAFKA_PYTHON in request.node.name:
        gc.collect()
