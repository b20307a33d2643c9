"""The configs of a node: what applies to its topics, and what a change of the image changes."""

from __future__ import annotations

from ottla.broker.configs.node import NodeConfigs
from ottla.broker.metadata.image import Delta, MetadataImage
from ottla.wire.resources import ConfigResourceType


def changed(image: MetadataImage, kind: int, resource: str, **configs: str) -> Delta:
    """The image with other configs of a resource."""
    named = {name.replace("_", "."): value for name, value in configs.items()}
    image.configs[kind, resource] = named
    return Delta(configs={(kind, resource): None})


def node(image: MetadataImage, **static: object) -> NodeConfigs:
    return NodeConfigs({name.replace("_", "."): value for name, value in static.items()}, 1, image)


def test_a_topic_has_what_was_set_for_it_and_else_what_the_broker_has() -> None:
    image = MetadataImage()
    configs = node(image, log_retention_ms=1000)
    assert configs.value("log.retention.ms") == 1000
    assert configs.topic("orders").value("retention.ms") == 1000
    assert configs.apply(changed(image, ConfigResourceType.TOPIC, "orders", retention_ms="7")) == ["orders"]
    assert configs.topic("orders").value("retention.ms") == 7
    assert configs.topic("payments").value("retention.ms") == 1000


def test_a_change_of_a_topic_that_was_never_needed_is_no_news() -> None:
    image = MetadataImage()
    configs = node(image)
    assert configs.apply(changed(image, ConfigResourceType.TOPIC, "orders", retention_ms="7")) == []
    assert configs.topic("orders").value("retention.ms") == 7
    assert configs.apply(Delta()) == []


def test_a_change_of_a_broker_concerns_every_topic() -> None:
    image = MetadataImage()
    configs = node(image)
    for topic in ("orders", "payments"):
        configs.topic(topic)
    assert configs.apply(changed(image, ConfigResourceType.BROKER, "", log_retention_ms="9")) == [
        "orders",
        "payments",
    ]
    assert configs.topic("orders").value("retention.ms") == 9
    configs.apply(changed(image, ConfigResourceType.BROKER, "1", log_retention_ms="8"))
    assert configs.value("log.retention.ms") == 8
    configs.apply(changed(image, ConfigResourceType.BROKER, "2", log_retention_ms="6"))
    assert configs.value("log.retention.ms") == 8, "another broker's"
