"""The metadata loop against the cluster: what it learns, when it asks, whom it tells."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable

import pytest

from ottla.broker import delay, never
from ottla.client.metadata import BrokerView, ClusterView
from ottla.client.metadata.merge import GONE
from ottla.errors import ApiTimeoutError, ClientClosedError, TopicAuthorizationFailedError
from ottla.wire.messages import ApiVersionsRequest, MetadataRequest
from tests.client.metadata.setup import Listener, started, there
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]


def leader(view: ClusterView, topic: str = "orders", partition: int = 0) -> int:
    return view.topics[topic].partitions[partition].leader


# What it learns


def test_a_fresh_client_asks_once_on_one_connection_with_api_versions_first(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 6}) as cluster, started(world, cluster) as client:
            client.metadata.track("orders")
            topic = await client.topic()
            assert len(topic.partitions) == 6
            assert [api_key for _, api_key in client.written.requests] == [
                ApiVersionsRequest.API_KEY,
                MetadataRequest.API_KEY,
            ]
            assert client.metadata.view.cluster_id == cluster.cluster_id
            assert [broker.node_id for broker in client.brokers.known()] == [1, 2, 3]

    run(body)


def test_nothing_is_asked_before_somebody_needs_it(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster, started(world, cluster) as client:
            world.clock.advance(100)
            await asyncio.sleep(0)
            assert client.written.requests == []
            view = await client.metadata.wait(lambda view: view if view.brokers else None, 30)
            assert list(view.brokers) == [1]
            assert not view.topics
            assert client.written.count == 1

    run(body)


def test_a_call_that_waits_while_its_topic_is_being_asked_for_asks_no_second_time(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, started(world, cluster) as client:
            held = cluster.faults.add("Metadata", action=delay(0.02), count=1)
            client.metadata.track("orders")
            await held.wait()
            waiting = [asyncio.create_task(client.topic()) for _ in range(10)]
            await asyncio.gather(*waiting)
            assert client.written.count == 1

    run(body)


def test_a_leader_that_moves_is_noticed_and_told(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics=["orders"]) as cluster, started(world, cluster) as client:
            client.metadata.track("orders")
            before = await client.topic()
            listener = Listener()
            client.metadata.add_listener(listener)
            other = 3 - before.partitions[0].leader
            await cluster.move_leader("orders", 0, other)
            view = await client.update()
            assert leader(view) == other
            assert view.topics["orders"].partitions[0].leader_epoch > before.partitions[0].leader_epoch
            assert listener.views == [view]
            client.metadata.remove_listener(listener)
            await client.update()
            assert len(listener.views) == 1

    run(body)


def test_a_deleted_topic_is_shown_as_gone_and_one_created_again_has_another_id(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics={"orders": 2}) as cluster,
            started(world, cluster, allow_auto_create_topics=False) as client,
        ):
            client.metadata.track("orders")
            before = await client.topic()
            await cluster.delete_topic("orders")
            gone = (await client.update()).topics["orders"]
            assert gone.error_code == GONE
            assert (gone.topic_id, gone.partitions) == (before.topic_id, before.partitions)
            await cluster.create_topic("orders", 1)
            again = await client.topic()
            assert again.topic_id != before.topic_id
            assert len(again.partitions) == 1

    run(body)


def test_partitions_without_leader_are_asked_for_until_they_have_one(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics=["orders"]) as cluster:
            await cluster.create_topic("single", 1, replicas=1)
            down = cluster.leader("single")
            await cluster.stop_node(down)
            async with started(world, cluster) as client:
                client.metadata.track("single")
                assert leader(await client.update(), "single") == -1
                await cluster.start_node(down)
                view = await client.metadata.wait(
                    lambda view: view if leader(view, "single") == down else None, 30
                )
                assert view.topics["single"].partitions[0].error_code == 0

    run(body)


def test_topics_are_created_only_for_those_who_allow_it(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster, started(world, cluster) as client:
            client.metadata.track("read-only", create=False)
            client.metadata.track("orders", create=True)
            await client.topic("orders")
            await client.update()
            assert client.metadata.view.topics["read-only"].error_code == GONE
            assert list(cluster.controller.state.image.topics) == ["orders"]

    run(body)


def test_all_topics_are_followed_and_a_topic_that_vanishes_is_shown_as_gone_once(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["a", "b"]) as cluster, started(world, cluster) as client:
            client.metadata.track_all()
            view = await client.update()
            assert sorted(view.topics) == ["a", "b"]
            await cluster.delete_topic("b")
            await cluster.create_topic("c")
            view = await client.update()
            assert {name: topic.error_code for name, topic in view.topics.items()} == {
                "a": 0,
                "b": GONE,
                "c": 0,
            }
            assert sorted((await client.update()).topics) == ["a", "c"]
            client.metadata.untrack_all()
            assert not client.metadata.view.topics

    run(body)


def test_a_topic_that_nobody_tracks_any_more_leaves_the_view(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["a", "b"]) as cluster, started(world, cluster) as client:
            for topic in ("a", "a", "b"):
                client.metadata.track(topic)
            await client.topic("a")
            client.metadata.untrack("a")
            assert sorted(client.metadata.view.topics) == ["a", "b"]
            client.metadata.untrack("a")
            assert sorted(client.metadata.view.topics) == ["b"]
            assert sorted((await client.update()).topics) == ["b"]

    run(body)


@pytest.mark.parametrize("release", ["2.4", "2.8", "3.7", {"Metadata": 1}, {"Metadata": 8}])
def test_older_brokers_are_understood(release: str | dict[str, int]) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(2, topics=["orders"], max_versions=release) as cluster,
            started(world, cluster, allow_auto_create_topics=False) as client,
        ):
            client.metadata.track("orders")
            assert leader(await client.update()) == cluster.leader("orders")
            await cluster.move_leader("orders", 0, 3 - cluster.leader("orders"))
            assert leader(await client.update()) == cluster.leader("orders")

    in_simulation(body)


@pytest.mark.parametrize("seed", range(5))
def test_after_any_number_of_restarts_the_view_is_the_truth_and_the_run_can_be_repeated(seed: int) -> None:
    async def body(world: World) -> None:
        async with world.cluster(3, topics={"orders": 9}) as cluster, started(world, cluster) as client:
            client.metadata.track("orders")
            listener = Listener()
            client.metadata.add_listener(listener)
            await client.topic()
            for node_id in (1, 2, 3, 1, 2, 3):
                client.metadata.refresh_now("before the stop")
                await cluster.stop_node(node_id, clean=bool(world.runtime.random.getrandbits(1)))
                await cluster.fence_node(node_id)
                await client.update()
                await cluster.start_node(node_id)
            await cluster.wait_for(lambda: all(cluster.leader("orders", each) > 0 for each in range(9)))
            await client.update()
            parts = client.metadata.view.topics["orders"].partitions
            assert [part.leader for part in parts] == [cluster.leader("orders", each) for each in range(9)]
            assert sorted(client.metadata.view.brokers) == [1, 2, 3]
            for earlier, later in itertools.pairwise(view.topics["orders"] for view in listener.views):
                for old, new in zip(earlier.partitions, later.partitions, strict=True):
                    assert old.leader_epoch <= new.leader_epoch

    assert in_simulation(body, seed) == in_simulation(body, seed)


# When it asks


def test_a_storm_of_immediate_refreshes_leads_to_few_requests(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, started(world, cluster) as client:
            client.metadata.track("orders")
            await client.topic()
            held = cluster.faults.add("Metadata", action=delay(0.02), count=1)
            client.metadata.refresh_now("the first")
            await held.wait()
            for number in range(1000):
                client.metadata.refresh_now(f"storm {number}")
            await cluster.wait_for(lambda: len(client.written.updates) >= 3, "the storm's own update")
            assert client.written.count == 3, "the first, the one that was held, and one for the storm"

    run(body)


def test_a_lazy_refresh_waits_for_min_age() -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics=["orders"]) as cluster,
            started(world, cluster, metadata_min_age_ms=4000) as client,
        ):
            client.metadata.track("orders")
            await client.topic()
            client.metadata.refresh("something looked odd")
            client.metadata.refresh("and something else")
            await world.clock.sleep(3.9)
            assert client.written.count == 1
            await world.clock.sleep(0.2)
            assert client.written.count == 2
            await world.clock.sleep(100)
            assert client.written.count == 2

    in_simulation(body)


def test_metadata_is_asked_for_again_at_its_max_age() -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(topics=["orders"]) as cluster,
            started(world, cluster, metadata_max_age_ms=60_000) as client,
        ):
            client.metadata.track("orders")
            await client.topic()
            await world.clock.sleep(59)
            assert client.written.count == 1
            await world.clock.sleep(2)
            assert client.written.count == 2
            await world.clock.sleep(61)
            assert client.written.count == 3

    in_simulation(body)


def test_a_missing_topic_is_asked_for_eight_times_quickly_and_then_every_min_age() -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster, started(world, cluster) as client:
            client.metadata.track("nowhere", create=False)
            await world.clock.sleep(4)
            assert client.written.count == 1 + 8
            await world.clock.sleep(20)
            assert client.written.count == 1 + 8 + 4
            client.metadata.untrack("nowhere")
            await world.clock.sleep(50)
            assert client.written.count == 1 + 8 + 5

    in_simulation(body)


def test_listeners_with_reasons_are_asked_for_quickly_as_well() -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster, started(world, cluster) as client:
            listener = Listener("a partition that I need has no leader")
            client.metadata.add_listener(listener)
            await client.update()
            await world.clock.sleep(1)
            assert 4 <= len(listener.views) <= 6
            listener.reasons = ()
            await client.update()
            told = len(listener.views)
            await world.clock.sleep(100)
            assert len(listener.views) == told

    in_simulation(body)


# Whom it tells


def test_a_listener_that_fails_is_a_crash_of_the_client_and_the_others_are_told(run: Run) -> None:
    class Broken:
        def on_metadata(self, view: ClusterView) -> Iterable[str]:
            raise RuntimeError("a bug")

    async def body(world: World) -> None:
        async with world.cluster() as cluster, started(world, cluster) as client:
            crashes: list[tuple[str, BaseException]] = []
            client.tasks.on_crash = lambda name, error: crashes.append((name, error))
            listener = Listener()
            client.metadata.add_listener(Broken())
            client.metadata.add_listener(listener)
            await client.update()
            assert listener.views == [client.metadata.view]
            assert [(name, str(error)) for name, error in crashes] == [("metadata of Broken", "a bug")]

    run(body)


def test_a_newer_hint_counts_at_once_and_is_told_once_and_older_ones_are_ignored(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics={"orders": 3}) as cluster, started(world, cluster) as client:
            client.metadata.track("orders")
            topic = await client.topic()
            listener = Listener()
            client.metadata.add_listener(listener)
            for part in topic.partitions:
                client.metadata.hint(topic.topic_id, part.index, 3 - part.leader, part.leader_epoch + 1)
                client.metadata.hint("orders", part.index, part.leader, part.leader_epoch)
            hinted = [3 - part.leader for part in topic.partitions]
            assert [part.leader for part in client.metadata.view.topics["orders"].partitions] == hinted
            assert not listener.views
            await asyncio.sleep(0)
            assert listener.views == [client.metadata.view]
            # The brokers know nothing of these epochs: their answer is older.
            await client.update()
            assert [part.leader for part in client.metadata.view.topics["orders"].partitions] == hinted

    run(body)


def test_a_hint_brings_the_address_of_a_new_broker(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, started(world, cluster) as client:
            client.metadata.track("orders")
            await client.topic()
            client.metadata.hint("orders", 0, 7, 99, [BrokerView(7, "node-7", 9092)])
            assert leader(client.metadata.view) == 7
            assert (client.brokers.get(7).host, client.brokers.get(7).port) == ("node-7", 9092)

    run(body)


def test_a_hint_that_cannot_be_taken_is_a_reason_to_ask() -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics=["orders"]) as cluster, started(world, cluster) as client:
            client.metadata.track("orders")
            part = (await client.topic()).partitions[0]
            client.metadata.hint("orders", 0, 3 - part.leader, part.leader_epoch)
            await world.clock.sleep(1)
            assert client.written.count == 1, "there is no hurry: what is known is as new"
            client.metadata.hint("orders", 0, 7, part.leader_epoch + 1)
            await world.clock.sleep(1)
            assert client.written.count == 2, "nobody knows where broker 7 is"

    in_simulation(body)


def test_a_response_that_was_under_way_does_not_bring_a_purged_topic_back(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, started(world, cluster) as client:
            client.metadata.track("orders")
            await client.topic()
            held = cluster.faults.add("Metadata", action=delay(0.02), count=1)
            client.metadata.refresh_now("once more")
            await held.wait()
            client.metadata.purge("orders")
            assert "orders" in client.metadata.view.topics, "something tracks it"
            client.metadata.untrack("orders")
            client.metadata.purge("orders")
            seen: list[bool] = []
            client.metadata.add_listener(Seen(seen))
            # What comes back is what was requested after the purge.
            client.metadata.track("orders")
            assert (await client.topic()).name == "orders"
            assert seen == [False, True]

    run(body)


class Seen:
    def __init__(self, seen: list[bool]) -> None:
        self.seen = seen

    def on_metadata(self, view: ClusterView) -> list[str]:
        self.seen.append("orders" in view.topics)
        return []


def test_a_purge_takes_a_topic_out_of_the_view_of_a_pattern_until_the_next_response(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders", "audit"]) as cluster, started(world, cluster) as client:
            client.metadata.track_all()
            await client.topic()
            client.metadata.purge("orders")
            assert "orders" not in client.metadata.view.topics
            assert "audit" in client.metadata.view.topics
            client.metadata.refresh_now("once more")
            assert (await client.topic()).name == "orders"

    run(body)


def test_what_a_condition_raises_is_for_the_one_who_waits(run: Run) -> None:
    def refuse(view: ClusterView) -> None:
        if view.brokers:
            raise TopicAuthorizationFailedError(topic="orders")

    async def body(world: World) -> None:
        async with world.cluster() as cluster, started(world, cluster) as client:
            with pytest.raises(TopicAuthorizationFailedError):
                await client.metadata.wait(refuse, 30)

    run(body)


def test_a_wait_in_vain_ends_at_its_timeout_and_says_what_for() -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster, started(world, cluster) as client:
            began = world.clock.monotonic()
            with pytest.raises(ApiTimeoutError, match="waited 7 seconds for topic nowhere") as caught:
                await client.metadata.wait(there("nowhere"), 7, what="topic nowhere")
            assert world.clock.monotonic() - began == pytest.approx(7)
            assert caught.value.__cause__ is None
            with pytest.raises(ApiTimeoutError, match="waited 60 seconds"):
                await client.metadata.wait(there("nowhere"))

    in_simulation(body)


# The end


def test_closing_ends_every_wait_and_is_quick_even_if_brokers_hang(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, started(world, cluster) as client:
            hung = cluster.faults.add("Metadata", action=never)
            client.metadata.track("orders")
            await hung.wait()
            calls = [asyncio.create_task(client.topic())]
            await asyncio.sleep(0)
            await client.metadata.close()
            for error in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(error, ClientClosedError)
            for late in (
                client.topic(),
                client.metadata.fresh(None),
            ):
                with pytest.raises(ClientClosedError):
                    await late

    run(body)
