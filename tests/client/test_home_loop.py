"""An AsyncClient belongs to one loop: on another one every public method says so, at once, and does nothing."""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pyarrow
import pytest

import ottla
from ottla.broker import Cluster
from ottla.client.admin import AsyncAdmin
from ottla.errors import DeserializationError
from ottla.wire.messages import MetadataRequest

ORDERS = ottla.TopicPartition("orders", 0)
PREPARED = ottla.PreparedTransaction("billing", 1, 0)

Use = Callable[[Any], Awaitable[object] | object]

CLIENT: dict[str, Use] = {
    "produce": lambda kafka: kafka.produce("orders", b"1"),
    "produce_batch": lambda kafka: kafka.produce_batch("orders", pyarrow.table({"value": [b"1"]})),
    "produce_batches": lambda kafka: kafka.produce_batches({"orders": pyarrow.table({"value": [b"1"]})}),
    "flush": lambda kafka: kafka.flush(),
    "abort_buffered": lambda kafka: kafka.abort_buffered(),
    "purge_topics": lambda kafka: kafka.purge_topics("orders"),
    "init_transactions": lambda kafka: kafka.init_transactions(),
    "take_transactional_id": lambda kafka: kafka.take_transactional_id("billing"),
    "begin_transaction": lambda kafka: kafka.begin_transaction(),
    "transaction": lambda kafka: kafka.transaction(),
    "transaction_state": lambda kafka: kafka.transaction_state,
    "transact_session": lambda kafka: kafka.transact_session("orders", group="billing"),
    "commit_prepared": lambda kafka: kafka.commit_prepared(PREPARED),
    "abort_prepared": lambda kafka: kafka.abort_prepared(PREPARED),
    "consume": lambda kafka: kafka.consume("orders"),
    "consume_batches": lambda kafka: kafka.consume_batches("orders"),
    "admin": lambda kafka: kafka.admin,
    "request": lambda kafka: kafka.request(MetadataRequest(topics=None)),
    "request_sharded": lambda kafka: kafka.request_sharded(MetadataRequest(topics=None)),
    "metrics": lambda kafka: kafka.metrics(),
    "close": lambda kafka: kafka.close(),
    "__aenter__": lambda kafka: kafka.__aenter__(),
    "__aexit__": lambda kafka: kafka.__aexit__(None, None, None),
}
CONSUMER: dict[str, Use] = {
    "__aiter__": lambda consumer: anext(aiter(consumer)),
    "poll": lambda consumer: consumer.poll(),
    "batches": lambda consumer: anext(consumer.batches()),
    "process": lambda consumer: consumer.process(print),
    "wait_for_data": lambda consumer: consumer.wait_for_data(None),
    "position": lambda consumer: consumer.position(ORDERS),
    "begin": lambda consumer: consumer.begin(),
    "pause": lambda consumer: consumer.pause(),
    "resume": lambda consumer: consumer.resume(),
    "seek": lambda consumer: consumer.seek(ORDERS, 0),
    "skip": lambda consumer: consumer.skip(_undecodable()),
    "purge_topics": lambda consumer: consumer.purge_topics("orders"),
    "close": lambda consumer: consumer.close(),
    "__aenter__": lambda consumer: consumer.__aenter__(),
    "__aexit__": lambda consumer: consumer.__aexit__(None, None, None),
}
ADMIN: dict[str, Use] = {
    "create_topic": lambda admin: admin.create_topic("new"),
    "create_topics": lambda admin: admin.create_topics(["new"]),
    "delete_topic": lambda admin: admin.delete_topic("orders"),
    "delete_topics": lambda admin: admin.delete_topics(["orders"]),
    "list_topics": lambda admin: admin.list_topics(),
    "describe_topic": lambda admin: admin.describe_topic("orders"),
    "describe_topics": lambda admin: admin.describe_topics(["orders"]),
    "create_partitions": lambda admin: admin.create_partitions("orders", 5),
    "describe_configs": lambda admin: admin.describe_configs(topic="orders"),
    "alter_configs": lambda admin: admin.alter_configs(topic="orders", set={"retention.ms": 1}),
    "list_offsets": lambda admin: admin.list_offsets("orders"),
    "delete_records": lambda admin: admin.delete_records({ORDERS: 0}),
    "describe_producers": lambda admin: admin.describe_producers("orders"),
    "elect_leaders": lambda admin: admin.elect_leaders(),
    "alter_partition_reassignments": lambda admin: admin.alter_partition_reassignments({ORDERS: [1]}),
    "list_partition_reassignments": lambda admin: admin.list_partition_reassignments(),
    "alter_replica_log_dirs": lambda admin: admin.alter_replica_log_dirs(1, {ORDERS: "/ottla/node-1"}),
    "describe_cluster": lambda admin: admin.describe_cluster(),
    "list_brokers": lambda admin: admin.list_brokers(),
    "api_versions": lambda admin: admin.api_versions(1),
    "describe_features": lambda admin: admin.describe_features(),
    "update_features": lambda admin: admin.update_features({"metadata.version": 20}),
    "describe_log_dirs": lambda admin: admin.describe_log_dirs(),
    "list_groups": lambda admin: admin.list_groups(),
    "describe_group": lambda admin: admin.describe_group("billing"),
    "describe_groups": lambda admin: admin.describe_groups(["billing"]),
    "delete_group": lambda admin: admin.delete_group("billing"),
    "delete_groups": lambda admin: admin.delete_groups(["billing"]),
    "group_offsets": lambda admin: admin.group_offsets("billing"),
    "alter_group_offsets": lambda admin: admin.alter_group_offsets("billing", {ORDERS: 0}),
    "delete_group_offsets": lambda admin: admin.delete_group_offsets("billing", [ORDERS]),
    "reset_group_offsets": lambda admin: admin.reset_group_offsets("billing", to="earliest"),
    "group_lag": lambda admin: admin.group_lag("billing"),
    "list_transactions": lambda admin: admin.list_transactions(),
    "describe_transaction": lambda admin: admin.describe_transaction("billing"),
    "describe_transactions": lambda admin: admin.describe_transactions(["billing"]),
    "fence_producers": lambda admin: admin.fence_producers(["billing"]),
    "force_terminate_transaction": lambda admin: admin.force_terminate_transaction("billing"),
    "find_hanging_transactions": lambda admin: admin.find_hanging_transactions("orders"),
    "abort_transaction": lambda admin: admin.abort_transaction(ORDERS, start_offset=0),
}
# They look at what is there, and neither wait nor change anything; or are called where there is no loop at all.
ANYWHERE: dict[type, set[str]] = {
    ottla.AsyncClient: {"forked", "check_outside_callbacks"},
    ottla.AsyncConsumer: {
        "assignment",
        "paused",
        "lag",
        "known_position",
        "is_begun",
        "is_called_back",
        "is_read",
        "may_wait_for_purge",
        "poll_limit",
        "with_producer",
    },
    AsyncAdmin: set(),
}
# For the client's own loop: its tasks and its end call them.
INSIDE: dict[type, set[str]] = {
    ottla.AsyncClient: set(),
    ottla.AsyncConsumer: {"end", "close_soon", "purge", "purge_waiting", "settle_failure", "stay_at"},
    AsyncAdmin: set(),
}
SPECIAL = ("__aenter__", "__aexit__", "__aiter__")

TABLE: dict[type, dict[str, Use]] = {
    ottla.AsyncClient: CLIENT,
    ottla.AsyncConsumer: CONSUMER,
    AsyncAdmin: ADMIN,
}


def _undecodable() -> DeserializationError:
    return DeserializationError(
        "as expected",
        topic="orders",
        partition=0,
        offset=0,
        field="value",
        timestamp=0,
        headers=[],
        key=None,
        value=b"",
        expected="str",
    )


def public(kind: type) -> set[str]:
    return {
        name
        for name, member in inspect.getmembers(kind)
        if (inspect.isfunction(member) or isinstance(member, property))
        and (not name.startswith("_") or name in SPECIAL)
    }


@pytest.mark.parametrize("kind", TABLE)
def test_every_public_method_is_in_the_table(kind: type) -> None:
    known = set(TABLE[kind]) | ANYWHERE[kind] | INSIDE[kind]
    assert public(kind) == known


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 1}) as cluster:
        with ottla.Client(cluster.bootstrap) as kafka:
            kafka.produce("orders", b"0").result(timeout=30)
        yield cluster


class Used:
    """A client on a loop of its own, with what it gives."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.kafka = ottla.AsyncClient(cluster.bootstrap)
        self.runner = asyncio.Runner()
        self.runner.run(self._use())

    async def _use(self) -> None:
        self.consumer = self.kafka.consume("orders", start="earliest")
        await self.consumer.position(ORDERS)
        self.admin = self.kafka.admin

    def what(self, kind: type) -> Any:
        return {ottla.AsyncClient: self.kafka, ottla.AsyncConsumer: self.consumer, AsyncAdmin: self.admin}[
            kind
        ]

    def stored(self) -> int:
        return len(self.cluster.dump("orders"))


@pytest.fixture(scope="module")
def used(cluster: Cluster) -> Iterator[Used]:
    used = Used(cluster)
    yield used
    used.runner.run(used.kafka.close())
    used.runner.close()


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in TABLE for name in TABLE[kind]])
def test_another_loop_is_refused_at_once(used: Used, kind: type, name: str) -> None:
    before = used.stored()

    async def uses() -> None:
        result = TABLE[kind][name](used.what(kind))
        if inspect.isawaitable(result):
            await asyncio.wait_for(result, 60)

    with pytest.raises(
        RuntimeError, match=r"belongs to the event loop .* this is another one.*: make a client"
    ):
        asyncio.run(uses())
    # Nothing has happened, and on its own loop everything works.
    assert used.stored() == before
    assert used.runner.run(used.consumer.position(ORDERS)) == 0


def test_a_loop_that_is_closed_is_named_as_that(cluster: Cluster) -> None:
    kafka = ottla.AsyncClient(cluster.bootstrap)

    async def begins() -> None:
        await kafka.flush()
        assert kafka.metrics() is not None

    async def closes() -> None:
        with pytest.raises(RuntimeError, match="which is closed"):
            await kafka.produce("orders", b"1")
        with pytest.raises(RuntimeError, match="which is closed"):
            await kafka.close()
        # Not taken for closed by that.
        with pytest.raises(RuntimeError, match="which is closed"):
            await kafka.close()

    asyncio.run(begins())
    asyncio.run(closes())


@pytest.mark.parametrize("kind", ["record", "table"])
def test_a_receipt_cannot_be_awaited_while_nobody_runs_the_clients_loop(used: Used, kind: str) -> None:
    async def produces() -> Any:
        if kind == "record":
            return await used.kafka.produce("orders", b"1")
        return await used.kafka.produce_batch("orders", pyarrow.table({"value": [b"1"]}))

    async def awaits(delivery: Any) -> Any:
        return await delivery

    used.cluster.pause_node(1)
    delivery = used.runner.run(produces())
    with pytest.raises(RuntimeError, match="this is another one"):
        asyncio.run(awaits(delivery))
    used.cluster.resume_node(1)
    assert used.runner.run(awaits(delivery)) is delivery


def test_a_receipt_may_be_awaited_on_another_loop_while_the_clients_is_run(cluster: Cluster) -> None:
    deliveries: queue.Queue[Any] = queue.Queue()
    done = threading.Event()

    async def produces() -> None:
        async with ottla.AsyncClient(cluster.bootstrap, linger_ms=60_000) as kafka:
            await (await kafka.produce("orders", b"1"))
            deliveries.put(await kafka.produce("orders", b"2"))
            await asyncio.to_thread(done.wait, 30)

    async def awaits(delivery: Any) -> Any:
        return await asyncio.wait_for(_awaited(delivery), 30)

    client = threading.Thread(target=asyncio.run, args=(produces(),))
    client.start()
    delivery = deliveries.get(timeout=30)
    try:
        assert asyncio.run(awaits(delivery)).offset >= 0
    finally:
        done.set()
        client.join(30)


async def _awaited(delivery: Any) -> Any:
    return await delivery


def test_an_iteration_that_began_goes_no_further_on_another_loop(cluster: Cluster) -> None:
    kafka = ottla.AsyncClient(cluster.bootstrap)

    async def begins() -> Any:
        records = aiter(kafka.consume("orders", start="earliest"))
        await anext(records)
        return records

    async def goes_on(records: Any) -> None:
        async for _ in records:
            pass

    with asyncio.Runner() as runner:
        records = runner.run(begins())
        with pytest.raises(RuntimeError, match="this is another one"):
            asyncio.run(asyncio.wait_for(goes_on(records), 30))
        runner.run(kafka.close())


def test_without_a_loop_that_is_said(used: Used) -> None:
    with pytest.raises(RuntimeError, match="none is running here"):
        used.kafka.metrics()


def test_a_client_that_is_closed_may_be_closed_anywhere_again(cluster: Cluster) -> None:
    kafka = ottla.AsyncClient(cluster.bootstrap)

    async def uses() -> None:
        async with kafka:
            await kafka.admin.list_topics()

    asyncio.run(uses())
    asyncio.run(kafka.close())
