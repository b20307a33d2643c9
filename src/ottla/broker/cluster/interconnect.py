"""The cluster's own network: requests from node to node, as messages that both nodes hold in this process.

A request travels along the path of the Runtime, so a simulation delays it, holds it back and traces it; its response
travels back and brings the memory of the leader's log along, not a copy. `cut` breaks one direction between two
nodes, silently: what is sent is held back until `heal`, as on a connection of TCP, and the sender learns nothing.

A node that goes takes its links with it: requests that others have pending there fail, and so do new ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.broker.server.peers import PeerRequests
from ottla.errors import ConnectionLostError
from ottla.runtime import Clock, MessagePath, Runtime
from ottla.wire import Message

Direction = tuple[int, int]
"""The node that sends, and the one that receives."""

HeldBack = tuple[Callable[..., object], tuple[Any, ...]]


class Interconnect:
    """All links between the nodes of one cluster."""

    def __init__(self) -> None:
        self._machines: dict[int, tuple[Runtime, str]] = {}
        # What serves each node that runs.
        self._serving: dict[int, PeerRequests] = {}
        self._links: dict[Direction, Link] = {}
        self._paths: dict[Direction, MessagePath] = {}
        self._cuts: dict[Direction, list[HeldBack]] = {}

    # Nodes

    def join(self, node_id: int, runtime: Runtime, machine: str, serving: PeerRequests) -> None:
        self._machines[node_id] = (runtime, machine)
        self._serving[node_id] = serving

    def leave(self, node_id: int) -> None:
        """The node is gone, as a process that ends: its connections break."""
        serving = self._serving.pop(node_id, None)
        for link in list(self._links.values()):
            if link.sender == node_id:
                link.fail("this node has been stopped")
                link.serving.lost(link)
            elif link.serving is serving:
                link.reset(f"node {node_id} has been stopped")

    def runs(self, node_id: int, serving: PeerRequests) -> bool:
        """Whether it is still this incarnation of a node."""
        return self._serving.get(node_id) is serving

    def links_of(self, sender: int, clock: Clock) -> NodeLinks:
        return NodeLinks(self, sender, clock)

    # Links

    def link(self, sender: int, receiver: int) -> Link:
        serving = self._serving.get(receiver)
        if sender not in self._serving:
            raise ConnectionAbortedError(f"node {sender} has been stopped")
        if serving is None:
            raise ConnectionRefusedError(f"node {receiver} does not run")
        link = self._links.get((sender, receiver))
        if link is None:
            link = self._links[sender, receiver] = Link(self, sender, receiver, serving)
        return link

    def forget(self, link: Link) -> None:
        if self._links.get((link.sender, link.receiver)) is link:
            del self._links[link.sender, link.receiver]

    def carry(self, direction: Direction, name: str, arrive: Callable[..., object], *args: Any) -> None:
        path = self._paths.get(direction)
        if path is None:
            runtime, _ = self._machines[direction[0]]
            path = self._paths[direction] = runtime.path_to(self._machines[direction[1]][1])
        path.carry(name, self._arrive, direction, (arrive, args))

    def _arrive(self, direction: Direction, message: HeldBack) -> None:
        held = self._cuts.get(direction)
        if held is not None:
            held.append(message)
        else:
            arrive, args = message
            arrive(*args)

    # Cuts

    def cut(self, sender: int, receiver: int) -> None:
        self._cuts.setdefault((sender, receiver), [])

    def heal(self, sender: int, receiver: int) -> None:
        # At once, for it has travelled already: what was sent behind it may be under way still.
        for arrive, args in self._cuts.pop((sender, receiver), ()):
            arrive(*args)


class Link:
    """A connection in one direction: from a node that requests to one that serves."""

    def __init__(self, interconnect: Interconnect, sender: int, receiver: int, serving: PeerRequests) -> None:
        self.peer = f"node {sender}"
        self.is_closed = False
        self.sender, self.receiver = sender, receiver
        self.serving = serving
        self._interconnect = interconnect
        self._pending: dict[asyncio.Future[Message], None] = {}

    # At the node that requests

    async def request(self, request: Message, version: int, timeout: float, clock: Clock) -> Message:
        response: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._pending[response] = None
        self._there(type(request).__name__, self._serve, request, version, response)
        timer = clock.call_later(timeout, self._give_up, timeout)
        try:
            return await response
        finally:
            timer.cancel()
            self._pending.pop(response, None)

    def hurry(self) -> None:
        """What is parked on this link is to be answered now."""
        self._there("hurry", self._hurry)

    def _give_up(self, timeout: float) -> None:
        """A connection without responses is closed; the node that serves learns of it when it can."""
        self.fail(f"node {self.receiver} did not answer within {timeout:g} seconds")
        self._there("reset", self.serving.lost, self)

    def fail(self, why: str) -> None:
        """The connection is gone: what is pending fails."""
        self.is_closed = True
        self._interconnect.forget(self)
        pending, self._pending = self._pending, {}
        for response in pending:
            if not response.done():
                response.set_exception(ConnectionLostError(why))

    def _answer(self, response: asyncio.Future[Message], result: Message) -> None:
        if not response.done() and not self.is_closed:
            response.set_result(result)

    # At the node that serves

    def _serve(self, request: Message, version: int, response: asyncio.Future[Message]) -> None:
        if not self._interconnect.runs(self.receiver, self.serving):
            self.reset(f"node {self.receiver} has been stopped")
            return

        def respond(result: Message) -> None:
            self._back(type(result).__name__, self._answer, response, result)

        self.serving.received(self, request, version, respond)

    def _hurry(self) -> None:
        self.serving.hurry(self)

    def reset(self, why: str) -> None:
        self._back("reset", self.fail, why)

    def close(self) -> None:
        self.reset(f"node {self.receiver} has closed the connection")

    abort = close

    def _there(self, name: str, arrive: Callable[..., object], *args: Any) -> None:
        self._interconnect.carry((self.sender, self.receiver), name, arrive, *args)

    def _back(self, name: str, arrive: Callable[..., object], *args: Any) -> None:
        self._interconnect.carry((self.receiver, self.sender), name, arrive, *args)


class NodeLinks:
    """The links of one node to the leaders that it follows."""

    def __init__(self, interconnect: Interconnect, sender: int, clock: Clock) -> None:
        self._interconnect = interconnect
        self._sender = sender
        self._clock = clock

    async def request(self, leader: int, request: Message, version: int, timeout: float) -> Message:
        link = self._interconnect.link(self._sender, leader)
        return await link.request(request, version, timeout, self._clock)

    def hurry(self, leader: int) -> None:
        try:
            self._interconnect.link(self._sender, leader).hurry()
        except OSError:
            return  # whatever is pending there fails by itself
