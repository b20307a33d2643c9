"""Requests that are held back on their way, and arrive in the middle of the client's next transaction.

The client has waited in vain, has sent them again on another connection, or has given up, and goes on. What comes
late has the epoch of a transaction that is over, and changes nothing: neither in the logs nor at the coordinator.
With transaction.version 2 each transaction has another epoch than the last; below it, the client takes another one
where it has to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.client.client import AsyncClient
from ottla.client.group.membership import GroupMetadata
from ottla.client.topic_partition import TopicPartition
from ottla.errors import AbortNeededError
from ottla.sim.runtime import SimRuntime
from tests.client.worlds import World, in_simulation

BOTH = pytest.mark.parametrize("version", [1, 2])
REQUESTS = TopicPartition("requests", 0)
READERS = GroupMetadata("readers")
OPTIONS: dict[str, Any] = {
    "transactional_id": "billing",
    "linger_ms": 0,
    "request_timeout_ms": 1000,
    "delivery_timeout_ms": 6000,
    "retry_backoff_max_ms": 200,
}
LONG_ENOUGH = 5.0
"""Of virtual time, for whatever has been let go to arrive, and to be carried out."""

Late = Callable[[], Awaitable[None]]
"""Lets what is held back arrive; returns when that has happened."""


def hold_back(world: World) -> Late:
    """Everything that the client sends on the connections that it has now."""
    assert isinstance(world.runtime, SimRuntime)
    network = world.runtime.network
    release = network.hold_back("client", "node-1")

    async def late() -> None:
        before = network.trace.count
        release()
        await asyncio.sleep(LONG_ENOUGH)
        assert network.trace.count > before, "nothing was held back"

    return late


async def read(world: World, cluster: AsyncCluster, isolation: str) -> list[bytes]:
    reader = world.client(cluster, isolation_level=isolation)
    return [record.value async for record in reader.consume("orders", start="earliest", stop="latest")]


async def state_of(client: AsyncClient) -> str:
    return str((await client.admin.describe_transaction("billing")).state)


def with_one_broker(
    version: int, body: Callable[[World, AsyncCluster, AsyncClient], Awaitable[None]]
) -> None:
    async def main(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1, "requests": 1}) as cluster:
            if version < 2:
                admin = world.client(cluster).admin
                await admin.update_features({"transaction.version": version}, kind="safe_downgrade")
            client = world.client(cluster, **OPTIONS)
            # Every connection is there before anything is held back.
            async with client.transaction() as transaction:
                await (await client.produce("orders", b"warm"))
                await transaction.send_offsets({REQUESTS: 1}, READERS)
            await body(world, cluster, client)

    in_simulation(main)


@BOTH
@pytest.mark.parametrize("commits", [True, False])
def test_a_late_end_leaves_the_next_transaction_open(version: int, commits: bool) -> None:
    async def body(world: World, cluster: AsyncCluster, client: AsyncClient) -> None:
        first = await client.begin_transaction()
        await (await client.produce("orders", b"first"))
        late = hold_back(world)
        await (first.commit() if commits else first.abort())
        second = await client.begin_transaction()
        await (await client.produce("orders", b"second"))
        await late()
        assert await state_of(client) == "Ongoing"
        await (second.abort() if commits else second.commit())
        expected = [b"warm", b"first"] if commits else [b"warm", b"second"]
        assert await read(world, cluster, "read_committed") == expected

    with_one_broker(version, body)


@BOTH
def test_a_late_batch_that_was_sent_again_is_not_stored_twice(version: int) -> None:
    async def body(world: World, cluster: AsyncCluster, client: AsyncClient) -> None:
        late = hold_back(world)
        async with client.transaction():
            await (await client.produce("orders", b"first"))
        async with client.transaction():
            await (await client.produce("orders", b"second"))
            await late()
        assert await read(world, cluster, "read_uncommitted") == [b"warm", b"first", b"second"]

    with_one_broker(version, body)


@BOTH
def test_a_late_batch_of_an_aborted_transaction_does_not_join_the_next_one(version: int) -> None:
    async def body(world: World, cluster: AsyncCluster, client: AsyncClient) -> None:
        first = await client.begin_transaction()
        cluster.pause_node(1)
        late = hold_back(world)
        await client.produce("orders", b"first")
        # All attempts end in silence, and the client gives the record up.
        with pytest.raises(AbortNeededError):
            await first.commit(30)
        cluster.resume_node(1)
        await first.abort(30)
        async with client.transaction():
            await (await client.produce("orders", b"second"))
            await late()
        assert await read(world, cluster, "read_committed") == [b"warm", b"second"]
        await asyncio.sleep(LONG_ENOUGH)
        assert await state_of(client) == "CompleteCommit"

    with_one_broker(version, body)


@BOTH
def test_late_offsets_do_not_join_the_next_transaction(version: int) -> None:
    async def body(world: World, cluster: AsyncCluster, client: AsyncClient) -> None:
        async with client.transaction() as transaction:
            # The group belongs to the transaction by now: what is held back is the TxnOffsetCommit.
            await transaction.send_offsets({REQUESTS: 1}, READERS)
            late = hold_back(world)
            await transaction.send_offsets({REQUESTS: 2}, READERS)
        async with client.transaction() as transaction:
            await transaction.send_offsets({REQUESTS: 3}, READERS)
            await late()
        found = (await client.admin.group_offsets("readers", REQUESTS, require_stable=True))[REQUESTS]
        assert found is not None
        assert found.offset == 3

    with_one_broker(version, body)
