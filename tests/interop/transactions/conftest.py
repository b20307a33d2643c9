"""Clusters whose transactions end soon when nobody ends them; one for each level of transaction.version."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.interop.apache import ApacheKafka
from tests.interop.brokers import ApacheBroker, Broker, EmbeddedBroker
from tests.interop.conftest import BROKERS
from tests.interop.groups.link import Link
from tests.interop.transactions.producer import Links, TxnProducer, name_of

QUICK = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
FORGETFUL = {
    **QUICK,
    "transactional.id.expiration.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "300",
}
LATER_COORDINATOR = 1000
_SAFE_DOWNGRADE = 2
_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1


def set_level(bootstrap: str, level: int) -> None:
    """Takes transaction.version down."""
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature="transaction.version", max_version_level=level, upgrade_type=_SAFE_DOWNGRADE
    )
    with Link(bootstrap) as link:
        request = UpdateFeaturesRequest(timeout_ms=30_000, feature_updates=[update])
        assert link.get(request, 2, UpdateFeaturesResponse).error_code == 0


def configure(bootstrap: str, topic: str | None, **configs: str | None) -> None:
    """Sets configs of a topic, or of all brokers; None takes one back."""
    wanted = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=_BROKER if topic is None else _TOPIC,
        resource_name=topic or "",
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(
                name=name.replace("_", "."), config_operation=_DELETE if value is None else _SET, value=value
            )
            for name, value in configs.items()
        ],
    )
    with Link(bootstrap) as link:
        request = IncrementalAlterConfigsRequest(resources=[wanted])
        (changed,) = link.get(request, 1, IncrementalAlterConfigsResponse).responses
    assert changed.error_code == 0, changed


@pytest.fixture(scope="session")
def txn_apache(kafka_installed: None) -> Iterator[ApacheKafka]:
    with ApacheKafka(nodes=1, properties=QUICK) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def txn_embedded() -> Iterator[Cluster]:
    with Cluster(brokers=1, config=QUICK) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def txn1_apache(kafka_installed: None) -> Iterator[ApacheKafka]:
    with ApacheKafka(nodes=1, properties=QUICK) as kafka:
        set_level(kafka.bootstrap, 1)
        yield kafka


@pytest.fixture(scope="session")
def txn1_embedded() -> Iterator[Cluster]:
    with Cluster(brokers=1, config=QUICK) as cluster:
        set_level(cluster.bootstrap, 1)
        yield cluster


@pytest.fixture(scope="session")
def forgetful_apache(kafka_installed: None) -> Iterator[ApacheKafka]:
    with ApacheKafka(nodes=1, properties=FORGETFUL) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def forgetful_embedded() -> Iterator[Cluster]:
    with Cluster(brokers=1, config=FORGETFUL) as cluster:
        yield cluster


def _of_kind(request: pytest.FixtureRequest, name: str) -> Broker:
    if request.param == "ottla":
        return EmbeddedBroker(request.getfixturevalue(f"{name}_embedded"))
    return ApacheBroker(request.getfixturevalue(f"{name}_apache"))


@pytest.fixture(params=BROKERS)
def txn(request: pytest.FixtureRequest) -> Iterator[Links]:
    """A cluster of one node at transaction.version 2."""
    with Links(_of_kind(request, "txn")) as links:
        yield links


@pytest.fixture(params=BROKERS)
def txn1(request: pytest.FixtureRequest) -> Iterator[Links]:
    """A cluster of one node at transaction.version 1."""
    with Links(_of_kind(request, "txn1")) as links:
        yield links


@pytest.fixture(params=BROKERS)
def forgetful(request: pytest.FixtureRequest) -> Iterator[Links]:
    """A cluster of one node that forgets transactional ids a second after their last transaction."""
    with Links(_of_kind(request, "forgetful")) as links:
        yield links


@pytest.fixture(params=BROKERS)
def txn3(request: pytest.FixtureRequest) -> Iterator[Links]:
    """A cluster of three nodes at transaction.version 2."""
    broker = (
        EmbeddedBroker(request.getfixturevalue("embedded3"))
        if request.param == "ottla"
        else ApacheBroker(request.getfixturevalue("apache3"))
    )
    with Links(broker) as links:
        yield links


Unverified = Callable[[Links], None]


@pytest.fixture
def unverified() -> Iterator[Unverified]:
    """Lets a cluster take records of transactions of which no coordinator knows, until the test is over."""
    changed: list[Links] = []

    def allow(links: Links) -> None:
        configure(links.broker.bootstrap, None, transaction_partition_verification_enable="false")
        changed.append(links)

    yield allow
    for links in changed:
        configure(links.broker.bootstrap, None, transaction_partition_verification_enable=None)


def delete_topic(links: Links, topic: str) -> None:
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
    (gone,) = links.any().get(request, 5, DeleteTopicsResponse).responses
    assert gone.error_code == 0, gone


def refuse_markers(producer: TxnProducer, topic: str) -> None:
    """A partition refuses the coordinator's markers for this producer from now on: its transaction never ends.

    The partition has seen the marker of a later coordinator. It must come before the producer's records.
    """
    assert write_marker(producer, topic, commit=False, coordinator_epoch=LATER_COORDINATOR) == "NONE"


def write_marker(
    producer: TxnProducer,
    topic: str,
    *,
    commit: bool,
    epoch: int | None = None,
    coordinator_epoch: int = 0,
    level: int = 0,
    version: int = 2,
) -> str:
    """WriteTxnMarkers for partition 0, as a coordinator or an administrator sends it."""
    request = WriteTxnMarkersRequest
    marker = request.WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch if epoch is None else epoch,
        transaction_result=commit,
        topics=[request.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        coordinator_epoch=coordinator_epoch,
        transaction_version=level,
    )
    leader = producer.links.leader(topic)
    answer = leader.get(request(markers=[marker]), version, WriteTxnMarkersResponse)
    return name_of(answer.markers[0].topics[0].partitions[0].error_code)


def producer_of(links: Links, level: int = 2) -> TxnProducer:
    """A new one, initialized."""
    return TxnProducer(links, level).init()
