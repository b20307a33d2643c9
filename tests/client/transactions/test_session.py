"""A session that consumes and produces in transactions: what a rebalance at any moment does to it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.server import faults
from ottla.client.client import AsyncClient
from ottla.client.group.membership import GroupMetadata
from ottla.client.topic_partition import TopicPartition
from ottla.client.transactions.machine import TransactionStatus
from ottla.client.transactions.session import AsyncTransactSession
from ottla.errors import (
    AbortNeededError,
    ProducerLostError,
    TransactionAbortableError,
    TransactionPendingError,
    TransactionStateError,
)
from tests.client.group.grouping import COOPERATIVE, EAGER, PROTOCOLS, QUICK, until
from tests.client.worlds import Body, World, in_simulation

COUNT = 20
CONFIG = {**QUICK, "transaction.state.log.num.partitions": "1"}
BY_PROTOCOL = pytest.mark.parametrize("protocol", PROTOCOLS)


class Chain:
    """A cluster with records to process, and sessions that do."""

    def __init__(self, world: World, cluster: AsyncCluster) -> None:
        self.world, self.cluster = world, cluster
        self._sessions = 0
        for partition in range(2):
            cluster.seed("orders", [b"%d" % number for number in range(COUNT)], partition)

    def client(self, **options: Any) -> AsyncClient:
        self._sessions += 1
        return self.world.client(
            self.cluster,
            transactional_id=f"billing-{self._sessions}",
            linger_ms=0,
            retry_backoff_max_ms=200,
            **options,
        )

    def session(self, **options: Any) -> AsyncTransactSession:
        return self.client(**options).transact_session("orders", group="billing")

    async def polled(self, session: AsyncTransactSession, count: int = 2 * COUNT) -> list[Any]:
        """So many records, produced again in a transaction that is open."""
        records: list[Any] = []
        while len(records) < count:
            records += await session.poll(count - len(records), timeout=60)
        await session.begin()
        for record in records:
            await session.produce("bills", record.value, partition=record.partition)
        return records

    async def bills(self) -> list[bytes]:
        reader = self.world.client(self.cluster, isolation_level="read_committed", metadata_min_age_ms=50)
        return [record.value async for record in reader.consume("bills", start="earliest", stop="latest")]

    async def committed(self) -> list[int | None]:
        tps = [TopicPartition("orders", number) for number in range(2)]
        client = self.world.client(self.cluster)
        found = await client.admin.group_offsets("billing", tps, require_stable=True)
        return [None if (each := found[tp]) is None else each.offset for tp in tps]


def in_chain(body: Any, **options: Any) -> None:
    async def main(world: World) -> None:
        topics = {"orders": 2, "bills": 2}
        async with world.cluster(1, topics=topics, config=CONFIG, **options) as cluster:
            await body(Chain(world, cluster))

    run: Body = main
    in_simulation(run)


@BY_PROTOCOL
def test_what_was_read_and_what_was_made_of_it_are_committed_together(protocol: str) -> None:
    async def body(chain: Chain) -> None:
        async with chain.session(**PROTOCOLS[protocol]) as session:
            await chain.polled(session, COUNT)
            assert await session.end() is True
            assert sum(each or 0 for each in await chain.committed()) == COUNT
            await chain.polled(session, COUNT)
            assert await session.end() is True
        assert sorted(await chain.bills()) == sorted([b"%d" % number for number in range(COUNT)] * 2)
        assert await chain.committed() == [COUNT, COUNT]

    in_chain(body)


@BY_PROTOCOL
def test_after_an_abort_the_same_records_come_again(protocol: str) -> None:
    async def body(chain: Chain) -> None:
        async with chain.session(**PROTOCOLS[protocol]) as session:
            first = await chain.polled(session, 10)
            assert await session.end() is True
            second = await chain.polled(session, 15)
            assert await session.end(commit=False) is False
            again = await chain.polled(session, 2 * COUNT - 10)
            assert await session.end() is True
        seen = [(record.partition, record.offset) for record in first + again]
        assert len(set(seen)) == len(seen) == 2 * COUNT
        assert {(each.partition, each.offset) for each in second} <= set(seen)
        assert len(await chain.bills()) == 2 * COUNT

    in_chain(body)


@pytest.mark.parametrize("commits", [True, False])
def test_what_is_polled_while_a_transaction_ends_would_belong_to_none_and_is_refused(commits: bool) -> None:
    async def body(chain: Chain) -> None:
        async with chain.session(**EAGER) as session:
            first = await chain.polled(session, 10)
            # Until they are sent, so that an abort has something to end.
            await asyncio.sleep(1.0)
            chain.cluster.faults.add("EndTxn", when="response", action=faults.delay(2.0), count=1)
            ending = asyncio.create_task(session.end(commit=commits))
            await asyncio.sleep(1.0)
            with pytest.raises(TransactionStateError, match="while the transaction ends"):
                await session.poll(5, timeout=10)
            assert await ending is commits
            second = await chain.polled(session, 2 * COUNT - (10 if commits else 0))
            assert await session.end() is True
        seen = [(record.partition, record.offset) for record in (first if commits else []) + second]
        assert len(set(seen)) == len(seen) == 2 * COUNT
        assert len(await chain.bills()) == 2 * COUNT

    in_chain(body)


def test_nothing_is_polled_before_an_end_that_was_not_waited_for_is_known() -> None:
    async def body(chain: Chain) -> None:
        async with chain.session(**EAGER) as session:
            await chain.polled(session, 10)
            chain.cluster.faults.add("EndTxn", when="response", action=faults.delay(2.0), count=1)
            with pytest.raises(TransactionPendingError):
                await session.end(timeout=1.0)
            with pytest.raises(TransactionStateError, match=r"call end\(\) again"):
                await session.poll(5, timeout=10)
            with pytest.raises(TransactionStateError):
                await session.end(commit=False)
            with pytest.raises(TransactionStateError):
                await session.poll(5, timeout=10)
            assert await session.end() is True
            await chain.polled(session, 2 * COUNT - 10)
            assert await session.end() is True
        assert sorted(await chain.bills()) == sorted([b"%d" % number for number in range(COUNT)] * 2)

    in_chain(body)


def test_without_a_commit_an_abort_goes_back_to_where_reading_began() -> None:
    async def body(chain: Chain) -> None:
        async with chain.session(**EAGER) as session:
            await chain.polled(session)
            assert await session.end(commit=False) is False
            again = await chain.polled(session)
            assert sorted(record.offset for record in again) == sorted([*range(COUNT)] * 2)
            assert await session.end() is True
        assert len(await chain.bills()) == 2 * COUNT

    in_chain(body)


@BY_PROTOCOL
def test_partitions_that_are_revoked_before_the_end_make_it_an_abort(protocol: str) -> None:
    async def body(chain: Chain) -> None:
        options = PROTOCOLS[protocol]
        async with chain.session(**options) as session, chain.session(**options) as other:
            await chain.polled(session)
            polling = asyncio.ensure_future(chain.polled(other, COUNT))
            await until(chain.world, lambda: len(session.consumer.assignment()) == 1, "a rebalance")
            assert await session.end() is False
            await polling
            assert await other.end() is True
            await chain.polled(session, COUNT)
            assert await session.end() is True
        assert sorted(await chain.bills()) == sorted([b"%d" % number for number in range(COUNT)] * 2)

    in_chain(body)


@BY_PROTOCOL
def test_partitions_stay_while_the_commit_is_under_way(protocol: str) -> None:
    async def body(chain: Chain) -> None:
        options = PROTOCOLS[protocol]
        async with chain.session(**options) as session, chain.session(**options) as other:
            await chain.polled(session)
            slow = chain.cluster.faults.add("EndTxn", when="response", action=faults.delay(2.0), count=1)
            ending = asyncio.ensure_future(session.end())
            await slow.wait()
            polling = asyncio.ensure_future(other.poll(timeout=1.5))
            assert await polling == []
            assert len(session.consumer.assignment()) == 2
            assert not ending.done()
            assert await ending is True
            await other.poll(timeout=1.0)
            await until(
                chain.world, lambda: len(session.consumer.assignment()) == 1, "the rebalance behind it"
            )
        assert len(await chain.bills()) == 2 * COUNT

    in_chain(body)


@pytest.mark.parametrize("code", ["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"])
def test_a_heartbeat_that_fails_before_the_commit_makes_it_an_abort(code: str) -> None:
    async def body(chain: Chain) -> None:
        options = {**EAGER, "heartbeat_interval_ms": 2900}
        async with chain.session(**options) as session:
            await chain.polled(session)
            failing = chain.cluster.faults.add("Heartbeat", action=faults.error(code), count=1)
            assert await session.end() is False
            assert failing.hits == 1
            await chain.polled(session)
            assert await session.end() is True
        assert len(await chain.bills()) == 2 * COUNT

    in_chain(body)


def test_a_rebalance_that_begins_with_the_commit_does_not_stop_it() -> None:
    async def body(chain: Chain) -> None:
        options = {**COOPERATIVE, "heartbeat_interval_ms": 2900}
        async with chain.session(**options) as session:
            await chain.polled(session)
            chain.cluster.faults.add("Heartbeat", action=faults.error("REBALANCE_IN_PROGRESS"), count=1)
            assert await session.end() is True
        assert len(await chain.bills()) == 2 * COUNT

    in_chain(body)


@pytest.mark.parametrize("code", ["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"])
def test_offsets_of_a_former_member_make_it_an_abort(code: str) -> None:
    async def body(chain: Chain) -> None:
        async with chain.session(**EAGER) as session:
            await chain.polled(session)
            chain.cluster.faults.add("TxnOffsetCommit", action=faults.error(code), count=1)
            assert await session.end() is False
            assert session.consumer.assignment()
            await chain.polled(session)
            assert await session.end() is True
        assert len(await chain.bills()) == 2 * COUNT

    in_chain(body)


def test_a_record_that_fails_aborts_and_is_raised_and_the_program_can_go_on() -> None:
    async def body(chain: Chain) -> None:
        async with chain.session(**EAGER) as session:
            failing = chain.cluster.faults.add(
                "Produce", action=faults.error("TRANSACTION_ABORTABLE"), count=1
            )
            await chain.polled(session)
            with pytest.raises(AbortNeededError) as caught:
                await session.end()
            assert isinstance(caught.value.__cause__, TransactionAbortableError)
            assert failing.hits == 1
            assert len(await chain.polled(session)) == 2 * COUNT
            assert await session.end() is True
        assert len(await chain.bills()) == 2 * COUNT

    in_chain(body)


def test_a_commit_without_an_outcome_holds_partitions_and_is_waited_for_by_the_next_call() -> None:
    async def body(chain: Chain) -> None:
        async with chain.session(**EAGER) as session:
            await chain.polled(session)
            lost = chain.cluster.faults.add("EndTxn", action=faults.error("COORDINATOR_LOAD_IN_PROGRESS"))
            with pytest.raises(TransactionPendingError):
                await session.end(timeout=2.0)
            with pytest.raises(TransactionStateError, match="not known yet"):
                await session.end(commit=False)
            assert not session._is_free.is_set()
            chain.cluster.faults.remove(lost)
            assert await session.end() is True
            assert session._is_free.is_set()
        assert len(await chain.bills()) == 2 * COUNT

    in_chain(body)


def test_brokers_without_kip_447_give_out_offsets_early_so_partitions_stay_half_a_second_longer() -> None:
    async def body(chain: Chain) -> None:
        clock = chain.world.runtime.clock
        async with chain.session(**EAGER) as session:
            await chain.polled(session, COUNT)
            assert await session.end() is True
            ended = clock.monotonic()
            assert not session._is_free.is_set()
            await chain.polled(session, COUNT)
            assert clock.monotonic() - ended < 0.5
            assert await session.end() is True
            assert clock.monotonic() - ended >= 0.5
            await session.released()
        assert len(await chain.bills()) == 2 * COUNT

    in_chain(body, max_versions="2.4")


def test_an_end_before_anything_was_read_needs_no_group() -> None:
    async def body(chain: Chain) -> None:
        async with chain.session(**EAGER) as session:
            await session.begin()
            await session.produce("bills", b"first", partition=0)
            assert await session.end(timeout=10.0) is True
        assert await chain.bills() == [b"first"]
        assert await chain.committed() == [None, None]

    in_chain(body)


def test_an_end_without_a_beginning_is_refused() -> None:
    async def body(chain: Chain) -> None:
        async with chain.session(**EAGER) as session:
            with pytest.raises(TransactionStateError, match="begin"):
                await session.end()

    in_chain(body)


def test_a_session_that_is_left_with_an_error_aborts() -> None:
    async def body(chain: Chain) -> None:
        async def fail() -> None:
            async with chain.session(**EAGER) as session:
                await chain.polled(session)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        async with chain.session(**EAGER) as session:
            await chain.polled(session)
            assert await session.end() is True
        assert len(await chain.bills()) == 2 * COUNT

    in_chain(body)


def test_a_session_does_not_wait_for_what_its_predecessor_left_open() -> None:
    async def body(chain: Chain) -> None:
        clock = chain.world.runtime.clock
        crashed = chain.world.client(chain.cluster, transactional_id="billing-1")
        transaction = await crashed.begin_transaction()
        await crashed.produce("bills", b"half", partition=0)
        await transaction.send_offsets({TopicPartition("orders", 0): 5}, GroupMetadata("billing"))
        async with chain.session(**EAGER) as session:
            begun = clock.monotonic()
            # The group has no stable offsets while that transaction is open, so nothing can be read before it ends.
            await chain.polled(session)
            assert clock.monotonic() - begun < crashed.config.transaction_timeout_ms / 1000 / 4
            assert await session.end() is True
        assert len(await chain.bills()) == 2 * COUNT

    in_chain(body)


def test_a_session_that_was_replaced_cannot_commit() -> None:
    async def body(chain: Chain) -> None:
        session = chain.session(**EAGER)
        await chain.polled(session)
        rival = chain.world.client(chain.cluster, transactional_id="billing-1")
        await rival.init_transactions()
        with pytest.raises(ProducerLostError):
            await session.end()
        await session.close()
        assert await chain.bills() == []
        assert await chain.committed() == [None, None]

    in_chain(body)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"session_timeout_ms": 45_000}, 40_000),
        ({"session_timeout_ms": 9_000}, 8_000),
        ({"session_timeout_ms": 90_000}, 60_000),
        ({"session_timeout_ms": 9_000, "transaction_timeout_ms": 30_000}, 30_000),
    ],
)
def test_a_transaction_times_out_before_the_member_does_unless_it_is_said(
    options: dict[str, int], expected: int
) -> None:
    async def body(chain: Chain) -> None:
        client = chain.client(**options)
        client.transact_session("orders", group="billing")
        assert client._transactions().timeout_ms == expected
        assert client.transaction_state.status is TransactionStatus.UNINITIALIZED

    in_chain(body)
