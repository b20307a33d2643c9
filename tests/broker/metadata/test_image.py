from collections.abc import Sequence

from ottla.broker.metadata.image import MetadataImage, PartitionImage
from ottla.broker.metadata.records import (
    AssignReplicaRecord,
    BrokerChangeRecord,
    BrokerEndpoint,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from ottla.wire import Uuid
from ottla.wire.resources import ConfigResourceType

ORDERS = Uuid(b"o" * 16)
LISTENERS = (BrokerEndpoint("PLAINTEXT", "here", 9001), BrokerEndpoint("SSL", "there", 9002, 1))


def replay(*records: MetadataRecord) -> MetadataImage:
    image = MetadataImage()
    image.apply_all(records)
    return image


def topic(partitions: int = 1, replicas: Sequence[int] = (1, 2)) -> list[MetadataRecord]:
    records = [
        PartitionRecord(ORDERS, index, tuple(replicas), tuple(replicas), leader=replicas[0])
        for index in range(partitions)
    ]
    return [TopicRecord("orders", ORDERS), *records]


def register(broker_id: int, epoch: int = 0) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(broker_id, epoch, Uuid(16), LISTENERS, rack="a")


def test_the_offset_is_that_of_the_last_record() -> None:
    assert replay().offset == -1
    assert replay(*topic()).offset == 1


def test_a_broker_is_fenced_until_a_record_says_otherwise() -> None:
    image = replay(register(1, epoch=5))
    assert not image.brokers[1].alive
    assert image.alive_brokers() == []
    image.apply(BrokerChangeRecord(1, 5, fenced=False))
    assert [broker.id for broker in image.alive_brokers()] == [1]
    assert image.is_active(1)
    assert not image.is_active(2)


def test_a_broker_that_is_leaving_is_alive_but_leads_nothing() -> None:
    image = replay(
        register(1),
        BrokerChangeRecord(1, 0, fenced=False),
        BrokerChangeRecord(1, 0, in_controlled_shutdown=True),
    )
    assert image.brokers[1].alive
    assert not image.is_active(1)


def test_a_broker_has_the_address_of_its_first_listener() -> None:
    broker = replay(register(1)).brokers[1]
    assert (broker.host, broker.port) == ("here", 9001)


def test_a_broker_that_is_unregistered_is_gone() -> None:
    assert replay(register(1), UnregisterBrokerRecord(1, 0)).brokers == {}


def test_a_topic_is_found_by_name_and_by_id() -> None:
    image = replay(*topic(partitions=3))
    assert image.topics["orders"] is image.topics_by_id[ORDERS]
    assert image.partition("orders", 2) == PartitionImage((1, 2), (1, 2), 1, 0, 0)
    assert image.partition("orders", 3) is None
    assert image.partition("other", 0) is None
    assert [index for _, index, _ in image.all_partitions()] == [0, 1, 2]


def test_a_change_without_a_leader_keeps_the_leader_epoch() -> None:
    image = replay(*topic(), PartitionChangeRecord(ORDERS, 0, isr=(1,)))
    assert image.partition("orders", 0) == PartitionImage((1, 2), (1,), 1, leader_epoch=0, partition_epoch=1)


def test_a_change_with_a_leader_raises_the_leader_epoch_even_for_the_same_one() -> None:
    image = replay(*topic(), PartitionChangeRecord(ORDERS, 0, leader=1))
    assert image.partition("orders", 0) == PartitionImage((1, 2), (1, 2), 1, 1, 1)


def test_a_change_may_touch_everything() -> None:
    change = PartitionChangeRecord(
        ORDERS, 0, isr=(3,), leader=3, replicas=(3, 1), adding=(3,), removing=(1,), recovering=True
    )
    partition = replay(*topic(), change).partition("orders", 0)
    assert partition == PartitionImage((3, 1), (3,), 3, 1, 1, (3,), (1,), True)
    assert partition is not None
    assert partition.is_reassigning
    assert partition.has_leader
    assert partition.preferred_leader == 3


def eligible(topic_id: Uuid, index: int) -> PartitionChangeRecord:
    """Replica 2 has left the ISR and is eligible, and there is no leader."""
    return PartitionChangeRecord(topic_id, index, isr=(), leader=-1, elr=(2,), last_known_elr=(1,))


def test_who_is_eligible_is_forgotten_for_one_topic_or_for_all() -> None:
    other = Uuid(b"p" * 16)
    records = [
        *topic(partitions=2),
        eligible(ORDERS, 0),
        TopicRecord("payments", other),
        PartitionRecord(other, 0, (1, 2), (1, 2), leader=1),
        eligible(other, 0),
    ]
    image = replay(*records)
    before = image.topics["orders"].partitions[0]
    assert (before.elr, before.last_known_elr, before.partition_epoch) == ((2,), (1,), 1)
    delta = image.apply_all([ClearElrRecord("orders")])
    after = image.topics["orders"].partitions[0]
    assert (after.elr, after.last_known_elr, after.isr, after.partition_epoch) == ((), (), (), 2)
    assert after.leader_epoch == before.leader_epoch
    assert list(delta.partitions) == [(ORDERS, 0)], "the other partition had none, and keeps its epoch"
    assert image.topics["payments"].partitions[0].elr == (2,)
    delta = image.apply_all([ClearElrRecord("")])
    assert list(delta.partitions) == [(other, 0)]


def test_where_a_replica_lies_is_forgotten_with_the_replica() -> None:
    here, there = Uuid(b"h" * 16), Uuid(b"t" * 16)
    image = replay(
        TopicRecord("orders", ORDERS),
        PartitionRecord(ORDERS, 0, (1, 2), (1, 2), 1),
        AssignReplicaRecord(ORDERS, 0, 1, here),
        AssignReplicaRecord(ORDERS, 0, 2, there),
        PartitionChangeRecord(ORDERS, 0, replicas=(2, 3), isr=(2,)),
        PartitionChangeRecord(ORDERS, 0, replicas=(2, 1), isr=(2,)),
    )
    assert [image.directory_of(ORDERS, 0, node) for node in (1, 2)] == [None, there]


def test_a_topic_takes_its_configs_with_it() -> None:
    image = replay(
        *topic(),
        ConfigRecord(ConfigResourceType.TOPIC, "orders", "retention.ms", "5"),
        ConfigRecord(ConfigResourceType.TOPIC, "other", "retention.ms", "6"),
        RemoveTopicRecord(ORDERS),
    )
    assert image.topics == {}
    assert image.topics_by_id == {}
    assert image.configs == {(ConfigResourceType.TOPIC, "other"): {"retention.ms": "6"}}


def test_a_config_without_a_value_is_removed() -> None:
    image = replay(
        ConfigRecord(ConfigResourceType.BROKER, "", "a", "1"),
        ConfigRecord(ConfigResourceType.BROKER, "", "b", "2"),
        ConfigRecord(ConfigResourceType.BROKER, "", "a", None),
    )
    assert image.config_overrides(ConfigResourceType.BROKER, "") == {"b": "2"}
    image.apply(ConfigRecord(ConfigResourceType.BROKER, "", "b", None))
    image.apply(ConfigRecord(ConfigResourceType.BROKER, "", "never set", None))
    assert image.configs == {}
    assert image.config_overrides(ConfigResourceType.BROKER, "") == {}


def test_overrides_that_someone_holds_do_not_change_under_them() -> None:
    image = replay(ConfigRecord(ConfigResourceType.BROKER, "", "a", "1"))
    held = image.config_overrides(ConfigResourceType.BROKER, "")
    image.apply(ConfigRecord(ConfigResourceType.BROKER, "", "a", "2"))
    assert held == {"a": "1"}


def test_producer_ids_and_features_are_kept() -> None:
    image = replay(
        ProducerIdsRecord(1, 0, 1000), FeatureLevelRecord("group.version", 1), FeatureLevelRecord("x", 2)
    )
    image.apply(FeatureLevelRecord("x", 0))
    assert image.next_producer_id == 1000
    assert image.features == {"group.version": 1}


def test_a_delta_has_each_partition_before_and_after_all_records() -> None:
    image = replay(*topic(partitions=2))
    delta = image.apply_all(
        [PartitionChangeRecord(ORDERS, 1, leader=2), PartitionChangeRecord(ORDERS, 1, leader=1), register(9)]
    )
    (change,) = delta.partitions.values()
    assert (change.topic, change.topic_id, change.index) == ("orders", ORDERS, 1)
    assert change.old == PartitionImage((1, 2), (1, 2), 1, 0, 0)
    assert change.new == PartitionImage((1, 2), (1, 2), 1, 2, 2)
    assert list(delta.brokers) == [9]


def test_a_delta_tells_new_topics_from_deleted_ones() -> None:
    image = MetadataImage()
    delta = image.apply_all([*topic(), ConfigRecord(ConfigResourceType.TOPIC, "orders", "a", "1")])
    assert delta.created_topics == {ORDERS: "orders"}
    assert delta.partitions[ORDERS, 0].old is None
    assert list(delta.configs) == [(ConfigResourceType.TOPIC, "orders")]
    delta = image.apply_all([RemoveTopicRecord(ORDERS)])
    assert delta.deleted_topics == {ORDERS: "orders"}
    assert delta.partitions[ORDERS, 0].new is None
    assert list(delta.configs) == [(ConfigResourceType.TOPIC, "orders")]


def test_what_came_and_went_within_a_delta_is_neither_created_nor_deleted() -> None:
    delta = MetadataImage().apply_all([*topic(), RemoveTopicRecord(ORDERS)])
    assert delta.created_topics == delta.deleted_topics == {}
    change = delta.partitions[ORDERS, 0]
    assert change.old is None
    assert change.new is None


def test_a_topic_that_is_made_again_is_another_topic() -> None:
    image = replay(*topic())
    again = Uuid(b"2" * 16)
    delta = image.apply_all(
        [RemoveTopicRecord(ORDERS), TopicRecord("orders", again), PartitionRecord(again, 0, (1,), (1,), 1)]
    )
    assert delta.deleted_topics == {ORDERS: "orders"}
    assert delta.created_topics == {again: "orders"}
    assert list(delta.partitions) == [(ORDERS, 0), (again, 0)]


def test_a_delta_names_features_and_producer_ids() -> None:
    delta = MetadataImage().apply_all([FeatureLevelRecord("x", 1), ProducerIdsRecord(1, 0, 1000)])
    assert list(delta.features) == ["x"]
    assert delta.producer_ids
