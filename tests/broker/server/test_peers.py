"""Requests of other nodes: served as messages, parked, hurried, held back by a pause, and given up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla import sim
from ottla.broker.replication.delayed import FetchPurgatory
from ottla.broker.server.call import Call
from ottla.broker.server.peers import LISTENER, PeerRequests
from ottla.broker.server.registry import HandlerResult, Registry
from ottla.errors import NotControllerError
from ottla.runtime import Runtime
from ottla.sim.runtime import SimRuntime
from ottla.wire import Message, Uuid
from ottla.wire.messages import HeartbeatRequest, HeartbeatResponse

ORDERS = ("orders", 0)
UNKNOWN_SERVER_ERROR, NOT_CONTROLLER = -1, 41
VERSION = 4


class Owner:
    """The server that they are served for."""

    id = 1

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def topic_name(self, topic_id: Uuid) -> str | None:
        return None

    def touched(self, request: Message) -> list[tuple[str, int]]:
        return []


class Link:
    """Where requests come in."""

    peer = "node 2"

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Serving:
    """A node that serves heartbeats in the way that their group says."""

    def __init__(self, runtime: SimRuntime) -> None:
        self.purgatory = FetchPurgatory(runtime.clock)
        self.calls: list[Call] = []
        self.responses: list[int] = []
        self.cancelled = 0
        registry = Registry()
        registry.handles(HeartbeatRequest)(self._handle)
        self.peers = PeerRequests(Owner(runtime), registry.limited({}))
        self.link = Link()

    def _handle(self, owner: Owner, request: HeartbeatRequest, call: Call) -> HandlerResult:
        self.calls.append(call)
        response = HeartbeatResponse(error_code=request.generation_id)
        kind = request.group_id
        if kind == "refused":
            raise NotControllerError
        if kind == "bug":
            raise ZeroDivisionError
        if kind == "nothing":
            return None
        if kind == "parked":
            return self.purgatory.park([ORDERS], missing_bytes=1, timeout=30, complete=lambda: response)
        if kind.startswith("later"):
            return self._later(kind, response)
        return response

    async def _later(self, kind: str, response: HeartbeatResponse) -> HeartbeatResponse | None:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if kind == "later refused":
            raise NotControllerError
        if kind == "later a bug":
            raise ZeroDivisionError
        return None if kind == "later nothing" else response

    def receive(self, kind: str = "", number: int = 7, link: Link | None = None) -> None:
        request = HeartbeatRequest(group_id=kind, generation_id=number)
        self.peers.received(link or self.link, request, VERSION, self._respond)

    def _respond(self, response: Message) -> None:
        assert isinstance(response, HeartbeatResponse)
        self.responses.append(response.error_code)


Body = Callable[[Serving], Awaitable[None]]


def run(body: Body) -> None:
    async def main(runtime: SimRuntime) -> None:
        await body(Serving(runtime))

    sim.run(main, seed=1)


def test_a_handler_gets_the_link_the_version_and_the_listener() -> None:
    async def body(node: Serving) -> None:
        node.receive()
        (call,) = node.calls
        assert (call.connection, call.version, call.listener) == (node.link, VERSION, LISTENER)
        assert node.responses == [7], "within the call"

    run(body)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("refused", [NOT_CONTROLLER]),
        ("bug", [UNKNOWN_SERVER_ERROR]),
        ("nothing", []),
        ("later", [7]),
        ("later refused", [NOT_CONTROLLER]),
        ("later a bug", [UNKNOWN_SERVER_ERROR]),
        ("later nothing", []),
    ],
)
def test_what_a_handler_returns_or_raises_is_the_response(kind: str, expected: list[int]) -> None:
    async def body(node: Serving) -> None:
        node.receive(kind)
        await asyncio.sleep(2)
        assert node.responses == expected
        node.receive()
        assert node.responses == [*expected, 7], "and the node serves on"

    run(body)


def test_responses_come_in_any_order() -> None:
    async def body(node: Serving) -> None:
        node.receive("later", 1)
        node.receive("", 2)
        await asyncio.sleep(2)
        assert node.responses == [2, 1]

    run(body)


def test_a_link_that_hurries_gets_what_was_parked_for_it_and_no_other_does() -> None:
    async def body(node: Serving) -> None:
        other = Link()
        node.receive("parked", 1)
        node.receive("parked", 2, other)
        node.receive("later", 3)
        await asyncio.sleep(0.1)
        node.peers.hurry(node.link)
        node.peers.hurry(Link())
        await asyncio.sleep(0.1)
        assert node.responses == [1], "a coroutine has nothing that would end its wait"
        await asyncio.sleep(40)
        assert node.responses == [1, 3, 2]
        assert len(node.purgatory) == 0

    run(body)


def test_what_a_lost_link_has_pending_is_given_up() -> None:
    async def body(node: Serving) -> None:
        other = Link()
        for link in (node.link, other):
            node.receive("parked", 1, link)
            node.receive("later", 2, link)
        await asyncio.sleep(0.1)
        node.receive("parked", 3)  # whose task has not begun
        node.receive("later", 4)  # nor has the coroutine of this one, which is closed all the same
        node.peers.lost(node.link)
        node.peers.lost(node.link)
        await asyncio.sleep(0.1)
        assert (len(node.purgatory), node.cancelled) == (1, 1)
        await asyncio.sleep(40)
        assert node.responses == [2, 1], "those of the other link"
        assert len(node.purgatory) == 0

    run(body)


def test_a_paused_node_serves_when_it_goes_on() -> None:
    async def body(node: Serving) -> None:
        other = Link()
        node.peers.pause()
        node.receive("", 1)
        node.receive("", 2, other)
        node.receive("", 3)
        assert (node.calls, node.responses) == ([], [])
        node.peers.lost(other)
        node.peers.resume()
        assert node.responses == [1, 3]

    run(body)


def test_a_response_that_is_ready_while_the_node_is_paused_leaves_first_when_it_goes_on() -> None:
    async def body(node: Serving) -> None:
        node.receive("later", 1)
        node.receive("later", 2)
        await asyncio.sleep(0.5)
        node.peers.pause()
        node.receive("", 3)
        await asyncio.sleep(2)
        assert node.responses == []
        node.peers.resume()
        assert node.responses == [1, 2, 3]
        node.peers.resume()
        assert node.responses == [1, 2, 3]

    run(body)


def test_nothing_is_answered_after_the_end() -> None:
    async def body(node: Serving) -> None:
        node.receive("later", 1)
        node.receive("parked", 2)
        await asyncio.sleep(0.1)
        node.peers.pause()
        node.receive("", 3)
        await node.peers.close()
        node.peers.resume()
        await asyncio.sleep(40)
        assert (node.responses, node.cancelled, len(node.purgatory)) == ([], 1, 0)

    run(body)


def test_a_bug_in_a_handler_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def body(node: Serving) -> None:
        node.receive("bug")

    run(body)
    assert "node 1: Heartbeat failed" in caplog.text
