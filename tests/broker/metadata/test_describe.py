"""What clients see of an image: brokers that are alive, leaders that can be found."""

from __future__ import annotations

from ottla.broker.metadata.describe import (
    NO_CONTROLLER,
    alive_broker,
    controller_id,
    leader_of,
    offline_replicas,
)
from ottla.broker.metadata.image import MetadataImage, PartitionImage
from ottla.broker.metadata.records import BrokerChangeRecord, BrokerEndpoint, RegisterBrokerRecord
from ottla.wire import Uuid

PARTITION = PartitionImage((1, 2, 3), (1, 2), leader=1, leader_epoch=0, partition_epoch=0)


def image(*alive: int, fenced: tuple[int, ...] = ()) -> MetadataImage:
    made = MetadataImage()
    for broker_id in (*alive, *fenced):
        endpoints = (BrokerEndpoint("PLAINTEXT", "here", 9000 + broker_id),)
        made.apply(RegisterBrokerRecord(broker_id, 0, Uuid(16), endpoints))
    for broker_id in alive:
        made.apply(BrokerChangeRecord(broker_id, 0, fenced=False))
    return made


def test_the_first_broker_that_is_alive_stands_for_the_controller() -> None:
    assert controller_id(image(3, 2, fenced=(1,))) == 2
    assert controller_id(image(fenced=(1,))) == NO_CONTROLLER


def test_a_fenced_broker_is_not_there_for_clients() -> None:
    seen = image(2, fenced=(1,))
    assert alive_broker(seen, 1) is None
    assert alive_broker(seen, 2) is seen.brokers[2]
    assert alive_broker(seen, 3) is None
    assert offline_replicas(seen, PARTITION) == [1, 3]


def test_a_leader_that_has_been_unregistered_is_none() -> None:
    assert leader_of(image(1), PARTITION) == 1
    assert leader_of(image(fenced=(1,)), PARTITION) == 1
    assert leader_of(image(2), PARTITION) == -1
