"""What a fresh client asks, in which order, over which connections: nothing before its turn, nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ottla.hooks import Hook
from ottla.wire import api_for_key
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]

# Metrics are asked for whenever a connection is there, beside everything else.
TELEMETRY = {"GetTelemetrySubscriptions", "PushTelemetry"}


class Asked(Hook):
    """The requests of a client, in order, by broker."""

    def __init__(self) -> None:
        self.log: list[tuple[int, str]] = []
        self.connects = 0

    def on_broker_connect(self, node_id: int, host: str, port: int, seconds: float, error: Any) -> None:
        self.connects += 1

    def on_broker_write(self, node_id: int, api_key: int, size: int, error: Any) -> None:
        name = api_for_key(api_key).name
        if name not in TELEMETRY:
            self.log.append((node_id, name))

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.log]


def test_producing_asks_versions_metadata_and_a_producer_id_once(run: Run) -> None:
    async def body(world: World) -> None:
        asked = Asked()
        async with world.cluster(topics=["orders"]) as cluster, world.client(cluster, hooks=[asked]) as kafka:
            for number in range(3):
                await (await kafka.produce("orders", b"%d" % number))
            assert asked.names[:2] == ["ApiVersions", "Metadata"]
            counted = Counter(asked.names)
            assert counted["InitProducerId"] == 1
            assert counted["Produce"] == 3
            assert counted["Metadata"] == 1
            assert asked.names.index("InitProducerId") < asked.names.index("Produce")
            assert counted["ApiVersions"] == asked.connects

    run(body)


def test_consuming_asks_for_metadata_then_offsets_then_records(run: Run) -> None:
    async def body(world: World) -> None:
        asked = Asked()
        async with world.cluster(topics=["orders"]) as cluster, world.client(cluster, hooks=[asked]) as kafka:
            cluster.seed("orders", [b"1"])
            consumer = kafka.consume("orders", start="earliest")
            assert len(await consumer.poll(timeout=60)) == 1
            order = list(dict.fromkeys(asked.names))
            assert order == ["ApiVersions", "Metadata", "ListOffsets", "Fetch"]
            counted = Counter(asked.names)
            assert (counted["Metadata"], counted["ListOffsets"]) == (1, 1)
            assert counted["ApiVersions"] == asked.connects
            await consumer.close()

    run(body)


@pytest.mark.parametrize("seed", range(1, 6))
def test_each_of_several_brokers_is_greeted_and_asked_for_offsets_once(seed: int) -> None:
    async def body(world: World) -> None:
        asked = Asked()
        async with (
            world.cluster(3, topics={"orders": 6}) as cluster,
            world.client(cluster, hooks=[asked]) as kafka,
        ):
            for partition in range(6):
                cluster.seed("orders", [b"%d" % partition], partition)
            found = [record async for record in kafka.consume("orders", start="earliest", stop="latest")]
            assert len(found) == 6
            counted = Counter(asked.log)
            for node in (1, 2, 3):
                # Once for where to begin, once for where to end.
                assert counted[node, "ListOffsets"] <= 2
                first = [name for to, name in asked.log if to == node]
                assert first[0] == "ApiVersions"
            assert asked.names.count("ApiVersions") == asked.connects
            assert asked.names.count("Metadata") == 1

    in_simulation(body, seed=seed)


def test_a_client_that_is_entered_and_left_asks_for_nothing_but_metadata(run: Run) -> None:
    async def body(world: World) -> None:
        asked = Asked()
        async with world.cluster(topics=["orders"]) as cluster, world.client(cluster, hooks=[asked]):
            pass
        assert set(asked.names) <= {"ApiVersions", "Metadata"}

    run(body)
