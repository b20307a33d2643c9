"""Links from node to node: cut in one direction or both, healed in order, broken by a node that goes, and in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla import sim
from ottla.broker.cluster.interconnect import Interconnect, NodeLinks
from ottla.broker.server.call import Peer
from ottla.broker.server.peers import PeerRequests, Respond
from ottla.errors import ConnectionLostError
from ottla.sim.runtime import SimRuntime
from ottla.wire import Message
from ottla.wire.messages import HeartbeatRequest, HeartbeatResponse

VERSION = 4
TIMEOUT = 30.0


class Served(PeerRequests):
    """A node that answers at once, unless it is silent; notes what comes to it."""

    def __init__(self) -> None:
        super().__init__(None, {})  # type: ignore[arg-type]  # no request gets as far as to a handler
        self.silent = False
        self.numbers: list[int] = []
        self.links: list[Peer] = []
        self.hurried: list[Peer] = []
        self.gone: list[Peer] = []
        self.order: list[str] = []

    def received(self, link: Peer, request: Message, version: int, respond: Respond) -> None:
        assert isinstance(request, HeartbeatRequest)
        assert version == VERSION
        self.numbers.append(request.generation_id)
        self.links.append(link)
        self.order.append("request")
        if not self.silent:
            respond(HeartbeatResponse(error_code=request.generation_id))

    def hurry(self, link: Peer) -> None:
        self.hurried.append(link)
        self.order.append("hurry")

    def lost(self, link: Peer) -> None:
        self.gone.append(link)
        self.order.append("lost")


class Nodes:
    """Three nodes, each on its machine."""

    def __init__(self, runtime: SimRuntime) -> None:
        self.runtime = runtime
        self.interconnect = Interconnect()
        self.served: dict[int, Served] = {}
        self.links: dict[int, NodeLinks] = {}
        for node_id in (1, 2, 3):
            self.join(node_id)

    def join(self, node_id: int) -> Served:
        served = self.served[node_id] = Served()
        machine = f"node-{node_id}"
        self.interconnect.join(node_id, self.runtime.at(machine), machine, served)
        self.links[node_id] = self.interconnect.links_of(node_id, self.runtime.clock)
        return served

    async def request(self, sender: int, receiver: int, number: int = 7, timeout: float = TIMEOUT) -> int:
        request = HeartbeatRequest(generation_id=number)
        response = await self.links[sender].request(receiver, request, VERSION, timeout)
        assert isinstance(response, HeartbeatResponse)
        return response.error_code

    def requesting(
        self, sender: int, receiver: int, number: int = 7, timeout: float = TIMEOUT
    ) -> asyncio.Task[int]:
        return asyncio.ensure_future(self.request(sender, receiver, number, timeout))


async def give_up(request: asyncio.Task[int]) -> None:
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)


Body = Callable[[Nodes], Awaitable[None]]


def run(body: Body) -> None:
    async def main(runtime: SimRuntime) -> None:
        await body(Nodes(runtime))

    sim.run(main, seed=1)


def test_a_request_and_its_response_travel_as_long_as_the_network_takes() -> None:
    async def body(nodes: Nodes) -> None:
        begin = nodes.runtime.clock.monotonic()
        assert await nodes.request(1, 2, 5) == 5
        assert nodes.runtime.clock.monotonic() - begin >= 2 * nodes.runtime.network.conditions.min_latency
        assert nodes.served[2].numbers == [5]
        names = [(arrival.sender, arrival.kind) for arrival in nodes.runtime.network.trace.latest]
        assert [(sender.partition("/")[0], kind) for sender, kind in names] == [
            ("node-1", "message"),
            ("node-2", "message"),
        ]

    run(body)


def test_requests_of_one_node_to_another_come_on_one_link_in_their_order() -> None:
    async def body(nodes: Nodes) -> None:
        requests = [nodes.requesting(1, 2, number) for number in range(10)]
        assert await asyncio.gather(*requests) == list(range(10))
        assert nodes.served[2].numbers == list(range(10))
        assert len({id(link) for link in nodes.served[2].links}) == 1
        assert nodes.served[2].links[0].peer == "node 1"

    run(body)


def test_behind_a_cut_everything_waits_and_arrives_in_order_when_it_is_healed() -> None:
    async def body(nodes: Nodes) -> None:
        nodes.interconnect.cut(1, 2)
        requests = [nodes.requesting(1, 2, number) for number in range(3)]
        await asyncio.sleep(10)
        nodes.links[1].hurry(2)
        # These are still under way when the link is healed.
        requests += [nodes.requesting(1, 2, number) for number in (3, 4)]
        await asyncio.sleep(0)
        assert nodes.served[2].numbers == []
        nodes.interconnect.heal(1, 2)
        assert await asyncio.gather(*requests) == [0, 1, 2, 3, 4]
        assert nodes.served[2].numbers == [0, 1, 2, 3, 4]

    run(body)


def test_a_cut_in_one_direction_holds_responses_back_and_lets_requests_through() -> None:
    async def body(nodes: Nodes) -> None:
        nodes.interconnect.cut(2, 1)
        request = nodes.requesting(1, 2)
        await asyncio.sleep(1)
        assert (nodes.served[2].numbers, request.done()) == ([7], False)
        assert await nodes.request(1, 3) == 7, "another link is whole"
        nodes.interconnect.heal(2, 1)
        assert await request == 7

    run(body)


def test_a_link_that_is_cut_twice_is_healed_once() -> None:
    async def body(nodes: Nodes) -> None:
        nodes.interconnect.cut(1, 2)
        request = nodes.requesting(1, 2)
        await asyncio.sleep(1)
        nodes.interconnect.cut(1, 2)
        nodes.interconnect.cut(3, 1)
        for sender, receiver in [(1, 2), (3, 1)] * 2:
            nodes.interconnect.heal(sender, receiver)
        assert await request == 7
        assert await nodes.request(3, 1) == 7

    run(body)


def test_a_request_without_a_response_breaks_its_link_in_its_time() -> None:
    async def body(nodes: Nodes) -> None:
        served = nodes.served[2]
        served.silent = True
        first, second = nodes.requesting(1, 2, 1, timeout=30), nodes.requesting(1, 2, 2, timeout=40)
        begin = nodes.runtime.clock.monotonic()
        with pytest.raises(ConnectionLostError, match="node 2 did not answer within 30 seconds"):
            await first
        assert nodes.runtime.clock.monotonic() - begin == pytest.approx(30)
        with pytest.raises(ConnectionLostError):
            await second
        await asyncio.sleep(1)
        assert served.gone == [served.links[0]]
        served.silent = False
        assert await nodes.request(1, 2) == 7
        assert served.links[-1] is not served.links[0]

    run(body)


def test_a_node_behind_a_cut_learns_of_a_broken_link_when_it_is_healed() -> None:
    async def body(nodes: Nodes) -> None:
        served = nodes.served[2]
        nodes.interconnect.cut(1, 2)
        request = nodes.requesting(1, 2, 1)
        with pytest.raises(ConnectionLostError):
            await request
        again = nodes.requesting(1, 2, 2)
        await asyncio.sleep(1)
        assert served.order == []
        nodes.interconnect.heal(1, 2)
        assert await again == 2
        assert served.order == ["request", "lost", "request"]

    run(body)


def test_a_late_response_to_a_request_that_was_given_up_is_nothing_to_anyone() -> None:
    async def body(nodes: Nodes) -> None:
        nodes.interconnect.cut(2, 1)
        with pytest.raises(ConnectionLostError):
            await nodes.request(1, 2, 1)
        nodes.interconnect.heal(2, 1)
        assert await nodes.request(1, 2, 2) == 2

    run(body)


def test_a_request_that_is_cancelled_leaves_the_link_whole() -> None:
    async def body(nodes: Nodes) -> None:
        served = nodes.served[2]
        served.silent = True
        request = nodes.requesting(1, 2)
        await asyncio.sleep(1)
        await give_up(request)
        served.silent = False
        await asyncio.sleep(100)
        assert await nodes.request(1, 2) == 7
        assert served.links[0] is served.links[1]
        assert served.gone == []

    run(body)


def test_a_hurry_comes_behind_the_request_that_it_hurries() -> None:
    async def body(nodes: Nodes) -> None:
        served = nodes.served[2]
        served.silent = True
        request = nodes.requesting(1, 2)
        await asyncio.sleep(0)
        nodes.links[1].hurry(2)
        await asyncio.sleep(1)
        assert (served.order, served.hurried) == (["request", "hurry"], served.links)
        await give_up(request)

    run(body)


def test_a_node_that_goes_breaks_the_links_to_it_and_those_from_it() -> None:
    async def body(nodes: Nodes) -> None:
        for served in nodes.served.values():
            served.silent = True
        to, by, others = nodes.requesting(1, 2), nodes.requesting(2, 3), nodes.requesting(1, 3)
        await asyncio.sleep(1)
        nodes.interconnect.leave(2)
        with pytest.raises(ConnectionLostError, match="this node has been stopped"):
            await by
        with pytest.raises(ConnectionLostError, match="node 2 has been stopped"):
            await to
        assert [link.peer for link in nodes.served[3].gone] == ["node 2"]
        assert not others.done()
        with pytest.raises(ConnectionRefusedError, match="node 2 does not run"):
            await nodes.request(1, 2)
        with pytest.raises(ConnectionAbortedError, match="node 2 has been stopped"):
            await nodes.request(2, 1)
        nodes.links[1].hurry(2)
        nodes.interconnect.leave(2)
        await give_up(others)

    run(body)


def test_a_node_behind_a_cut_does_not_learn_that_another_has_gone() -> None:
    async def body(nodes: Nodes) -> None:
        nodes.served[2].silent = True
        request = nodes.requesting(1, 2)
        await asyncio.sleep(1)
        nodes.interconnect.cut(2, 1)
        nodes.interconnect.leave(2)
        await asyncio.sleep(10)
        assert not request.done()
        nodes.interconnect.heal(2, 1)
        with pytest.raises(ConnectionLostError, match="node 2 has been stopped"):
            await request

    run(body)


def test_a_link_to_an_earlier_incarnation_is_reset_and_the_next_request_makes_another() -> None:
    async def body(nodes: Nodes) -> None:
        assert await nodes.request(1, 2) == 7
        # Node 1 does not hear that the node it has a link to has gone and come back.
        nodes.interconnect.cut(2, 1)
        nodes.interconnect.leave(2)
        again = nodes.join(2)
        request = nodes.requesting(1, 2)
        await asyncio.sleep(1)
        nodes.interconnect.heal(2, 1)
        with pytest.raises(ConnectionLostError, match="node 2 has been stopped"):
            await request
        assert again.numbers == []
        assert await nodes.request(1, 2) == 7
        assert again.numbers == [7]

    run(body)


def test_a_reset_that_comes_late_does_not_break_the_next_link() -> None:
    async def body(nodes: Nodes) -> None:
        nodes.served[2].silent = True
        nodes.interconnect.cut(2, 1)
        request = nodes.requesting(1, 2, timeout=5)
        await asyncio.sleep(1)
        nodes.interconnect.leave(2)
        nodes.join(2)
        with pytest.raises(ConnectionLostError, match="did not answer"):
            await request
        request = nodes.requesting(1, 2)
        await asyncio.sleep(1)
        nodes.interconnect.heal(2, 1)
        assert await request == 7

    run(body)


def test_a_node_that_closes_a_link_breaks_it_for_the_other() -> None:
    async def body(nodes: Nodes) -> None:
        served = nodes.served[2]
        served.silent = True
        request = nodes.requesting(1, 2)
        await asyncio.sleep(1)
        served.links[0].close()
        with pytest.raises(ConnectionLostError, match="node 2 has closed the connection"):
            await request

    run(body)
