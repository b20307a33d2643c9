"""Administration of configs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.cluster.options import TopicSpec
from ottla.client.admin import ConfigSource
from ottla.errors import (
    InvalidConfigError,
    KafkaError,
    UnknownBrokerError,
    UnknownTopicOrPartitionError,
)
from tests.client.requests.support import requester
from tests.client.worlds import Body, World

Run = Callable[[Body], object]


def test_configs_of_a_topic_are_described_with_their_sources(run: Run) -> None:
    async def body(world: World) -> None:
        topics = {"orders": TopicSpec(config={"retention.ms": 12345})}
        async with world.cluster(topics=topics) as cluster:
            admin = requester(world, cluster).admin
            configs = await admin.describe_configs(topic="orders")
            assert (configs["retention.ms"].value, configs["retention.ms"].source) == (
                "12345",
                ConfigSource.TOPIC,
            )
            assert configs["cleanup.policy"].is_default
            some = await admin.describe_configs(
                topic="orders", names=["retention.ms"], synonyms=True, documentation=True
            )
            assert list(some) == ["retention.ms"]
            assert some["retention.ms"].synonyms[0].value == "12345"
            assert some["retention.ms"].documentation

    run(body)


def test_configs_are_set_deleted_appended_to_and_subtracted_from(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            admin = requester(world, cluster).admin

            async def value(name: str) -> str | None:
                return (await admin.describe_configs(topic="orders", names=[name]))[name].value

            await admin.alter_configs(
                topic="orders", set={"retention.ms": 777, "preallocate": True, "cleanup.policy": ["delete"]}
            )
            assert [await value(name) for name in ("retention.ms", "preallocate")] == ["777", "true"]
            await admin.alter_configs(topic="orders", append={"cleanup.policy": "compact"})
            assert await value("cleanup.policy") == "delete,compact"
            await admin.alter_configs(
                topic="orders", subtract={"cleanup.policy": "delete"}, delete=["retention.ms"]
            )
            assert await value("cleanup.policy") == "compact"
            assert await value("retention.ms") == "604800000"
            await admin.alter_configs(topic="orders", set={"retention.ms": 1}, validate_only=True)
            assert await value("retention.ms") == "604800000"

    run(body)


def test_configs_of_a_broker_come_from_that_broker(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3) as cluster:
            admin = requester(world, cluster).admin
            for node in (1, 2, 3):
                configs = await admin.describe_configs(broker=node, names=["node.id"])
                assert (configs["node.id"].value, configs["node.id"].read_only) == (str(node), True)
            await admin.alter_configs(broker_defaults=True, set={"log.retention.ms": 5000})
            defaults = await admin.describe_configs(broker_defaults=True)
            assert defaults["log.retention.ms"].value == "5000"

    run(body)


def test_errors_say_whose_config_it_was(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            admin = requester(world, cluster).admin
            with pytest.raises(UnknownTopicOrPartitionError, match="ordres"):
                await admin.describe_configs(topic="ordres")
            with pytest.raises(InvalidConfigError, match="orders"):
                await admin.alter_configs(topic="orders", set={"retention.ms": "soon"})
            with pytest.raises(UnknownBrokerError, match="9"):
                await admin.describe_configs(broker=9)
            with pytest.raises(ValueError, match="2 were given"):
                await admin.describe_configs(topic="orders", broker=1)
            with pytest.raises(ValueError, match="0 were given"):
                await admin.alter_configs(set={"a": "b"})
            with pytest.raises(KafkaError):
                await admin.alter_configs(topic="orders", set={"no.such.config": 1})

    run(body)
