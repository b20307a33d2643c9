"""`fresh`: what admin calls are answered with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.client.metadata.merge import GONE
from tests.client.metadata.setup import Listener, started
from tests.client.worlds import Body, World

Run = Callable[[Body], object]


def test_calls_in_a_row_and_at_the_same_time_ask_once(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["a", "b", "c"]) as cluster, started(world, cluster) as client:
            views = await asyncio.gather(*[client.metadata.fresh(["a", "b", "a"]) for _ in range(5)])
            assert [list(view.topics) for view in views] == [["a", "b"]] * 5
            await client.metadata.fresh(["b"])
            assert list((await client.metadata.fresh([])).brokers) == [1]
            assert client.written.count == 1
            await client.metadata.fresh(["a", "c"])
            assert client.written.count == 2

    run(body)


def test_all_topics_are_asked_for_once_and_again_when_they_are_too_old(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["a", "b"]) as cluster, started(world, cluster) as client:
            for _ in range(3):
                assert sorted((await client.metadata.fresh(None)).topics) == ["a", "b"]
            assert client.written.count == 1
            await cluster.delete_topic("a")
            await cluster.create_topic("c")
            assert sorted((await client.metadata.fresh(None, max_age=0)).topics) == ["b", "c"]
            assert client.written.count == 2
            world.clock.advance(10)
            await client.metadata.fresh(None)
            assert client.written.count == 3

    run(body)


def test_a_topic_that_does_not_exist_has_its_error_and_is_neither_kept_nor_created(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster, started(world, cluster) as client:
            for _ in range(2):
                assert (await client.metadata.fresh(["a"])).topics["a"].error_code == GONE
            assert client.written.count == 2
            assert not cluster.controller.state.image.topics
            await cluster.create_topic("a")
            assert (await client.metadata.fresh(["a"])).topics["a"].error_code == 0
            assert not client.metadata.view.topics, "nobody tracks it"

    run(body)


def test_what_the_loop_has_just_learned_is_not_asked_for_again(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(topics=["orders"]) as cluster, started(world, cluster) as client:
            client.metadata.track("orders")
            topic = await client.topic()
            assert (await client.metadata.fresh(["orders"])).topics["orders"] == topic
            assert client.written.count == 1

    run(body)


def test_what_admin_calls_learn_is_told_to_listeners(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics=["orders"]) as cluster, started(world, cluster) as client:
            client.metadata.track("orders")
            before = await client.topic()
            listener = Listener()
            client.metadata.add_listener(listener)
            await cluster.move_leader("orders", 0, 3 - before.partitions[0].leader)
            view = await client.metadata.fresh(["orders"], max_age=0)
            assert view.topics["orders"].partitions[0].leader == cluster.leader("orders")
            assert listener.views == [client.metadata.view]
            assert client.metadata.view.topics == view.topics

    run(body)


def test_a_hint_is_newer_than_the_cache(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(2, topics=["orders"]) as cluster, started(world, cluster) as client:
            client.metadata.track("orders")
            part = (await client.topic()).partitions[0]
            client.metadata.hint("orders", 0, 3 - part.leader, part.leader_epoch + 1)
            view = await client.metadata.fresh(["orders"])
            assert view.topics["orders"].partitions[0].leader == 3 - part.leader

    run(body)
