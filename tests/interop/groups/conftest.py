"""Clusters whose groups are quick: no initial delay, sessions of seconds, a target at each heartbeat."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.broker import Cluster
from tests.interop.apache import ApacheKafka
from tests.interop.brokers import ApacheBroker, Broker, EmbeddedBroker
from tests.interop.conftest import BROKERS
from tests.interop.groups.group import PARTITIONS, Group

MAX_SIZE = 6
"""How many members a group may have, of either protocol."""
QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.max.size": str(MAX_SIZE),
    "group.consumer.max.size": str(MAX_SIZE),
    "group.consumer.min.session.timeout.ms": "500",
    # Tests wait for the end of some; the others are to outlast a busy machine.
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "3",
}

# Within each of them a test does two things one after the other, on a busy machine too.
DELAY_MS = 3000
INTERVAL_MS = 5000
PATIENT = {
    **QUICK,
    "group.initial.rebalance.delay.ms": str(DELAY_MS),
    "group.consumer.session.timeout.ms": "30000",
    "group.consumer.assignment.interval.ms": str(INTERVAL_MS),
    "group.consumer.migration.policy": "disabled",
    # Each time, groups that nobody is in and that have no offsets are forgotten, with the ids that they gave out.
    "offsets.retention.check.interval.ms": "200",
}


@pytest.fixture(scope="session")
def quick_apache(kafka_installed: None) -> Iterator[ApacheKafka]:
    with ApacheKafka(nodes=1, properties=QUICK) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def quick_embedded() -> Iterator[Cluster]:
    with Cluster(brokers=1, config=QUICK) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def patient_apache(kafka_installed: None) -> Iterator[ApacheKafka]:
    with ApacheKafka(nodes=1, properties=PATIENT) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def patient_embedded() -> Iterator[Cluster]:
    with Cluster(brokers=1, config=PATIENT) as cluster:
        yield cluster


@pytest.fixture(params=BROKERS)
def quick(request: pytest.FixtureRequest) -> Broker:
    """A cluster of one node with quick groups, of either kind."""
    if request.param == "ottla":
        return EmbeddedBroker(request.getfixturevalue("quick_embedded"))
    return ApacheBroker(request.getfixturevalue("quick_apache"))


@pytest.fixture(scope="session")
def quick_embedded3() -> Iterator[Cluster]:
    with Cluster(brokers=3, config=QUICK) as cluster:
        yield cluster


@pytest.fixture(params=BROKERS)
def quick3(request: pytest.FixtureRequest) -> Broker:
    """A cluster of three nodes whose groups do not wait for more members, of either kind."""
    if request.param == "ottla":
        return EmbeddedBroker(request.getfixturevalue("quick_embedded3"))
    return ApacheBroker(request.getfixturevalue("apache3"))


@pytest.fixture(scope="session")
def topic_of() -> Callable[[Broker], str]:
    """The topic that all groups of a cluster read: what they commit is each one's own."""
    made: dict[str, str] = {}

    def topic(broker: Broker) -> str:
        if broker.bootstrap not in made:
            made[broker.bootstrap] = broker.create_topic(PARTITIONS)
        return made[broker.bootstrap]

    return topic


@pytest.fixture
def group(quick: Broker, topic_of: Callable[[Broker], str]) -> Iterator[Group]:
    """A group that nobody has heard of yet."""
    with Group(quick, topic_of(quick)) as group:
        yield group


@pytest.fixture(params=BROKERS)
def patient(request: pytest.FixtureRequest) -> Broker:
    """A cluster of one node, of either kind: groups wait for members, do not migrate, and are swept often."""
    if request.param == "ottla":
        return EmbeddedBroker(request.getfixturevalue("patient_embedded"))
    return ApacheBroker(request.getfixturevalue("patient_apache"))


@pytest.fixture
def patient_group(patient: Broker, topic_of: Callable[[Broker], str]) -> Iterator[Group]:
    """A group of that cluster that nobody has heard of yet."""
    with Group(patient, topic_of(patient)) as group:
        yield group


@pytest.fixture
def new_group(group: Group) -> Group:
    """A group that nobody has heard of yet, for members of KIP-848: its coordinator knows the topic."""
    group.wait_until_known(group.topic)
    return group
