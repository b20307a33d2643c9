"""Telemetry against a cluster that asks for it: what arrives, what happens when a push is refused, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, MetricsData

from ottla.broker import Push
from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.server import faults
from ottla.client.metadata import Metadata
from ottla.client.metrics import Metrics
from ottla.client.telemetry import TelemetryReporter
from ottla.hooks import Hook
from tests.client.worlds import Body, World

ASK, PUSH = 71, 72
Run = Callable[[Body], object]


class Answers(Hook):
    """Lets a test wait for the answers to requests, by API."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    def on_broker_read(
        self, node_id: int, api_key: int, size: int, seconds: float, error: BaseException | None
    ) -> None:
        self.seen.append(api_key)
        for api, count, arrived in self._waiting:
            if self.seen.count(api) >= count and not arrived.done():
                arrived.set_result(None)

    async def wait(self, api_key: int, count: int = 1) -> None:
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.seen.count(api_key) < count:
            self._waiting.append((api_key, count, arrived))
            await arrived


class Pushing:
    """The parts of a client that pushes, and nothing else of it."""

    def __init__(self, world: World, cluster: AsyncCluster | str, **options: Any) -> None:
        self.metrics = Metrics(world.runtime.clock)
        self.answers = Answers()
        parts = world.parts(cluster, self.metrics, self.answers, **options)
        self.metadata = Metadata(parts.config, parts.runtime, parts.hooks, parts.brokers, parts.tasks)
        self.telemetry = TelemetryReporter(
            parts.config, parts.runtime, parts.brokers, parts.tasks, self.metrics, "1.0"
        )

    def start(self) -> None:
        self.telemetry.start()
        self.metadata.start()
        self.metadata.refresh_now("the test begins")

    async def close(self) -> None:
        await self.telemetry.close()
        await self.metadata.close()


@asynccontextmanager
async def pushing(world: World, cluster: AsyncCluster, **options: Any) -> AsyncIterator[Pushing]:
    client = Pushing(world, cluster, **options)
    client.start()
    try:
        yield client
    finally:
        await client.close()


def metrics_of(push: Push) -> dict[str, Metric]:
    [resource] = MetricsData.FromString(push.metrics).resource_metrics
    return {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}


def connections_created(push: Push) -> int:
    metric = metrics_of(push)["ottla.connection.creation.total"]
    assert metric.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    created: int = metric.sum.data_points[0].as_int
    return created


def test_what_a_cluster_asks_for_is_pushed_every_interval_and_sums_are_counted_once(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            cluster.telemetry.subscribe("*", interval_ms=100)
            async with pushing(world, cluster, client_id="me", client_rack="r1") as client:
                await client.answers.wait(PUSH, 3)
                pushes = cluster.telemetry.pushes[:3]
                assert client.telemetry.client_instance_id == pushes[0].client_instance_id
                created = client.metrics.snapshot().number("ottla.connection.creation.total")
        assert [push.client_id for push in pushes] == ["me"] * 3
        assert len({push.client_instance_id for push in pushes}) == 1
        assert sum(map(connections_created, pushes)) == created > 0
        resource = MetricsData.FromString(pushes[0].metrics).resource_metrics[0].resource
        assert [(each.key, each.value.string_value) for each in resource.attributes] == [
            ("client_rack", "r1")
        ]

    run(body)


def test_a_client_that_ends_pushes_a_last_time(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            cluster.telemetry.subscribe("*", interval_ms=3_600_000)
            async with pushing(world, cluster) as client:
                await client.answers.wait(ASK)
            assert [push.terminating for push in cluster.telemetry.pushes] == [True]

    run(body)


def test_only_metrics_that_begin_as_asked_for_are_pushed(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            cluster.telemetry.subscribe("ottla.metadata.", interval_ms=100)
            async with pushing(world, cluster) as client:
                await client.answers.wait(PUSH)
            names = list(metrics_of(cluster.telemetry.pushes[0]))
            assert names
            assert all(name.startswith("ottla.metadata.") for name in names)

    run(body)


def test_a_cluster_that_asks_for_nothing_is_pushed_nothing(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            cluster.telemetry.subscribe(interval_ms=100)
            async with pushing(world, cluster) as client:
                await client.answers.wait(ASK, 3)
            assert PUSH not in client.answers.seen

    run(body)


def test_a_cluster_without_telemetry_is_not_asked(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            async with pushing(world, cluster) as client:
                await client.metadata.wait(lambda view: view.brokers or None, 60.0)
                await client.answers.wait(3)
            assert ASK not in client.answers.seen
            assert client.telemetry.client_instance_id is None

    run(body)


def test_a_client_that_must_not_push_does_not_even_ask(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            cluster.telemetry.subscribe("*", interval_ms=100)
            async with pushing(world, cluster, enable_metrics_push=False) as client:
                await client.answers.wait(3)
            assert ASK not in client.answers.seen

    run(body)


def test_a_changed_subscription_is_asked_for_anew_and_nothing_is_missing_afterwards(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            cluster.telemetry.subscribe("*", interval_ms=100)
            async with pushing(world, cluster) as client:
                await client.answers.wait(PUSH)
                cluster.telemetry.subscribe("ottla.", interval_ms=200)
                await client.answers.wait(ASK, 2)
                await client.answers.wait(PUSH, 3)
                created = client.metrics.snapshot().number("ottla.connection.creation.total")
            assert sum(map(connections_created, cluster.telemetry.pushes)) == created
            last = metrics_of(cluster.telemetry.pushes[-1])
            assert all(name.startswith("ottla.") for name in last)

    run(body)


@pytest.mark.parametrize("refusal", ["UNSUPPORTED_COMPRESSION_TYPE", "THROTTLING_QUOTA_EXCEEDED"])
def test_a_push_that_is_refused_for_now_is_made_again(run: Run, refusal: str) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            cluster.telemetry.subscribe("*", interval_ms=100)
            fault = cluster.faults.add(api="PushTelemetry", action=faults.error(refusal), count=1)
            async with pushing(world, cluster) as client:
                await client.answers.wait(PUSH, 2)
                assert fault.hits == 1
                assert cluster.telemetry.pushes
                created = client.metrics.snapshot().number("ottla.connection.creation.total")
            assert sum(map(connections_created, cluster.telemetry.pushes)) == created

    run(body)


def test_a_broker_that_cannot_read_a_push_gets_no_other(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            cluster.telemetry.subscribe("*", interval_ms=100)
            cluster.faults.add(api="PushTelemetry", action=faults.error("INVALID_RECORD"))
            async with pushing(world, cluster) as client:
                await client.answers.wait(PUSH)
                client.metadata.refresh_now("something else happens meanwhile")
                await client.answers.wait(3, 2)
            assert client.answers.seen.count(PUSH) == 1
            assert "telemetry ends" in caplog.text

    run(body)


def test_a_lost_connection_does_not_end_telemetry(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            cluster.telemetry.subscribe("*", interval_ms=100)
            fault = cluster.faults.add(api="PushTelemetry", action=faults.drop, count=1)
            async with pushing(world, cluster) as client:
                # One that was lost, and then one that arrived.
                await client.answers.wait(PUSH, 2)
                assert fault.hits == 1
            assert cluster.telemetry.pushes

    run(body)


def test_a_broker_that_does_not_answer_holds_up_the_end_for_a_second_at_most(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            cluster.telemetry.subscribe("*", interval_ms=3_600_000)
            cluster.faults.add(api="PushTelemetry", action=faults.never)
            async with pushing(world, cluster) as client:
                await client.answers.wait(ASK)
                began = world.runtime.clock.monotonic()
                await client.telemetry.close()
                assert world.runtime.clock.monotonic() - began < (2.0 if world.simulated else 60.0)

    run(body)


def test_a_push_that_would_be_too_large_leaves_out_what_matters_least(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(config={"telemetry.max.bytes": "400"}) as cluster:
            cluster.telemetry.subscribe("*", interval_ms=100)
            async with pushing(world, cluster) as client:
                client.metrics.on_broker_write(1, 0, 60, None)
                client.metrics.on_broker_read(1, 0, 60, 0.1, None)
                await client.answers.wait(PUSH)
            names = list(metrics_of(cluster.telemetry.pushes[0]))
            assert "org.apache.kafka.producer.record.send.total" in names

    run(body)


def test_closing_before_the_cluster_is_known_or_twice_ends_at_once(run: Run) -> None:
    async def body(world: World) -> None:
        client = Pushing(world, "127.0.0.1:1")
        client.telemetry.start()
        await client.telemetry.close()
        await client.telemetry.close()

    run(body)
