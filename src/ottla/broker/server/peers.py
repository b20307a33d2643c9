"""Requests of other nodes of the cluster, served as messages: no frame is written or read.

They go to the same handlers as those of clients, but not through dispatch: a link between two nodes of one process
hands on the response itself, and with it the memory of the leader's log. Faults for the requests of clients do not
strike them.

Invariant: a link gets the responses to its requests in any order, each once, or it is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.broker.replication.delayed import DelayedRequest
from ottla.broker.server.call import Call, Peer
from ottla.broker.server.registry import Handler, PendingResponse
from ottla.errors import BrokerError, UnknownServerError
from ottla.wire import Message
from ottla.wire.messages import RequestHeader

if TYPE_CHECKING:
    from ottla.broker.server.dispatch import Owner

_log = logging.getLogger("ottla.broker.server.peers")

LISTENER: Final = "REPLICATION"


Respond = Callable[[Message], None]
Received = tuple[Peer, Message, int, Respond]


class PeerRequests:
    """Serves what other nodes request of one node."""

    def __init__(self, owner: Owner, handlers: Mapping[int, Handler]) -> None:
        self._owner = owner
        self._handlers = handlers
        self._queue: list[Received] = []
        # Responses that were ready when the node was paused.
        self._held: list[tuple[Respond, Message]] = []
        self._is_paused = False
        # What waits, by the link that it came on, in the order of its coming.
        self._parked: dict[Peer, dict[asyncio.Task[None], PendingResponse]] = {}

    def received(self, link: Peer, request: Message, version: int, respond: Respond) -> None:
        if self._is_paused:
            self._queue.append((link, request, version, respond))
            return
        handler = self._handlers[request.API_KEY]
        header = RequestHeader(request_api_key=request.API_KEY, request_api_version=version)
        call = Call(link, header, handler, request, listener=LISTENER)
        try:
            result = handler.function(self._owner, request, call)
        except Exception as error:  # noqa: BLE001 - a bug in a handler is an error response, and the node serves on
            result = self._refused(call, error)
        if result is None:
            return
        if isinstance(result, Message):
            respond(result)
            return
        task = asyncio.get_running_loop().create_task(self._later(call, result, respond))
        parked = self._parked.setdefault(link, {})
        parked[task] = result
        task.add_done_callback(lambda done: self._done(link, done))

    def hurry(self, link: Peer) -> None:
        """Nothing that came on this link waits any longer for more to respond with."""
        for pending in self._parked.get(link, {}).values():
            if isinstance(pending, DelayedRequest):
                pending.end_wait()

    def lost(self, link: Peer) -> None:
        """The other node does not wait for responses any more."""
        self._queue = [received for received in self._queue if received[0] is not link]
        for task in list(self._parked.get(link, ())):
            task.cancel()

    def pause(self) -> None:
        """Nothing is served and no response leaves until `resume`."""
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        held, self._held = self._held, []
        for respond, response in held:
            respond(response)
        queue, self._queue = self._queue, []
        for received in queue:
            self.received(*received)

    async def close(self) -> None:
        tasks = [task for parked in self._parked.values() for task in parked]
        self._queue, self._held = [], []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _later(self, call: Call, pending: Awaitable[Message | None], respond: Respond) -> None:
        try:
            response = await pending
        except Exception as error:  # noqa: BLE001 - as above
            response = self._refused(call, error)
        if response is None:
            return
        if self._is_paused:
            self._held.append((respond, response))
        else:
            respond(response)

    def _refused(self, call: Call, error: Exception) -> Message | None:
        if not isinstance(error, BrokerError):
            _log.error("node %s: %s failed", self._owner.id, call.handler.api.name, exc_info=error)
            error = UnknownServerError()
        return call.handler.refuse(call.request, error)

    def _done(self, link: Peer, task: asyncio.Task[None]) -> None:
        parked = self._parked.get(link, {})
        pending = parked.pop(task, None)
        if pending is not None:
            pending.close()  # not even begun, where the task was cancelled before its first step
        if not parked:
            self._parked.pop(link, None)
