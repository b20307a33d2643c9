"""The pytest plugin: a Kafka cluster as a fixture. It comes with the package; there is nothing to configure.

    def test_orders(kafka):                                   # a cluster of its own, with one broker
        produce_orders(kafka.bootstrap)
        assert [record.value for record in kafka.dump("orders")] == [b"1", b"2"]

    @pytest.mark.kafka_cluster(brokers=3, topics={"orders": 6})
    def test_failover(kafka): ...

    def test_quick(kafka_session): ...                        # one cluster for the whole run

The marker takes the arguments of `ottla.broker.Cluster`. For `kafka_session`, define a session fixture
`kafka_session_options` that returns them as a dict. Ports are free ones, so the workers of pytest-xdist, which have
a cluster each, do not meet. With unittest: `self.kafka = self.enterContext(Cluster())`.

pytest imports this file in every run, also where no test uses it: the broker is imported by the fixtures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ottla.broker import Cluster

MARKER = "kafka_cluster"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(**options): the cluster of the `kafka` fixture; options as for ottla.broker.Cluster",
    )


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A Kafka cluster for this test alone."""
    from ottla.broker import Cluster

    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(
                f"@pytest.mark.{MARKER} takes keywords only, as in {MARKER}(brokers={marker.args[0]!r})"
            )
        options |= marker.kwargs
    with Cluster(**options) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_session_options() -> dict[str, Any]:
    """What `kafka_session` is made with; override it."""
    return {}


@pytest.fixture(scope="session")
def kafka_session(kafka_session_options: dict[str, Any]) -> Iterator[Cluster]:
    """A Kafka cluster for the whole run: use topics of your own."""
    from ottla.broker import Cluster

    with Cluster(**kafka_session_options) as cluster:
        yield cluster
