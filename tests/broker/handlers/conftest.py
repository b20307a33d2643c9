"""Clusters for the tests of handlers."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from ottla.broker import Cluster


@pytest.fixture(scope="package")
def kafka() -> Iterator[Cluster]:
    """One node, shared by the tests of all handlers: they make their own topics and leave no faults behind."""
    with Cluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def kafka3() -> Iterator[Cluster]:
    """Three nodes, shared likewise; whoever stops one uses a cluster of its own."""
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return count(1)


@pytest.fixture
def new_topic(_numbers: Iterator[int]) -> Callable[..., str]:
    """Creates a topic that no other test has; its name."""

    def create(cluster: Cluster, partitions: int = 1, *, replicas: int = -1, **config: str) -> str:
        name = f"topic-{next(_numbers)}"
        named = {key.replace("_", "."): value for key, value in config.items()}
        cluster.create_topic(name, partitions, replicas=replicas, config=named)
        return name

    return create
