"""Producing while things go wrong: nothing lost, nothing twice, order kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.server.faults import Action, delay, drop, error, never
from ottla.errors import (
    DeliveryError,
    DeliveryTimeoutError,
    InvalidRecordError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from tests.client.produce.producing import numbered, producing, values
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]

AFTER_APPEND = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"

IDEMPOTENT_FAULTS = [
    pytest.param("before_append", drop, id="drop-before"),
    pytest.param("after_append", drop, id="drop-after"),
    pytest.param("response", drop, id="drop-response"),
    pytest.param("before_append", error("NOT_LEADER_OR_FOLLOWER"), id="not-leader"),
    pytest.param("before_append", error("LEADER_NOT_AVAILABLE"), id="no-leader"),
    pytest.param("before_append", error("UNKNOWN_TOPIC_OR_PARTITION"), id="unknown-topic"),
    pytest.param("before_append", error("UNKNOWN_TOPIC_ID"), id="unknown-topic-id"),
    pytest.param("before_append", error("FENCED_LEADER_EPOCH"), id="fenced-epoch"),
    pytest.param("before_append", error("NOT_ENOUGH_REPLICAS"), id="not-enough-replicas"),
    pytest.param("after_append", error("NOT_ENOUGH_REPLICAS_AFTER_APPEND"), id="not-enough-after-append"),
    pytest.param("after_append", error("KAFKA_STORAGE_ERROR"), id="storage-error-after-append"),
    pytest.param("after_append", error("REQUEST_TIMED_OUT"), id="timed-out-after"),
    pytest.param("before_append", error("REQUEST_TIMED_OUT"), id="timed-out-before"),
    pytest.param("before_append", error("KAFKA_STORAGE_ERROR"), id="storage"),
    pytest.param("before_append", error("CORRUPT_MESSAGE"), id="corrupt"),
    pytest.param("before_append", error("OUT_OF_ORDER_SEQUENCE_NUMBER"), id="out-of-order"),
    pytest.param("before_append", error("UNKNOWN_PRODUCER_ID"), id="unknown-producer"),
    pytest.param("before_append", error("INVALID_PRODUCER_EPOCH"), id="invalid-epoch"),
    pytest.param("response", delay(0.2), id="slow-answer"),
]

SHORT: dict[str, Any] = {
    "delivery_timeout_ms": 3000,
    "request_timeout_ms": 1000,
    "default_api_timeout_ms": 1000,
}
PATIENT: dict[str, Any] = {
    "delivery_timeout_ms": 60_000,
    "request_timeout_ms": 20_000,
    "default_api_timeout_ms": 20_000,
}
"""For what is on sockets: only a clock that is moved lets records expire."""


@pytest.mark.parametrize(("when", "action"), IDEMPOTENT_FAULTS)
def test_every_record_is_stored_once_and_in_order(run: Run, when: str, action: Action) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0, batch_size=400) as rig,
        ):
            await rig.producer.produce("orders", b"first")
            fault = cluster.faults.add("Produce", when=when, action=action, count=3)
            deliveries = [rig.producer.produce("orders", value) for value in numbered(200)]
            await rig.producer.flush(60)
            assert fault.hits == 3
            assert values(cluster, "orders") == [b"first", *numbered(200)]
            assert [delivery.offset for delivery in deliveries] == list(range(1, 201))

    run(body)


@pytest.mark.parametrize("when", ["before_append", "after_append"])
def test_a_broker_that_never_answers_is_asked_again(run: Run, when: str) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0, request_timeout_ms=1000, fetch_max_wait_ms=500) as rig,
        ):
            fault = cluster.faults.add("Produce", when=when, action=never, count=1)
            delivery = rig.producer.produce("orders", b"1")
            await fault.wait()
            world.clock.advance(1.1)
            await delivery
            assert values(cluster, "orders") == [b"1"]

    run(body)


def test_records_of_many_partitions_survive_moving_leaders(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 4}) as cluster:
            async with producing(world, cluster, linger_ms=0, batch_size=300) as rig:
                for round_ in range(6):
                    for value in numbered(50):
                        rig.producer.produce("orders", b"%d-%s" % (round_, value), key=value)
                    partition = round_ % 4
                    await cluster.move_leader(
                        "orders", partition, cluster.leader("orders", partition) % 3 + 1
                    )
                await rig.producer.flush(60)
            await _assert_complete(cluster, rounds=6, count=50)

    run(body)


def test_records_survive_the_restart_of_every_node(run: Run) -> None:
    async def body(world: World) -> None:
        quick = {"broker.session.timeout.ms": 1000, "broker.heartbeat.interval.ms": 100}
        async with world.cluster(3, topics={"orders": 4}, config=quick) as cluster:
            async with producing(world, cluster, linger_ms=0, batch_size=300) as rig:
                for node in (1, 2, 3):
                    for value in numbered(50):
                        rig.producer.produce("orders", b"%d-%s" % (node - 1, value), key=value)
                    await cluster.stop_node(node, clean=node != 2)
                    await cluster.start_node(node)
                await rig.producer.flush(60)
            await _assert_complete(cluster, rounds=3, count=50)

    run(body)


async def _assert_complete(cluster: AsyncCluster, rounds: int, count: int) -> None:
    expected = {b"%d-%d" % (round_, number) for round_ in range(rounds) for number in range(count)}
    records = cluster.dump("orders")
    assert len(records) == len(expected)
    assert {record.value for record in records} == expected
    for key in numbered(count):
        mine = [record.value for record in records if record.key == key]
        assert mine == [b"%d-%s" % (round_, key) for round_ in range(rounds)]


def test_a_refused_batch_fails_and_those_behind_it_are_delivered(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0, batch_size=100) as rig,
        ):
            await rig.producer.produce("orders", b"first")
            cluster.faults.add("Produce", action=error("INVALID_RECORD"), count=1)
            deliveries = [rig.producer.produce("orders", value) for value in numbered(100)]
            with pytest.raises(DeliveryError) as raised:
                await rig.producer.flush(60)
            failed = [each for each in deliveries if each.error is not None]
            assert failed
            assert raised.value.failed == len(failed)
            assert isinstance(raised.value.__cause__, InvalidRecordError)
            stored = [value for value, each in zip(numbered(100), deliveries, strict=True) if not each.error]
            assert values(cluster, "orders") == [b"first", *stored]
            await rig.producer.flush(60)

    run(body)


def test_refusals_cost_no_back_off() -> None:
    """A record that is refused leaves a gap, and the broker refuses those behind it: that is no sign of trouble."""

    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0, batch_size=80, retry_backoff_ms=100) as rig,
        ):
            await rig.producer.produce("orders", b"first")
            began = world.runtime.clock.monotonic()
            for number in range(30):
                cluster.faults.add("Produce", action=error("INVALID_RECORD"), count=1)
                for value in numbered(20):
                    rig.producer.produce("orders", b"%d-%s" % (number, value))
                with pytest.raises(DeliveryError):
                    await rig.producer.flush(60)
            assert world.runtime.clock.monotonic() - began < 1.0

    in_simulation(body)


@pytest.mark.parametrize("outage", [2.0, 10.0])
@pytest.mark.parametrize("also", ["NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER"])
def test_an_outage_longer_than_the_delivery_timeout_stores_nothing_twice_and_calls_nothing_unstored_that_is(
    outage: float, also: str
) -> None:
    """The first of three batches is appended without enough replicas; the others expire while it is asked for."""

    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0, batch_size=62, **SHORT) as rig,
        ):
            await rig.producer.produce("orders", b"0")
            # The first one meets no other rule before the append.
            cluster.faults.add("Produce", action=delay(0.0), count=1)
            cluster.faults.add("Produce", when="after_append", action=error(AFTER_APPEND), count=1)
            cluster.faults.add("Produce", action=error(also))
            deliveries = [rig.producer.produce("orders", value) for value in (b"A", b"B", b"C")]
            await world.runtime.clock.sleep(outage)
            cluster.faults.clear()
            with suppress(DeliveryError):
                await rig.producer.flush(60)
            errors = [delivery.error for delivery in deliveries]
            assert errors[0] is None
            assert [isinstance(each, DeliveryTimeoutError) for each in errors[1:]] == [outage > 3] * 2
            stored = [b"0", b"A"] if outage > 3 else [b"0", b"A", b"B", b"C"]
            assert values(cluster, "orders") == stored
            await rig.producer.produce("orders", b"D")
            assert values(cluster, "orders") == [*stored, b"D"]

    in_simulation(body)


@pytest.mark.parametrize("code", ["NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR", "INVALID_RECORD"])
def test_an_error_beside_an_offset_is_one_after_the_append(code: str) -> None:
    """A leader that loses its partition while it waits for the others answers so; the batch may be stored."""

    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0, **SHORT) as rig,
        ):
            await rig.producer.produce("orders", b"0")
            cluster.faults.add("Produce", when="after_append", action=error(code), count=1)
            cluster.faults.add("Produce", action=delay(0.0), count=1)
            cluster.faults.add("Produce", action=error("NOT_ENOUGH_REPLICAS"))
            delivery = rig.producer.produce("orders", b"A")
            await world.runtime.clock.sleep(10)
            cluster.faults.clear()
            with suppress(DeliveryError):
                await rig.producer.flush(60)
            assert delivery.error is None or getattr(delivery.error, "may_be_stored", False)
            assert (delivery.error is None) == (code != "INVALID_RECORD")
            await rig.producer.produce("orders", b"B")
            assert values(cluster, "orders") == [b"0", b"A", b"B"]

    in_simulation(body)


def test_a_batch_that_is_too_large_for_the_topic_is_split(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0) as rig,
        ):
            fault = cluster.faults.add("Produce", action=error("MESSAGE_TOO_LARGE"), count=3)
            deliveries = [rig.producer.produce("orders", value) for value in numbered(100)]
            await rig.producer.flush(60)
            assert fault.hits == 3
            assert values(cluster, "orders") == numbered(100)
            assert [each.offset for each in deliveries] == list(range(100))

    run(body)


def test_a_single_record_that_is_too_large_fails_with_the_option_to_change(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0) as rig,
        ):
            cluster.faults.add("Produce", action=error("MESSAGE_TOO_LARGE"), count=1)
            with pytest.raises(Exception, match=r"max\.message\.bytes"):
                await rig.producer.produce("orders", b"large")
            await rig.producer.produce("orders", b"small")
            assert values(cluster, "orders") == [b"small"]
            with pytest.raises(DeliveryError):
                await rig.producer.flush()

    run(body)


class Disconnected:
    """Lets a test wait until the client has noticed that a broker is gone."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def on_broker_disconnect(self, node_id: int, peer: str, error: BaseException | None) -> None:
        if node_id >= 0:
            self.event.set()


def test_a_record_that_cannot_be_delivered_in_time_fails_and_is_known_not_to_be_stored(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster:
            gone = Disconnected()
            async with producing(world, cluster, gone, linger_ms=0, **PATIENT) as rig:
                await rig.producer.produce("orders", b"first")
                await cluster.stop_node(1)
                await gone.event.wait()
                delivery = rig.producer.produce("orders", b"late")
                world.clock.advance(61)
                with pytest.raises(DeliveryTimeoutError, match="is not stored") as raised:
                    await delivery
                assert not raised.value.may_be_stored
                await cluster.start_node(1)
                await rig.producer.produce("orders", b"next")
                assert values(cluster, "orders") == [b"first", b"next"]
                with pytest.raises(DeliveryError):
                    await rig.producer.flush()

    run(body)


def test_a_record_that_may_be_stored_is_tried_until_a_broker_tells_whatever_the_delivery_timeout(
    run: Run,
) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0, **PATIENT) as rig,
        ):
            await rig.producer.produce("orders", b"first")
            fault = cluster.faults.add("Produce", when="after_append", action=error("REQUEST_TIMED_OUT"))
            delivery = rig.producer.produce("orders", b"late")
            await fault.wait()
            world.clock.advance(61)
            while fault.hits < 3:
                await world.runtime.clock.sleep(0.2)
            assert not delivery.done()
            cluster.faults.clear()
            await delivery
            await rig.producer.flush()
            assert values(cluster, "orders") == [b"first", b"late"]

    run(body)


def test_without_idempotence_a_record_without_an_answer_fails_in_time_and_may_be_stored(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0, enable_idempotence=False, **PATIENT) as rig,
        ):
            await rig.producer.produce("orders", b"first")
            fault = cluster.faults.add("Produce", when="after_append", action=error("REQUEST_TIMED_OUT"))
            delivery = rig.producer.produce("orders", b"late")
            await fault.wait()
            world.clock.advance(61)
            with pytest.raises(DeliveryTimeoutError, match="may be stored") as raised:
                await delivery
            assert raised.value.may_be_stored
            with pytest.raises(DeliveryError):
                await rig.producer.flush()

    run(body)


def test_an_error_that_is_final_for_the_topic_reaches_the_caller_at_once(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster:
            cluster.faults.add("Metadata", topic="orders", action=error("TOPIC_AUTHORIZATION_FAILED"))
            async with producing(world, cluster) as rig:
                with pytest.raises(TopicAuthorizationFailedError, match="orders"):
                    await rig.producer.produce("orders", b"1")
                cluster.faults.clear()
                await rig.producer.produce("orders", b"2")
                assert values(cluster, "orders") == [b"2"]
                with pytest.raises(DeliveryError):
                    await rig.producer.flush()

    run(body)


def test_a_topic_that_never_appears_fails_after_a_few_answers(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, config={"auto.create.topics.enable": False}) as cluster,
            producing(world, cluster) as rig,
        ):
            with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
                await rig.producer.produce("nowhere", b"1")
            await cluster.create_topic("nowhere")
            await rig.producer.produce("nowhere", b"2")
            assert values(cluster, "nowhere") == [b"2"]
            with pytest.raises(DeliveryError):
                await rig.producer.flush()

    run(body)


def test_a_topic_created_anew_gets_what_follows(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0) as rig,
        ):
            for value in numbered(10):
                await rig.producer.produce("orders", value)
            await cluster.delete_topic("orders")
            await cluster.create_topic("orders")
            deliveries = [rig.producer.produce("orders", value) for value in numbered(10)]
            await rig.producer.flush(60)
            assert values(cluster, "orders") == numbered(10)
            assert [each.offset for each in deliveries] == list(range(10))

    run(body)


def test_without_idempotence_lost_answers_may_store_twice_but_never_lose(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(
                world,
                cluster,
                linger_ms=0,
                batch_size=300,
                enable_idempotence=False,
                max_in_flight_requests_per_connection=1,
            ) as rig,
        ):
            cluster.faults.add("Produce", when="after_append", action=drop, count=2)
            for value in numbered(100):
                rig.producer.produce("orders", value)
            await rig.producer.flush(60)
            stored = values(cluster, "orders")
            assert list(dict.fromkeys(stored)) == numbered(100)
            assert len(stored) > 100

    run(body)


def test_the_producer_id_is_asked_for_until_a_broker_has_one(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics={"orders": 1}) as cluster:
            cluster.faults.add("InitProducerId", action=error("COORDINATOR_LOAD_IN_PROGRESS"), count=2)
            cluster.faults.add("InitProducerId", action=drop, count=1)
            async with producing(world, cluster, linger_ms=0) as rig:
                await rig.producer.produce("orders", b"1")
                assert values(cluster, "orders") == [b"1"]

    run(body)


def test_no_producer_id_at_all_fails_the_records_with_the_reason(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster:
            cluster.faults.add("InitProducerId", action=error("CLUSTER_AUTHORIZATION_FAILED"))
            async with producing(world, cluster, linger_ms=0) as rig:
                with pytest.raises(Exception, match="CLUSTER_AUTHORIZATION_FAILED"):
                    await rig.producer.produce("orders", b"1")
                with pytest.raises(DeliveryError):
                    await rig.producer.flush()

    run(body)


def test_a_simulated_run_under_faults_replays_exactly() -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(3, topics={"orders": 4}) as cluster,
            producing(world, cluster, linger_ms=1, batch_size=300) as rig,
        ):
            cluster.faults.add("Produce", when="after_append", action=drop, count=4)
            for value in numbered(300):
                rig.producer.produce("orders", value, key=value)
                await asyncio.sleep(0)
            await cluster.move_leader("orders", 0, cluster.leader("orders", 0) % 3 + 1)
            await rig.producer.flush(60)
            assert sorted(value or b"" for value in values(cluster, "orders")) == sorted(numbered(300))

    assert in_simulation(body, seed=7) == in_simulation(body, seed=7)
