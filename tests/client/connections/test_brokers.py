"""All brokers of a client: by id, in an order to try, as metadata names them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import pytest

from ottla import sim
from ottla.client.connections.brokers import Brokers, no_brokers_error
from ottla.client.connections.purposes import Purpose
from ottla.errors import (
    ClientClosedError,
    ConnectionFailedError,
    ConnectionLostError,
    RequestTimeoutError,
    UnknownBrokerError,
)
from ottla.sim.network import CutMode
from ottla.wire.messages import HeartbeatRequest, MetadataRequest, MetadataResponse
from tests.client.connections.peers import PlayedBroker
from tests.client.worlds import Body, World, in_simulation

Run = Callable[[Body], object]
CUT_MODES: tuple[CutMode, ...] = ("silent", "reset", "one way")


class Named(NamedTuple):
    node_id: int
    host: str = "nowhere"
    port: int = 9092
    rack: str | None = None


def ids(brokers: Brokers) -> list[int]:
    return [broker.node_id for broker in brokers.known()]


def test_bootstrap_servers_have_negative_ids_until_metadata_names_brokers(run: Run) -> None:
    async def body(world: World) -> None:
        brokers = world.parts("a:1,b:2").brokers
        assert [(each.node_id, each.host, each.port) for each in brokers.seeds()] == [
            (-1, "a", 1),
            (-2, "b", 2),
        ]
        assert str(brokers.get(-2)) == "bootstrap server (b:2)"
        assert sorted(each.node_id for each in brokers.candidates()) == [-2, -1]
        brokers.update([Named(7, rack="r"), Named(3)])
        assert ids(brokers) == [3, 7]
        assert (str(brokers.get(7)), brokers.get(7).rack) == ("broker 7 (nowhere:9092)", "r")
        assert sorted(each.node_id for each in brokers.candidates()) == [3, 7]
        brokers.rebootstrap()
        assert ids(brokers) == []
        assert sorted(each.node_id for each in brokers.candidates()) == [-2, -1]

    run(body)


def test_an_id_that_nobody_has_is_an_error_that_names_those_there_are(run: Run) -> None:
    async def body(world: World) -> None:
        brokers = world.parts("a:1").brokers
        with pytest.raises(
            UnknownBrokerError, match="no broker with id 1 is known; metadata has named no broker"
        ):
            brokers.get(1)
        brokers.update([Named(3), Named(2)])
        with pytest.raises(UnknownBrokerError, match="the cluster's ids are: 2, 3"):
            brokers.get(1)

    run(body)


def test_candidates_come_in_any_order_but_connected_first_and_failing_last(run: Run) -> None:
    async def body(world: World) -> None:
        played = await PlayedBroker().listen(world)
        brokers = world.parts("a:1").brokers
        named = [Named(number) for number in range(1, 6)]
        named[2] = Named(3, played.listener.host, played.listener.port)
        dead = await PlayedBroker().listen(world)
        await dead.close()
        named[0] = Named(1, dead.listener.host, dead.listener.port)
        brokers.update(named)
        await brokers.get(3).connection(Purpose.GENERAL)
        with pytest.raises(ConnectionFailedError):
            await brokers.get(1).connection(Purpose.GENERAL)
        orders = [tuple(each.node_id for each in brokers.candidates()) for _ in range(100)]
        assert all(order[0] == 3 and order[-1] == 1 for order in orders)
        assert len(dict.fromkeys(orders)) == 6
        await played.close()

    run(body)


def test_of_several_bootstrap_servers_one_alive_is_enough(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            dead = [await PlayedBroker().listen(world) for _ in range(2)]
            for each in dead:
                await each.close()
            servers = ",".join([*(each.bootstrap for each in dead), cluster.bootstrap])
            brokers = world.parts(servers).brokers
            answers = []
            for _ in range(2):
                for broker in brokers.candidates():
                    try:
                        answers.append(await broker.request(MetadataRequest(topics=[])))
                        break
                    except ConnectionFailedError:
                        continue
            assert [type(each) for each in answers] == [MetadataResponse] * 2
            assert brokers.candidates()[0].node_id == -3

    run(body)


def test_an_update_keeps_who_stays_moves_who_moved_and_closes_who_left(run: Run) -> None:
    async def body(world: World) -> None:
        played = [await PlayedBroker().listen(world) for _ in range(3)]
        addresses = [(each.listener.host, each.listener.port) for each in played]
        brokers = world.parts("a:1").brokers
        brokers.update(Named(number, *addresses[number]) for number in range(3))
        stays, moves, leaves = brokers.known()
        opened = [await each.connection(Purpose.GENERAL) for each in (stays, moves, leaves)]
        asked = opened[2].send(HeartbeatRequest(), 4)
        await played[2].until_requests(1)

        brokers.update([Named(0, *addresses[0]), Named(1, *addresses[2])])
        assert brokers.known() == [stays, moves]
        assert [each.is_closed for each in opened] == [False, True, True]
        with pytest.raises(ConnectionLostError):
            await asked
        with pytest.raises(UnknownBrokerError, match="broker 2 has left the cluster"):
            await leaves.connection(Purpose.GENERAL)
        await moves.connection(Purpose.GENERAL)
        assert len(played[2].connections) == 2
        for each in played:
            await each.close()

    run(body)


def test_closing_ends_what_is_open_and_what_is_being_opened(run: Run) -> None:
    async def body(world: World) -> None:
        played = await PlayedBroker().listen(world)
        silent = await PlayedBroker(lambda header: []).listen(world)
        parts = world.parts(f"{played.bootstrap},{silent.bootstrap}")
        connection = await parts.brokers.get(-1).connection(Purpose.GENERAL)
        greeting = asyncio.ensure_future(parts.brokers.get(-2).connection(Purpose.GENERAL))
        await silent.until_frames(1)
        begun = asyncio.ensure_future(parts.brokers.get(-1).connection(Purpose.FETCH))
        await asyncio.sleep(0)
        await parts.brokers.close()
        assert connection.is_closed
        outcomes = await asyncio.gather(greeting, begun, return_exceptions=True)
        assert [type(each) for each in outcomes] == [ClientClosedError] * 2
        for ask in (lambda: parts.brokers.get(-1), parts.brokers.candidates):
            with pytest.raises(ClientClosedError):
                ask()
        await parts.brokers.close()
        await played.close()
        await silent.close()

    run(body)


def test_a_task_that_is_ended_first_leaves_nobody_waiting(run: Run) -> None:
    async def body(world: World) -> None:
        played = await PlayedBroker().listen(world)
        parts = world.parts(played.bootstrap)
        waiting = asyncio.ensure_future(parts.brokers.get(-1).connection(Purpose.GENERAL))
        await asyncio.sleep(0)
        await parts.tasks.close()
        with pytest.raises(ClientClosedError):
            await waiting
        with pytest.raises(ClientClosedError):
            await parts.brokers.get(-1).connection(Purpose.GENERAL)
        await parts.brokers.close()
        await played.close()

    run(body)


def test_when_nobody_can_be_reached_each_is_named_with_its_reason(run: Run) -> None:
    async def body(world: World) -> None:
        first, second = world.parts("a:1,b:2").brokers.seeds()
        reasons = [ConnectionFailedError("refused"), ConnectionFailedError("no such host")]
        error = no_brokers_error("metadata", list(zip((first, second), reasons, strict=True)))
        assert str(error) == (
            "metadata: no broker could be reached: "
            "bootstrap server (a:1): refused; bootstrap server (b:2): no such host"
        )
        assert error.__cause__ is reasons[1]

    run(body)


@pytest.mark.parametrize("seed", range(5))
def test_while_links_break_every_request_ends_and_closing_leaves_nothing_behind(seed: int) -> None:
    async def body(world: World) -> None:
        runtime = world.runtime
        assert isinstance(runtime, sim.SimRuntime)
        outcomes: Counter[str] = Counter()

        async def ask(brokers: Brokers, position: int) -> None:
            for number in range(40):
                broker = brokers.seeds()[(position + number) % 3]
                try:
                    answer = await broker.request(MetadataRequest(topics=[]), timeout=1)
                    outcomes[type(answer).__name__] += 1
                except ClientClosedError:
                    outcomes["closed"] += 1
                    return
                except (ConnectionFailedError, ConnectionLostError, RequestTimeoutError) as error:
                    outcomes[type(error).__name__] += 1
                await runtime.clock.sleep(runtime.random.uniform(0, 0.1))

        async with world.cluster(3) as cluster:
            brokers = world.parts(cluster, socket_connection_setup_timeout_ms=500).brokers
            asking = [asyncio.ensure_future(ask(brokers, position)) for position in range(9)]
            for _ in range(12):
                node = f"node-{runtime.random.randint(1, 3)}"
                mode: CutMode = runtime.random.choice(CUT_MODES)
                runtime.network.cut("client", node, mode)
                await runtime.clock.sleep(runtime.random.uniform(0, 2))
                runtime.network.heal_all()
                await runtime.clock.sleep(runtime.random.uniform(0, 0.3))
            runtime.network.cut("client", "node-1", "silent")
            await brokers.close()
            await asyncio.gather(*asking)
            runtime.network.heal_all()
        assert outcomes["MetadataResponse"] > 20
        assert sum(outcomes.values()) > 60, outcomes

    in_simulation(body, seed)
