import pytest

from ottla.broker.metadata.image import TOPIC_RESOURCE
from tests.broker.controller.support import Controller

INVALID_TOPIC_EXCEPTION = 17
INVALID_REPLICATION_FACTOR = 38


def test_an_ordinary_topic_is_made_with_the_defaults() -> None:
    controller = Controller([1, 2], num_partitions=3, default_replication_factor=2)
    response = controller.carry_out(controller.state.auto_create(["orders", "orders", "bad name"]))
    assert [(result.name, result.error_code) for result in response.topics] == [
        ("orders", 0),
        ("bad name", INVALID_TOPIC_EXCEPTION),
    ]
    partitions = controller.state.image.topics["orders"].partitions
    assert len(partitions) == 3
    assert len(partitions[0].replicas) == 2
    assert controller.state.image.configs == {}


@pytest.mark.parametrize(
    ("name", "configs"),
    [
        (
            "__consumer_offsets",
            {"cleanup.policy": "compact", "segment.bytes": "104857600", "compression.type": "producer"},
        ),
        (
            "__transaction_state",
            {
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": "1",
                "segment.bytes": "104857600",
            },
        ),
        (
            "__share_group_state",
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "segment.bytes": "104857600",
                "min.insync.replicas": "1",
                "retention.ms": "-1",
            },
        ),
    ],
)
def test_kafkas_own_topics_have_their_own_settings(name: str, configs: dict[str, str]) -> None:
    controller = Controller([1])
    (result,) = controller.carry_out(controller.state.auto_create([name])).topics
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 50, 1)
    assert controller.state.image.config_overrides(TOPIC_RESOURCE, name) == configs


def test_kafkas_own_topics_need_enough_brokers() -> None:
    controller = Controller([1], offsets_topic_replication_factor=3)
    (result,) = controller.carry_out(controller.state.auto_create(["__consumer_offsets"])).topics
    assert result.error_code == INVALID_REPLICATION_FACTOR
