"""The producer as a whole, on the embedded cluster: what its callers see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.broker.server.faults import delay, drop, error, never
from ottla.client.produce.completions import Flush
from ottla.client.produce.producer import Producer
from ottla.client.produce.topics import TopicProducer
from ottla.errors import (
    AbortedError,
    ApiTimeoutError,
    ClientClosedError,
    DeliveryError,
    NoSuchPartitionError,
    RecordTooLargeError,
    SerializationError,
)
from ottla.hooks import Acknowledgement, Hook, ProducedBatch, ProducerInterceptor, ProducerRecord
from ottla.serde.calls import serialize_plain
from ottla.wire.batches import batch_headers
from ottla.wire.records import BufferFull
from tests.client.produce.producing import numbered, producing, values
from tests.client.worlds import Body, World

Run = Callable[[Body], object]


def test_a_record_arrives_with_everything_it_was_given(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 3}) as cluster, producing(world, cluster) as rig:
            delivery = await rig.producer.produce(
                "orders", b"v", b"k", [("trace", b"1"), ("none", None)], 2, 1_700_000_000_000
            )
            assert (delivery.partition, delivery.offset, delivery.error) == (2, 0, None)
            record = cluster.dump("orders", 2)[0]
            assert (record.key, record.value, record.timestamp) == (b"k", b"v", 1_700_000_000_000)
            assert record.headers == [("trace", b"1"), ("none", None)]

    run(body)


def test_a_topic_is_created_when_it_is_produced_to(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1) as cluster, producing(world, cluster) as rig:
            for value in numbered(10):
                rig.producer.produce("new", value, partition=0)
            await rig.producer.flush()
            assert values(cluster, "new", 0) == numbered(10)

    run(body)


def test_a_flush_goes_on_while_threads_open_topics(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    flush_topic = TopicProducer.flush

    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster, producing(world, cluster) as rig:
            names = ["beside"]

            def flush_as_a_thread_produces(topic: TopicProducer, flush: Flush) -> None:
                if names:
                    rig.producer.produce(names.pop(), b"v", partition=0)
                flush_topic(topic, flush)

            rig.producer.produce("orders", b"v")
            with monkeypatch.context() as patched:
                patched.setattr(TopicProducer, "flush", flush_as_a_thread_produces)
                await rig.producer.drained()
            assert values(cluster, "orders", 0) == [b"v"]
            await rig.producer.flush()
            assert values(cluster, "beside", 0) == [b"v"]

    run(body)


def test_records_gather_while_they_linger(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster:
            told = Told()
            async with producing(world, cluster, told, linger_ms=50) as rig:
                await rig.producer.produce("orders", b"first")
                for value in numbered(20):
                    rig.producer.produce("orders", value)
                    await asyncio.sleep(0)
                await told.until(2)
                assert [batch.records for batch in told.acknowledged] == [1, 20]

    run(body)


def test_awaiting_a_delivery_ends_lingering(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=10_000_000, delivery_timeout_ms=2**31 - 1) as rig,
        ):
            delivery = rig.producer.produce("orders", b"1")
            assert await delivery is not None
            assert values(cluster, "orders") == [b"1"]

    run(body)


def test_a_full_buffer_ends_lingering_and_space_comes_in_turn(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(
                world,
                cluster,
                linger_ms=10_000_000,
                delivery_timeout_ms=2**31 - 1,
                buffer_memory=20_000,
                batch_size=100_000,
            ) as rig,
        ):
            order = []

            async def produce(number: int) -> None:
                while True:
                    try:
                        rig.producer.produce("orders", b"%d" % number + bytes(1000))
                    except BufferFull:
                        await rig.producer.space()
                    else:
                        order.append(number)
                        return

            await asyncio.gather(*[produce(number) for number in range(200)])
            await rig.producer.flush()
            assert order == list(range(200))
            assert len(values(cluster, "orders")) == 200
            assert rig.producer.buffered_bytes == rig.producer.buffered_records == 0

    run(body)


def test_the_number_of_buffered_records_is_bounded(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, max_buffered_records=3) as rig,
        ):
            for value in numbered(3):
                rig.producer.produce("orders", value)
            with pytest.raises(BufferFull) as raised:
                rig.producer.produce("orders", b"3")
            assert raised.value.limit == "records"
            await rig.producer.space()
            rig.producer.produce("orders", b"3")
            await rig.producer.flush()
            assert values(cluster, "orders") == numbered(4)

    run(body)


def test_a_partition_that_does_not_exist_is_refused(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster, producing(world, cluster) as rig:
            await rig.producer.produce("orders", b"1")
            with pytest.raises(NoSuchPartitionError, match="orders"):
                rig.producer.produce("orders", b"2", partition=7)

    run(body)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy", "zstd"])
def test_batches_are_compressed_small_and_large_ones(run: Run, codec: str) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0, compression_type=codec) as rig,
        ):
            await rig.producer.produce("orders", b"small" * 10)
            large = [b"%d" % number + bytes(1000) for number in range(500)]
            for value in large:
                rig.producer.produce("orders", value)
            await rig.producer.flush()
            assert values(cluster, "orders") == [b"small" * 10, *large]

    run(body)


def test_without_acknowledgements_a_record_is_delivered_when_it_is_handed_over(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0, acks=0, enable_idempotence=False) as rig,
        ):
            deliveries = [rig.producer.produce("orders", value) for value in numbered(50)]
            await rig.producer.flush()
            assert all(each.done() and each.offset == -1 and each.error is None for each in deliveries)
            await cluster.wait_for_records("orders", 50)
            assert values(cluster, "orders") == numbered(50)

    run(body)


async def until_full(producer: Producer, value: bytes) -> int:
    """Produces until there is no room, with all the time that the loop needs to hand it over; how many."""
    for produced in range(2_000):
        try:
            producer.produce("orders", value)
        except BufferFull:
            return produced
        for _ in range(5):
            await asyncio.sleep(0)
    raise AssertionError("nothing holds back what has no answer")


def test_without_acknowledgements_a_slow_reader_fills_the_buffer_and_not_more(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(
                world,
                cluster,
                linger_ms=0,
                acks=0,
                enable_idempotence=False,
                buffer_memory=2_000_000,
                batch_size=100_000,
            ) as rig,
        ):
            await rig.producer.produce("orders", b"first")
            cluster.pause_node(1)
            produced = 1 + await until_full(rig.producer, bytes(50_000))
            cluster.resume_node(1)
            await rig.producer.flush()
            assert rig.producer.buffered_records == 0
            await cluster.wait_for_records("orders", produced)

    run(body)


def test_without_acknowledgements_a_lost_connection_does_not_leave_records_behind(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0, acks=0, enable_idempotence=False) as rig,
        ):
            await rig.producer.produce("orders", b"first")
            cluster.pause_node(1)
            deliveries = [rig.producer.produce("orders", bytes(100_000)) for _ in range(200)]
            await deliveries[0]
            assert not deliveries[-1].done()
            await cluster.stop_node(1)
            await cluster.start_node(1)
            await rig.producer.flush()
            assert all(each.error is None for each in deliveries)

    run(body)


def test_a_held_record_that_cannot_be_placed_fails_alone_and_flush_tells(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 2}) as cluster,
            producing(world, cluster) as rig,
        ):
            good = rig.producer.produce("orders", b"good", partition=1)
            bad = rig.producer.produce("orders", b"bad", partition=2)
            with pytest.raises(DeliveryError, match="1 records were not delivered") as told:
                await rig.producer.flush()
            assert isinstance(told.value.__cause__, NoSuchPartitionError)
            assert told.value.__cause__ is bad.error
            assert good.error is None
            await rig.producer.flush()

    run(body)


@pytest.mark.parametrize("known", [True, False])
def test_a_record_that_is_too_large_names_the_option_and_its_size(run: Run, known: bool) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, max_request_size=2_000, buffer_memory=5_000) as request,
            producing(world, cluster, batch_size=500, buffer_memory=2_000) as memory,
        ):
            for rig, limit in ((request, "max_request_size"), (memory, "buffer_memory")):
                if known:
                    await rig.producer.produce("orders", b"small")
                with pytest.raises(RecordTooLargeError, match=f"{limit}=2000 ") as refused:
                    rig.producer.produce("orders", bytes(3_000))
                assert refused.value.limit == limit
                assert 3_000 < refused.value.size < 3_100
                await rig.producer.flush()

    run(body)


def test_requests_hold_several_partitions_but_not_more_than_their_size_allows(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 8}) as cluster:
            sizes: list[int] = []

            class Writes(Hook):
                def on_broker_write(
                    self, node_id: int, api_key: int, size: int, error: BaseException | None
                ) -> None:
                    if api_key == 0:
                        sizes.append(size)

            async with producing(world, cluster, Writes(), linger_ms=5, max_request_size=10_000) as rig:
                for partition in range(8):
                    for _ in range(8):
                        rig.producer.produce("orders", bytes(500), partition=partition)
                await rig.producer.flush()
            assert len(cluster.dump("orders")) == 64
            assert 4 <= len(sizes) <= 8
            assert max(sizes) < 10_500

    run(body)


# Flush, abort, close


def test_flush_waits_for_what_was_produced_before_it_and_for_nothing_else(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 2}) as cluster,
            producing(world, cluster, linger_ms=5) as rig,
        ):
            await rig.producer.produce("orders", b"first", partition=0)
            for value in numbered(10):
                rig.producer.produce("orders", value, partition=0)
            flush = asyncio.ensure_future(rig.producer.flush())
            await asyncio.sleep(0)
            blocked = cluster.faults.add("Produce", partition=1, action=error("NOT_ENOUGH_REPLICAS"))
            late = rig.producer.produce("orders", b"late", partition=1)
            await flush
            assert len(values(cluster, "orders", 0)) == 11
            assert not late.done()
            await blocked.wait()
            cluster.faults.clear()
            await late

    run(body)


def test_flush_says_when_its_time_is_up(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster:
            cluster.faults.add("Produce", action=error("NOT_ENOUGH_REPLICAS"))
            async with producing(world, cluster) as rig:
                rig.producer.produce("orders", b"1")
                with pytest.raises(ApiTimeoutError, match="1 batches"):
                    await rig.producer.flush(0.05)
                cluster.faults.clear()
                await rig.producer.flush()
                assert values(cluster, "orders") == [b"1"]

    run(body)


def test_aborting_fails_what_was_not_sent_and_keeps_what_may_be_stored(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=0, batch_size=100) as rig,
        ):
            await rig.producer.produce("orders", b"first")
            slow = cluster.faults.add("Produce", action=delay(0.05), count=1)
            deliveries = [rig.producer.produce("orders", value) for value in numbered(100)]
            held = rig.producer.produce("unknown", b"held")
            await slow.wait()
            aborted = rig.producer.abort_buffered()
            with pytest.raises(DeliveryError):
                await rig.producer.flush()
            failed = [each for each in (*deliveries, held) if isinstance(each.error, AbortedError)]
            assert 0 < len(failed) == aborted < 101
            await rig.producer.produce("orders", b"last")
            kept = [value for value, each in zip(numbered(100), deliveries, strict=True) if not each.error]
            assert values(cluster, "orders") == [b"first", *kept, b"last"]

    run(body)


def test_closing_delivers_what_is_there_and_takes_nothing_more(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(world, cluster, linger_ms=1000) as rig,
        ):
            for value in numbered(10):
                rig.producer.produce("orders", value)
            await rig.producer.close(10)
            assert values(cluster, "orders") == numbered(10)
            with pytest.raises(ClientClosedError):
                rig.producer.produce("orders", b"late")
            with pytest.raises(ClientClosedError):
                rig.producer.produce("other", b"late")

    run(body)


def test_closing_ends_in_bounded_time_and_says_what_may_be_stored(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 2}) as cluster,
            producing(world, cluster, linger_ms=0) as rig,
        ):
            await rig.producer.produce("orders", b"1", partition=0)
            fault = cluster.faults.add("Produce", action=never)
            # One request at a time until a first success there.
            sent = rig.producer.produce("orders", b"2", partition=1)
            await fault.wait()
            waiting = rig.producer.produce("orders", b"3", partition=1)
            unknown = rig.producer.produce("elsewhere", b"4")
            with pytest.raises(DeliveryError) as raised:
                await rig.producer.close(0.05)
            assert raised.value.failed == 3
            for delivery, stored in ((sent, True), (waiting, False), (unknown, False)):
                assert isinstance(delivery.error, AbortedError)
                assert delivery.error.may_be_stored is stored

    run(body)


def test_a_producer_of_an_unreachable_cluster_closes_too(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1) as cluster:
            bootstrap = cluster.bootstrap
        async with producing(world, bootstrap) as rig:
            delivery = rig.producer.produce("orders", b"1")
            with pytest.raises(DeliveryError):
                await rig.producer.close(0.05)
            assert isinstance(delivery.error, AbortedError)

    run(body)


# Hooks, interceptors, serializers


class Told(Hook):
    def __init__(self) -> None:
        self.buffered: list[Acknowledgement] = []
        self.sealed: list[ProducedBatch] = []
        self.written: list[ProducedBatch] = []
        self.acknowledged: list[ProducedBatch] = []
        self.failed: list[tuple[ProducedBatch, BaseException]] = []
        self._more = asyncio.Event()

    def on_record_buffered(self, delivery: Acknowledgement) -> None:
        self.buffered.append(delivery)

    def on_batch_sealed(self, batch: ProducedBatch) -> None:
        self.sealed.append(batch)

    def on_batch_written(self, batch: ProducedBatch) -> None:
        self.written.append(batch)

    def on_batch_acknowledged(self, batch: ProducedBatch) -> None:
        self.acknowledged.append(batch)
        self._more.set()

    def on_batch_failed(self, batch: ProducedBatch, error: BaseException) -> None:
        self.failed.append((batch, error))

    async def until(self, acknowledged: int) -> None:
        while len(self.acknowledged) < acknowledged:
            self._more.clear()
            await self._more.wait()


def test_hooks_hear_of_every_hop_of_a_batch(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster:
            told = Told()
            async with producing(world, cluster, told, linger_ms=0) as rig:
                cluster.faults.add("Produce", when="after_append", action=drop, count=1)
                delivery = await rig.producer.produce("orders", b"1")
                cluster.faults.add("Produce", action=error("INVALID_RECORD"), count=1)
                with pytest.raises(Exception, match="INVALID_RECORD"):
                    await rig.producer.produce("orders", b"2")
                with pytest.raises(DeliveryError):
                    await rig.producer.flush()
            assert [each.offset for each in told.buffered] == [delivery.offset, -1]
            assert len(told.sealed) == 2
            assert [batch.attempts for batch in told.written] == [1, 2, 1]
            batch = told.acknowledged[0]
            assert (batch.node_id, batch.topic, batch.partition, batch.records) == (1, "orders", 0, 1)
            assert batch.sealed_at is not None
            assert batch.written_at is not None
            assert batch.acknowledged_at is not None
            assert batch.opened_at <= batch.sealed_at <= batch.written_at <= batch.acknowledged_at
            assert [type(each[1]).__name__ for each in told.failed] == ["InvalidRecordError"]

    run(body)


class Stamp(ProducerInterceptor):
    def __init__(self) -> None:
        self.heard: list[Acknowledgement] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        record.headers.append(("stamp", b"1"))
        return record

    def on_acknowledgement(self, delivery: Acknowledgement) -> None:
        self.heard.append(delivery)


class Broken(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("broken")


def test_interceptors_change_records_and_hear_of_their_end(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster:
            stamp = Stamp()
            async with producing(world, cluster, interceptors=[Broken(), stamp]) as rig:
                await rig.producer.produce("orders", b"1", headers=[("own", b"0")])
                assert cluster.dump("orders")[0].headers == [("own", b"0"), ("stamp", b"1")]
                assert [each.offset for each in stamp.heard] == [0]

    run(body)


def test_serializers_make_bytes_and_say_what_they_take(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 1}) as cluster,
            producing(
                world,
                cluster,
                key_serializer=serialize_plain(str.encode, "key", "str"),
                value_serializer=serialize_plain(lambda number: b"%d" % number, "value", "int"),
            ) as rig,
        ):
            await rig.producer.produce("orders", 42, "k")
            record = cluster.dump("orders")[0]
            assert (record.key, record.value) == (b"k", b"42")
            with pytest.raises(SerializationError, match="orders"):
                rig.producer.produce("orders", "no number")

    run(body)


def test_a_batch_of_the_default_producer_is_idempotent(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster:
            async with producing(world, cluster, linger_ms=0) as rig:
                for value in numbered(3):
                    await rig.producer.produce("orders", value)
            stored = cluster.partition("orders").log.read(0, 1 << 20)
            headers = batch_headers(b"".join(stored.parts))
            assert [header.base_sequence for header in headers] == [0, 1, 2]
            assert len({header.producer_id for header in headers}) == 1
            assert all(header.producer_id >= 0 and header.producer_epoch == 0 for header in headers)

    run(body)
