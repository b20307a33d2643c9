"""Records that the program's own function fails on: retried, skipped, kept elsewhere or raised; then committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import ottla
from ottla import DeadLetters, TopicPartition
from ottla.broker import Cluster
from ottla.errors import ConfigurationError, DeliveryError, UnknownTopicOrPartitionError
from tests.client.group.grouping import EAGER, QUICK, until, until_shared
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]
NUMBERS = [b"%d" % number for number in range(6)]
ORDERS = TopicPartition("orders", 0)


class Worker:
    """Fails on some records, so often; ends the loop after the last."""

    def __init__(self, **failures: int) -> None:
        self.left = {name[1:].encode(): count for name, count in failures.items()}
        self.log: list[bytes] = []

    def __call__(self, record: Any) -> None:
        self.log.append(record.value)
        if self.left.get(record.value, 0) > 0:
            self.left[record.value] -= 1
            raise ValueError(f"cannot bill {record.value!r}")


def test_a_record_is_tried_again_with_a_growing_delay() -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, world.client(cluster) as kafka:
            cluster.seed("orders", NUMBERS)
            worker = Worker(_2=3)
            began = world.runtime.clock.monotonic()
            await kafka.consume("orders", stop="latest").process(worker, retries=3)
            assert worker.log == [b"0", b"1", b"2", b"2", b"2", b"2", b"3", b"4", b"5"]
            assert world.runtime.clock.monotonic() - began >= 0.8 * (0.1 + 0.2 + 0.4)

    in_simulation(body)


def test_an_error_that_is_raised_leaves_the_consumer_in_front_of_the_record(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, world.client(cluster) as kafka:
            cluster.seed("orders", NUMBERS)
            worker = Worker(_2=2)
            async with kafka.consume("orders", stop="latest") as consumer:
                for _ in range(2):
                    with pytest.raises(ValueError, match="cannot bill b'2'"):
                        await consumer.process(worker)
                await consumer.process(worker)
            assert worker.log == [b"0", b"1", b"2", b"2", b"2", b"3", b"4", b"5"]

    run(body)


def test_what_fails_is_skipped_or_kept_with_its_reason_and_the_rest_goes_on(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders", "dead"]) as cluster:
            kafka = world.client(cluster, value_serializer="json", value_deserializer="str")
            cluster.seed("orders", NUMBERS)
            seen: list[str] = []

            async def bill(record: Any) -> None:
                await asyncio.sleep(0)
                if record.value in "24":
                    raise LookupError(f"no customer for {record.value}")
                seen.append(record.value)

            await kafka.consume("orders", stop="latest").process(bill, on_failure="skip")
            await kafka.consume("orders", stop="latest").process(bill, on_failure=DeadLetters("dead"))
            assert seen == ["0", "1", "3", "5"] * 2
            letters = cluster.dump("dead")
            # As they came, whatever the client's serializers are.
            assert [letter.value for letter in letters] == [b"2", b"4"]
            headers = dict(letters[1].headers)
            assert headers["ottla.dead_letter.topic"] == b"orders"
            assert headers["ottla.dead_letter.offset"] == b"4"
            assert headers["ottla.dead_letter.error"] == b"LookupError: no customer for 4"
            await kafka.close()

    run(body)


@pytest.mark.parametrize("on_failure", ["skip", DeadLetters("dead")], ids=["skip", "dead letter"])
def test_a_group_commits_behind_what_was_given_up_at_once(on_failure: Any, run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders", "dead"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **EAGER, enable_auto_commit=False)
            consumer = kafka.consume("orders", group="billing")

            def bill(record: Any) -> None:
                if record.offset == 3:
                    raise ValueError("no")

            task = asyncio.ensure_future(consumer.process(bill, on_failure=on_failure))
            await until(world, lambda: consumer.reader.position(ORDERS) == 6)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert await consumer.committed() == {ORDERS: 4}
            await consumer.close()

    run(body)


def test_a_record_whose_partition_has_gone_is_not_tried_again() -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"], config=QUICK) as cluster:
            cluster.seed("orders", NUMBERS)
            slow = {**EAGER, "retry_backoff_ms": 500, "retry_backoff_max_ms": 500}
            kafka, other = world.client(cluster, **slow), world.client(cluster, **EAGER)
            one = kafka.consume("orders", group="billing", group_instance_id="b")
            worker = Worker(_0=1000)
            task = asyncio.ensure_future(one.process(worker, retries=1000))
            await until(world, lambda: len(worker.log) > 2)
            two = other.consume("orders", group="billing", group_instance_id="a")
            await two.poll(timeout=0)
            await until_shared(world, two, count=1)
            await world.runtime.clock.sleep(1)
            tried = len(worker.log)
            await world.runtime.clock.sleep(5)
            assert len(worker.log) == tried
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await one.close()
            await two.close()

    in_simulation(body)


def test_the_blocking_consumer_does_the_same() -> None:
    with Cluster(topics=["orders", "dead"]) as cluster, ottla.Client(cluster.bootstrap) as kafka:
        cluster.seed("orders", NUMBERS)
        worker = Worker(_1=1, _4=9)
        kafka.consume("orders", stop="latest").process(worker, retries=1, on_failure=DeadLetters("dead"))
        assert worker.log == [b"0", b"1", b"1", b"2", b"3", b"4", b"4", b"5"]
        assert [letter.value for letter in cluster.dump("dead")] == [b"4"]
        consumer = kafka.consume("orders", stop="latest")
        for _ in range(2):
            with pytest.raises(ValueError, match="b'4'"):
                consumer.process(worker)
        worker.left.clear()
        worker.log.clear()
        consumer.process(worker)
        assert worker.log == [b"4", b"5"]


@pytest.mark.parametrize(
    "options",
    [{"retries": -1}, {"retries": True}, {"retries": "2"}, {"on_failure": "ignore"}, {"on_failure": "dead"}],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any]) -> None:
    with (
        Cluster(topics=["orders"]) as cluster,
        ottla.Client(cluster.bootstrap) as kafka,
        pytest.raises(ConfigurationError, match=next(iter(options))),
    ):
        kafka.consume("orders", stop="latest").process(print, **options)


def test_what_cannot_be_called_costs_no_record(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, world.client(cluster) as kafka:
            cluster.seed("orders", NUMBERS)
            async with kafka.consume("orders", stop="latest") as consumer:
                with pytest.raises(ConfigurationError, match="it is called with each record"):
                    await consumer.process("bill", on_failure="skip")  # type: ignore[arg-type]
                worker = Worker()
                await consumer.process(worker)
            assert worker.log == NUMBERS

    run(body)


def test_an_asynchronous_function_is_refused_by_a_consumer_that_blocks_which_stays_in_front_of_the_record() -> (
    None
):
    async def bill(record: Any) -> None:
        """Never runs."""

    with Cluster(topics=["orders"]) as cluster, ottla.Client(cluster.bootstrap) as kafka:
        cluster.seed("orders", NUMBERS)
        with kafka.consume("orders", stop="latest") as consumer:
            for function in (bill, lambda record: bill(record)):
                with pytest.raises(TypeError, match="use AsyncClient"):
                    consumer.process(function, on_failure="skip")
            worker = Worker()
            consumer.process(worker)
        assert worker.log == NUMBERS


def test_a_record_that_cannot_be_kept_comes_again(run: Run) -> None:
    async def body(world: World) -> None:
        config = {**QUICK, "auto.create.topics.enable": "false"}
        async with world.cluster(topics=["orders"], config=config) as cluster:
            cluster.seed("orders", NUMBERS)
            kafka = world.client(cluster, **EAGER)
            async with kafka.consume("orders", stop="latest") as consumer:
                with pytest.raises(UnknownTopicOrPartitionError):
                    await consumer.process(Worker(_2=1), on_failure=DeadLetters("dead"))
                await kafka.admin.create_topic("dead")
                worker = Worker(_2=1)
                await consumer.process(worker, on_failure=DeadLetters("dead"))
            assert worker.log == NUMBERS[2:]
            assert [letter.value for letter in cluster.dump("dead")] == [b"2"]
            with pytest.raises(DeliveryError):
                await kafka.flush()

    run(body)


@pytest.mark.parametrize("topic", ["", None, 5])
def test_dead_letters_go_to_a_topic(topic: Any) -> None:
    with pytest.raises(ConfigurationError, match="name the topic"):
        DeadLetters(topic)


def test_dead_letters_do_not_go_where_they_come_from(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, world.client(cluster) as kafka:
            cluster.seed("orders", NUMBERS)
            async with kafka.consume("orders", stop="latest") as consumer:
                with pytest.raises(ConfigurationError, match="name another topic"):
                    await consumer.process(Worker(_2=1), on_failure=DeadLetters("orders"))
            assert len(cluster.dump("orders")) == len(NUMBERS)

    run(body)
