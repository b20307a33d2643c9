"""Transactions from outside: what is refused before anything is sent, and what is found where nothing is open.

What is done to transactions is tested on brokers that have some, in tests/interop/transactions/test_own_admin.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.client.admin import ProducerState
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ConfigurationError, UnknownTopicOrPartitionError
from tests.client.requests.support import requester
from tests.client.worlds import Body, World

Run = Callable[[Body], object]
FIRST = TopicPartition("orders", 0)


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
