"""Producing to purged topics: what waits fails, what is in flight ends by itself, what follows begins anew."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow
import pytest

import ottla
from ottla.broker import Cluster
from ottla.broker.server import faults
from ottla.errors import AbortedError, DeliveryError
from ottla.wire.batches import batch_headers
from tests.client.produce.producing import Rig, numbered, producing, values
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
NEVER_BY_ITSELF: dict[str, Any] = {"linger_ms": 60_000}


def sequences(cluster: Any, topic: str) -> list[tuple[int, int]]:
    stored = cluster.partition(topic).log.read(0, 1 << 20)
    return [(each.producer_epoch, each.base_sequence) for each in batch_headers(b"".join(stored.parts))]


def aborted(error: BaseException | None) -> AbortedError:
    assert isinstance(error, AbortedError)
    assert "purged" in str(error)
    return error


def test_records_that_wait_fail_and_those_of_other_topics_go_on(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 2, "audit": 1}) as cluster,
            producing(world, cluster, **NEVER_BY_ITSELF) as rig,
        ):
            await rig.producer.known_topic("orders")
            dropped = [rig.producer.produce("orders", b"", partition=number % 2) for number in range(5)]
            kept = rig.producer.produce("audit", b"kept")
            assert rig.producer.purge(["orders", "nothing is known of it"]) == 5
            assert not any(aborted(each.error).may_be_stored for each in dropped)
            assert "orders" not in rig.metadata.view.topics
            assert rig.producer.buffered_records == 1
            with pytest.raises(DeliveryError, match="5 records"):
                await rig.producer.flush(30)
            assert kept.result().offset == 0
            assert values(cluster, "orders") == []
            assert rig.producer.purge(["orders"]) == 0, "there is nothing left to forget"

    run(body)


def test_records_of_a_topic_that_is_not_known_yet_fail(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster, producing(world, cluster) as rig:
            held = cluster.faults.add("Metadata", action=faults.delay(0.05), count=1)
            waits = rig.producer.produce("orders", b"1")
            await held.wait()
            assert rig.producer.purge(["orders"]) == 1
            assert not aborted(waits.error).may_be_stored
            # In the same moment: the response that is under way is not believed, and another one comes.
            assert (await rig.producer.produce("orders", b"2")).offset == 0
            assert values(cluster, "orders") == [b"2"]
            with pytest.raises(DeliveryError):
                await rig.producer.flush(30)

    run(body)


def test_the_next_record_begins_an_epoch_in_which_none_has_been(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1, "audit": 1}) as cluster,
            producing(world, cluster, linger_ms=0) as rig,
        ):
            for number in range(3):
                for topic in ("orders", "audit"):
                    await rig.producer.produce(topic, b"%d" % number)
                    await rig.producer.produce(topic, b"")
                rig.producer.purge(["orders"])
            assert sequences(cluster, "orders") == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
            assert sequences(cluster, "audit") == [(0, sequence) for sequence in range(6)]

    run(body)


def test_a_batch_in_flight_ends_with_its_response(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0, max_in_flight_requests_per_connection=1) as rig,
        ):
            await rig.producer.produce("orders", b"0")
            held = cluster.faults.add("Produce", action=faults.delay(0.05), count=1)
            flying = rig.producer.produce("orders", b"1")
            await held.wait()
            waits = rig.producer.produce("orders", b"2")
            assert rig.producer.purge(["orders"]) == 1
            assert waits.done()
            assert not flying.done()
            again = rig.producer.produce("orders", b"3")
            with pytest.raises(DeliveryError, match="1 records"):
                await rig.producer.flush(30)
            assert flying.result().offset == 1, "a flush waits for it, too"
            assert again.result().offset == 2
            assert values(cluster, "orders") == [b"0", b"1", b"3"]
            assert sequences(cluster, "orders") == [(0, 0), (0, 1), (1, 0)]
            await until_let_go(world, rig)

    run(body)


async def until_let_go(world: World, rig: Rig) -> None:
    """Nothing is left of what was in flight when its topic was purged."""
    while rig.producer._topics.purged():
        await world.runtime.clock.sleep(0.05)


def test_a_batch_in_flight_that_gets_no_response_is_not_sent_again_and_says_so(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0) as rig,
        ):
            await rig.producer.produce("orders", b"0")
            lost = cluster.faults.add("Produce", when="after_append", action=faults.drop, count=1)
            flying = rig.producer.produce("orders", b"1")
            await cluster_has(world, cluster, 2)
            rig.producer.purge(["orders"])
            again = await rig.producer.produce("orders", b"2")
            with pytest.raises(DeliveryError):
                await rig.producer.flush(60)
            assert lost.hits == 1
            assert aborted(flying.error).may_be_stored
            assert again.offset == 2
            assert values(cluster, "orders") == [b"0", b"1", b"2"], "nothing is there twice"
            await until_let_go(world, rig)

    run(body)


async def cluster_has(world: World, cluster: Any, count: int) -> None:
    while len(values(cluster, "orders")) < count:
        await world.runtime.clock.sleep(0.01)


def test_a_batch_that_may_be_stored_and_waits_to_be_sent_again_fails_and_says_so(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(
                world, cluster, linger_ms=0, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000
            ) as rig,
        ):
            await rig.producer.produce("orders", b"0")
            cluster.faults.add("Produce", when="after_append", action=faults.drop, count=1)
            ambiguous = rig.producer.produce("orders", b"1")
            (recbuf,) = (await rig.producer.known_topic("orders")).recbufs
            while not any(batch.is_ambiguous for batch in recbuf.batches):
                await world.runtime.clock.sleep(0.01)
            assert rig.producer.purge(["orders"]) == 1
            assert aborted(ambiguous.error).may_be_stored
            with pytest.raises(DeliveryError):
                await rig.producer.flush(30)

    run(body)


def test_a_topic_that_was_deleted_and_created_again_is_produced_to_as_what_it_is(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 6}) as cluster,
            producing(world, cluster, linger_ms=0) as rig,
        ):
            for value in numbered(20):
                await rig.producer.produce("orders", value, key=value)
            await cluster.delete_topic("orders")
            await cluster.create_topic("orders", 2)
            assert rig.producer.purge(["orders"]) == 0
            sent = [rig.producer.produce("orders", value, key=value) for value in numbered(20)]
            await rig.producer.flush(10)
            assert {each.result().partition for each in sent} == {0, 1}
            topic = await rig.producer.known_topic("orders")
            assert {each.topic_id for each in topic.recbufs} == {rig.metadata.view.topics["orders"].topic_id}
            assert len(values(cluster, "orders")) == 20

    run(body)


def test_a_callback_of_a_record_that_fails_may_produce_and_purge_again(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1, "audit": 1}) as cluster,
            producing(world, cluster, **NEVER_BY_ITSELF) as rig,
        ):
            for topic in ("orders", "audit"):
                await rig.producer.known_topic(topic)
            again: list[Any] = []

            def failed(_: Any) -> None:
                rig.producer.purge(["orders", "audit"])
                again.append(rig.producer.produce("orders", b"again"))

            first = rig.producer.produce("orders", b"")
            second = rig.producer.produce("audit", b"")
            first.add_done_callback(failed)
            rig.producer.purge(["orders"])
            aborted(first.error)
            aborted(second.error)
            with pytest.raises(DeliveryError):
                await rig.producer.flush(30)
            assert [each.result().offset for each in again] == [0]
            assert values(cluster, "orders") == [b"again"]

    run(body)


def test_a_table_that_waits_for_room_goes_on_with_the_topic_as_it_is_then(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 4}) as cluster,
            producing(world, cluster, linger_ms=0, max_buffered_records=80, max_block_ms=50_000) as rig,
        ):
            await rig.producer.known_topic("orders")
            table = pyarrow.table({"value": numbered(200), "key": numbered(200)})
            hung = cluster.faults.add("Produce", action=faults.delay(0.2), count=1)
            producing_it = rig.parts.tasks.spawn(rig.producer.produce_batch("orders", table), "a table")
            await hung.wait()
            assert not producing_it.done()
            given_up = rig.producer.purge(["orders"])
            receipt = await producing_it
            with pytest.raises(DeliveryError):
                await rig.producer.flush(30)
            assert receipt.done()
            assert len(values(cluster, "orders")) == 200 - given_up

    run(body)


def test_a_table_for_a_topic_that_is_purged_before_it_is_known_is_refused(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster, producing(world, cluster) as rig:
            held = cluster.faults.add("Metadata", action=faults.delay(0.05), count=1)
            table = pyarrow.table({"value": numbered(10)})
            producing_it = rig.parts.tasks.spawn(
                _outcome(rig.producer.produce_batch("orders", table)), "a table"
            )
            await held.wait()
            rig.producer.purge(["orders"])
            aborted(await producing_it)
            await (await rig.producer.produce_batch("orders", table))
            assert len(values(cluster, "orders")) == 10

    run(body)


async def _outcome(work: Any) -> BaseException | None:
    try:
        await work
    except AbortedError as error:
        return error
    return None


def test_a_batch_without_acknowledgement_of_its_sequence_is_purged_too(run: Run) -> None:
    """Without idempotence there is no epoch to begin."""

    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, enable_idempotence=False, acks=1, **NEVER_BY_ITSELF) as rig,
        ):
            await rig.producer.known_topic("orders")
            rig.producer.produce("orders", b"1")
            assert rig.producer.purge(["orders"]) == 1
            rig.producer.produce("orders", b"2")
            with pytest.raises(DeliveryError):
                await rig.producer.flush(30)
            assert values(cluster, "orders") == [b"2"]

    run(body)


def test_every_record_ends_and_none_is_there_twice_while_threads_produce_and_purge(kafka: Cluster) -> None:
    kafka.create_topic("orders", 2)
    with ottla.Client(kafka.bootstrap, linger_ms=1) as client:
        client.produce("orders", b"first").result(30)
        receipts: list[list[Any]] = [[], []]
        is_over = threading.Event()

        def produce(number: int) -> None:
            each = 0
            while not is_over.is_set() and each < 50_000:
                receipts[number].append(client.produce("orders", b"%d-%d" % (number, each)))
                each += 1

        threads = [threading.Thread(target=produce, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        given_up = 0
        for _ in range(40):
            given_up += client.purge_topics("orders")
        is_over.set()
        for thread in threads:
            thread.join()
        with suppress(DeliveryError):
            client.flush(60)
        stored = [record.value for record in kafka.dump("orders")]
        done = [receipt for each in receipts for receipt in each]
        assert all(receipt.done() for receipt in done)
        delivered = sum(receipt.error is None for receipt in done)
        assert len(done) - delivered >= given_up
        assert all(isinstance(receipt.error, AbortedError | None) for receipt in done)
        unknown = sum(getattr(receipt.error, "may_be_stored", False) for receipt in done)
        assert len(stored) == len(set(stored))
        assert delivered + 1 <= len(stored) <= delivered + 1 + unknown
