"""Fixtures for tests against Apache Kafka: one cluster of each size for the whole run.

The clusters are shared: a test makes topics of its own, and leaves every node running.
"""

from collections.abc import Iterator

import pytest

from tests.interop import jars, java
from tests.interop.apache import ApacheKafka


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


@pytest.fixture(scope="session")
def apache(kafka_installed: None) -> Iterator[ApacheKafka]:
    """Apache Kafka, one node."""
    with ApacheKafka(nodes=1) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def apache3(kafka_installed: None) -> Iterator[ApacheKafka]:
    """Apache Kafka, three nodes; internal topics have three replicas, two of which must be in sync."""
    with ApacheKafka(nodes=3) as kafka:
        yield kafka
