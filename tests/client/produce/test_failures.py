"""Partitions that do not exist are one error, whichever call names them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pyarrow
import pytest

from ottla import TopicPartition
from ottla.errors import DeliveryError, KafkaError, NoSuchPartitionError, UnknownTopicOrPartitionError
from tests.client.worlds import Body, World

Run = Callable[[Body], object]


def test_every_call_that_names_a_partition_that_does_not_exist_gets_the_same_error(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 3}) as cluster:
            kafka = world.client(cluster)
            table = pyarrow.table({"value": [b"1", b"2"]})
            rows = pyarrow.table({"value": [b"1", b"2"], "partition": [0, 7]})
            await (await kafka.produce("orders", b"1"))
            calls: dict[str, Callable[[], Any]] = {
                "produce": lambda: kafka.produce("orders", b"1", partition=7),
                "produce_batch": lambda: kafka.produce_batch("orders", table, partition=7),
                "a column": lambda: kafka.produce_batch("orders", rows),
                "consume": lambda: anext(aiter(kafka.consume(TopicPartition("orders", 7)))),
                "list_offsets": lambda: kafka.admin.list_offsets(TopicPartition("orders", 7)),
            }
            for name, call in calls.items():
                with pytest.raises(NoSuchPartitionError) as caught:
                    await call()
                error = caught.value
                assert "no partition 7 of topic 'orders', which has partitions 0 to 2" in str(error), name
                assert (error.topic, error.partition, error.partitions) == ("orders", 7, 3), name
            assert "row 1" in str(await failed(kafka.produce_batch("orders", rows)))

    run(body)


async def failed(call: object) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        await call  # type: ignore[misc]
    return caught.value


def test_a_record_that_waited_for_its_topic_gets_that_error_too(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 3}) as cluster:
            kafka = world.client(cluster)
            delivery = await kafka.produce("orders", b"1", partition=7)
            assert isinstance(await failed(delivery), NoSuchPartitionError)
            with pytest.raises(DeliveryError, match="no partition 7"):
                await kafka.flush()

    run(body)


def test_it_is_what_people_catch_and_travels() -> None:
    error = NoSuchPartitionError(topic="orders", partition=7, partitions=3, detail="Row 1.")
    assert isinstance(error, UnknownTopicOrPartitionError)
    assert isinstance(error, ValueError)
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(twin), twin.partitions, twin.topic) == (str(error), 3, "orders")
