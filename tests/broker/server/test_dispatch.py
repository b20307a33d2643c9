"""Dispatch: answers in order, long polls, pauses, acks=0, versions, and the faults that requests meet."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.server import dispatch
from ottla.broker.server.call import ClientCall
from ottla.broker.server.faults import delay, drop, error, never
from ottla.errors import (
    ConnectionLostError,
)
from ottla.wire.apis import API_VERSIONS_KEY
from ottla.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.worlds import Body, World, batch, produce_request

Run = Callable[[Body], object]
UNKNOWN_SERVER_ERROR, NOT_LEADER, TIMED_OUT = -1, 6, 7


def values(cluster: AsyncCluster, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in cluster.dump(topic)]


def test_responses_of_one_connection_keep_their_order(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            client = await world.client(cluster)
            order: list[str] = []

            async def noted(name: str, work: Awaitable[object]) -> None:
                await work
                order.append(name)

            poll = asyncio.ensure_future(client.fetch("orders", max_wait=200))
            await asyncio.sleep(0)
            ask = asyncio.ensure_future(client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse))
            await asyncio.gather(noted("poll", poll), noted("ask", ask))
            assert order == ["poll", "ask"]

    run(body)


def test_a_paused_node_answers_nothing_until_it_goes_on(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            client, other = await world.client(cluster), await world.client(cluster)
            cluster.pause_node(1)
            asked = [
                asyncio.ensure_future(each.ask(ApiVersionsRequest(), 0, ApiVersionsResponse))
                for each in (client, other, client)
            ]
            await cluster.wait_for(lambda: cluster.node(1).dispatcher.pending_requests >= 2)
            assert not any(each.done() for each in asked)
            cluster.resume_node(1)
            assert all([(await each).error_code == 0 for each in asked])

    run(body)


def test_dropped_before_the_append_nothing_is_stored_and_after_it_everything(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            for when in ("before_append", "after_append", "response"):
                fault = cluster.faults.add("Produce", when=when, action=drop, count=1)
                client = await world.client(cluster)
                with pytest.raises(ConnectionLostError):
                    await client.produce("orders", batch(when.encode()))
                assert fault.hits == 1
            assert values(cluster) == [b"after_append", b"response"]

    run(body)


def test_errors_are_answered_for_the_partitions_that_a_rule_names(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics={"orders": 2}) as cluster:
            client = await world.client(cluster)
            cluster.faults.add("Produce", topic="orders", partition=1, action=error("NOT_ENOUGH_REPLICAS"))
            assert (await client.produce("orders", batch(b"0"), partition=0)).error_code == 0
            assert (await client.produce("orders", batch(b"1"), partition=1)).error_code == 19
            cluster.faults.clear()
            cluster.faults.add("Produce", when="after_append", action=error(20), count=1)
            assert (await client.produce("orders", batch(b"2"), partition=1)).error_code == 20
            assert (await client.produce("orders", batch(b"3"), partition=1)).error_code == 0
            assert values(cluster) == [b"0", b"2", b"3"]

    run(body)


def test_without_acks_nothing_is_answered_and_a_refusal_closes_the_connection(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            client = await world.client(cluster)
            client.channel.send_oneway(produce_request("orders", batch(b"1"), acks=0), 9)
            answer = await client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
            assert answer.error_code == 0
            assert values(cluster) == [b"1"]
            transactional = batch(b"2", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
            for refused in (
                produce_request("payments", batch(b"2"), acks=0),
                produce_request("orders", transactional, acks=0),
            ):
                other = await world.client(cluster)
                other.channel.send_oneway(refused, 9)
                await other.channel.wait_closed()
            assert values(cluster) == [b"1"]

    run(body)


def test_a_delay_is_by_the_clock_and_never_is_never(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            client, other = await world.client(cluster), await world.client(cluster)
            late = cluster.faults.add("Produce", action=delay(60), count=1)
            producing = asyncio.ensure_future(client.produce("orders", batch(b"late")))
            await late.wait()
            await other.produce("orders", batch(b"early"))
            cluster.clock.advance(61)
            assert (await producing).base_offset == 1
            silent = cluster.faults.add("Fetch", action=never, count=1)
            fetching = asyncio.ensure_future(client.fetch("orders"))
            await silent.wait()
            assert len((await other.fetch("orders")).records or b"") > 0
            assert not fetching.done()
            client.channel.close()
            with pytest.raises(ConnectionLostError):
                await fetching

    run(body)


def test_a_response_with_too_long_a_message_is_an_error_like_others(run: Run) -> None:
    """A value of 32 kB makes a sentence about it that no answer has room for."""

    def asked(kind: int, name: str, config: str) -> IncrementalAlterConfigsRequest:
        changed = IncrementalAlterConfigsRequest.AlterableConfig(name=config, value="x" * 32_767)
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=[changed]
        )
        return IncrementalAlterConfigsRequest(resources=[resource])

    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            client = await world.client(cluster)
            by_the_broker, by_the_controller = asked(8, "1", "root"), asked(2, "orders", "retention.ms")
            for request in (by_the_broker, by_the_controller):
                answer = await client.ask(request, 1, IncrementalAlterConfigsResponse)
                assert [(each.error_code, each.error_message) for each in answer.responses] == [
                    (UNKNOWN_SERVER_ERROR, None)
                ]

    run(body)


def test_a_request_that_is_given_up_before_it_began_leaves_no_trace(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            client = await world.client(cluster)
            dispatcher = cluster.node(1).dispatcher
            served = dispatcher._work

            def served_and_lost(call: ClientCall, work: Any, pending: Any = None) -> None:
                served(call, work, pending)
                call.connection.abort()
                dispatcher.lost(call.connection)

            dispatcher._work = served_and_lost  # type: ignore[method-assign]
            with pytest.raises(ConnectionLostError):
                await client.fetch("orders", max_wait=60_000)
            gc.collect()
            assert dispatcher.pending_requests == 0
            assert len(cluster.node(1).replicas.fetches) == 0

    run(body)


def test_a_fault_strikes_clients_and_not_the_nodes_that_follow_the_controller(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2) as cluster:
            fault = cluster.faults.add("Fetch", action=drop, count=1)
            await cluster.create_topic("orders")
            await cluster.delete_topic("orders")
            assert fault.hits == 0

    run(body)


@pytest.mark.parametrize("where", ["decode_request_header", "encode_response"])
@pytest.mark.parametrize("queued", [False, True], ids=["at once", "behind a long poll"])
def test_a_bug_outside_of_handlers_costs_one_connection_and_is_said(
    run: Run, where: str, queued: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the request is served from a callback, whose exceptions nobody hears."""
    original = getattr(dispatch, where)

    def planted(given: Any, *args: Any) -> Any:
        wanted = given if where == "encode_response" else original(given)[0].request_api_key
        if isinstance(wanted, ApiVersionsResponse) or wanted == API_VERSIONS_KEY:
            raise LookupError("planted")
        return original(given, *args)

    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster:
            client = await world.client(cluster)
            with monkeypatch.context() as patch:
                patch.setattr(dispatch, where, planted)
                broken = await world.client(cluster)
                asked: list[Awaitable[object]] = [broken.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)]
                if queued:
                    asked.insert(0, broken.fetch("orders", max_wait=60_000))
                asking = [asyncio.ensure_future(question) for question in asked]
                if queued:
                    await cluster.wait_for(
                        lambda: cluster.node(1).dispatcher.pending_requests == 1, "the long poll"
                    )
                    cluster.clock.advance(61)
                with pytest.raises(ConnectionLostError):
                    await asking[-1]
                await asyncio.gather(*asking, return_exceptions=True)
            assert "planted" in caplog.text
            assert "ottla.broker.server.dispatch" in [record.name for record in caplog.records]
            assert (await client.produce("orders", batch(b"1"))).error_code == 0

    run(body)
