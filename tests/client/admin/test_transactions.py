"""Transactions from outside: listed, described, fenced; what hangs is found and aborted.

With brokers of another make, and on the requests of a hanging one: tests/interop/transactions/test_own_admin.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.server.faults import drop, error
from ottla.client.admin import FencedProducer, HangingTransaction, ListedTransaction, ProducerState
from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.transaction import AsyncTransaction
from ottla.errors import (
    ApiTimeoutError,
    ClusterAuthorizationFailedError,
    ConfigurationError,
    TransactionalIdNotFoundError,
    UnknownTopicOrPartitionError,
)
from tests.client.requests.support import requester
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
FIRST = TopicPartition("orders", 0)


@asynccontextmanager
async def opened(
    world: World, cluster: AsyncCluster, transactional_id: str
) -> AsyncIterator[AsyncTransaction]:
    """A transaction of one record in the first partition of orders; its client is closed before the cluster is."""
    client = world.client(cluster, transactional_id=transactional_id)
    try:
        transaction = await client.begin_transaction()
        await client.produce("orders", b"1", partition=0)
        await client.flush()
        yield transaction
    finally:
        await client.close()


def test_what_cannot_be_meant_is_refused_without_a_broker(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            admin = requester(world, cluster).admin
            with pytest.raises(ConfigurationError, match="PrepareCommit"):
                await admin.list_transactions(states=["Open"])
            with pytest.raises(TypeError, match="states="):
                await admin.list_transactions(states="Ongoing")
            with pytest.raises(ValueError, match="0 seconds or more"):
                await admin.list_transactions(older_than=-1)
            with pytest.raises(TypeError, match="a list of transactional ids"):
                await admin.describe_transactions("billing")
            with pytest.raises(TypeError, match="a list of transactional ids"):
                await admin.fence_producers("billing")
            with pytest.raises(TypeError, match="a partition is meant"):
                await admin.abort_transaction(("orders", 0), start_offset=1)  # type: ignore[arg-type]
            for options in ({}, {"start_offset": 1, "producer": ProducerState(1, 0, 0, 0, 0, 1)}):
                with pytest.raises(ConfigurationError, match="one of start_offset= and producer="):
                    await admin.abort_transaction(FIRST, **options)  # type: ignore[arg-type]

    run(body)


def test_where_nothing_is_open_nothing_hangs_and_nothing_can_be_aborted(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(brokers=2, topics={"orders": 3}) as cluster:
            admin = requester(world, cluster).admin
            assert await admin.list_transactions() == {}
            assert await admin.find_hanging_transactions() == ()
            assert await admin.find_hanging_transactions("orders", broker=1, max_timeout=0) == ()
            assert await admin.describe_producers(FIRST, broker=cluster.leader("orders", 0)) == {FIRST: ()}
            with pytest.raises(ConfigurationError, match="none is open there"):
                await admin.abort_transaction(FIRST, start_offset=3)
            with pytest.raises(UnknownTopicOrPartitionError):
                await admin.abort_transaction(
                    TopicPartition("orders", 9), producer=ProducerState(1, 0, 0, 0, 0, 1)
                )

    run(body)


def test_transactions_of_all_brokers_are_listed_and_described(run: Run) -> None:
    async def body(world: World) -> None:
        names = [f"billing-{number}" for number in range(4)]
        async with AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(world.cluster(brokers=3, topics={"orders": 2}))
            admin = requester(world, cluster).admin
            begun = [await stack.enter_async_context(opened(world, cluster, name)) for name in names]
            listed = await admin.list_transactions(states=["ongoing"])
            assert list(listed) == names
            assert listed[names[0]] == ListedTransaction(
                names[0], listed[names[0]].producer_id, "Ongoing", listed[names[0]].coordinator
            )
            await begun[0].commit()
            assert list(await admin.list_transactions(states=["Ongoing"], pattern="billing-[01]")) == [
                names[1]
            ]
            described = await admin.describe_transactions([*names, "none"], errors="collect")
            assert list(described) == names
            assert isinstance(described.errors["none"], TransactionalIdNotFoundError)
            assert "'none'" in str(described.errors["none"])
            assert (described[names[1]].state, described[names[1]].partitions) == ("Ongoing", (FIRST,))
            assert described[names[1]].coordinator == listed[names[1]].coordinator
            cluster.faults.add("ListTransactions", node=2, action=error("CLUSTER_AUTHORIZATION_FAILED"))
            with pytest.raises(ClusterAuthorizationFailedError, match="broker 2"):
                await admin.list_transactions()

    run(body)


def test_a_fenced_producer_loses_its_transaction(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics=["orders"]) as cluster,
            opened(world, cluster, "billing"),
        ):
            admin = requester(world, cluster).admin
            before = await admin.describe_transaction("billing")
            fenced = await admin.fence_producers(["billing", "new"])
            assert list(fenced) == ["billing", "new"]
            assert fenced["billing"] == FencedProducer(before.producer_id, 2)
            assert fenced["new"].producer_epoch == 0
            assert (await admin.describe_transaction("billing")).state == "Empty"
            ended = await admin.force_terminate_transaction("billing")
            assert ended.producer_epoch == 3
            with pytest.raises(TransactionalIdNotFoundError):
                await admin.force_terminate_transaction("unheard-of")
            fault = cluster.faults.add("InitProducerId", action=error("CONCURRENT_TRANSACTIONS"))
            with pytest.raises(ApiTimeoutError, match="'billing' was not aborted"):
                await admin.fence_producers(["billing"], timeout=0.5)
            assert fault.hits > 1

    run(body)


def test_a_transaction_that_its_coordinator_knows_does_not_hang_and_one_that_it_forgot_does(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(brokers=2, topics=["orders"]) as cluster,
            opened(world, cluster, "billing"),
        ):
            admin = requester(world, cluster).admin
            assert await admin.find_hanging_transactions(max_timeout=0) == ()
            # The partition has it, and nobody says that it is known to a coordinator.
            cluster.faults.add("DescribeTransactions", action=error("TRANSACTIONAL_ID_NOT_FOUND"))
            (state,) = (await admin.describe_producers("orders"))[FIRST]
            found = await admin.find_hanging_transactions(max_timeout=0)
            assert found == (HangingTransaction(FIRST, state, "billing"),)
            # The first try meets a broken connection.
            cluster.faults.add("WriteTxnMarkers", action=drop, count=1)
            assert await admin.abort_transaction(FIRST, producer=state) == state
            assert await admin.find_hanging_transactions(max_timeout=0) == ()
            ends = await admin.list_offsets("orders", isolation="read_committed")
            assert ends[FIRST].offset == 2

    run(body)
