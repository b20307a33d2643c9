"""A broker that a test plays itself: it says what it speaks, and then whatever the test has it say."""

from __future__ import annotations

import struct
from collections.abc import Callable

from ottla.net.connection import Connection
from ottla.runtime import Listener
from ottla.wire import Message, api_for_key, api_keys, decode_request, encode_response
from ottla.wire.messages import ApiVersionsRequest, ApiVersionsResponse, RequestHeader
from tests.client.worlds import World
from tests.net.peers import Recorder

UNSUPPORTED_VERSION = 35


def all_versions() -> list[ApiVersionsResponse.ApiVersion]:
    return [
        ApiVersionsResponse.ApiVersion(
            api_key=key, min_version=api_for_key(key).versions.low, max_version=api_for_key(key).versions.high
        )
        for key in api_keys()
    ]


class PlayedBroker(Recorder):
    """Answers ApiVersions by itself, keeps every other request for the test.

    `greet` replaces the answer to ApiVersions: it gets the request's header, and returns what to send.
    """

    listener: Listener

    def __init__(self, greet: Callable[[RequestHeader], list[bytes]] | None = None) -> None:
        super().__init__(on_frame=self._take)
        self.greetings: list[tuple[RequestHeader, ApiVersionsRequest]] = []
        self.requests: list[tuple[RequestHeader, Message]] = []
        self._asked_on: list[Connection] = []
        self._greet = greet or (lambda header: answer(header, ApiVersionsResponse(api_keys=all_versions())))

    @property
    def bootstrap(self) -> str:
        return f"{self.listener.host}:{self.listener.port}"

    async def listen(self, world: World) -> PlayedBroker:
        self.listener = await world.runtime.at("peer").listen("127.0.0.1", 0, lambda: Connection(self))
        return self

    async def close(self) -> None:
        """Stops listening and hangs up; returns when every connection is gone."""
        await self.listener.close()
        for connection in self.connections:
            connection.close()
        await self.until(lambda: len(self.losses) == len(self.connections))

    def _take(self, connection: Connection, frame: memoryview) -> None:
        header, request = decode_request(bytes(frame))
        if isinstance(request, ApiVersionsRequest):
            self.greetings.append((header, request))
            connection.send(self._greet(header))
        else:
            self.requests.append((header, request))
            self._asked_on.append(connection)

    async def until_requests(self, count: int) -> None:
        await self.until(lambda: len(self.requests) >= count)

    def reply(self, number: int, response: Message) -> None:
        """Answers request `number`, counted from 0."""
        self.send(number, answer(self.requests[number][0], response))

    def send(self, number: int, data: list[bytes]) -> None:
        """Sends any bytes where request `number` came from."""
        self._asked_on[number].send(data)

    def hang_up(self, number: int) -> None:
        self._asked_on[number].close()


def answer(header: RequestHeader, response: Message, version: int | None = None) -> list[bytes]:
    written = header.request_api_version if version is None else version
    return [bytes(part) for part in encode_response(response, written, header.correlation_id)]


def half_of(data: list[bytes]) -> list[bytes]:
    whole = b"".join(data)
    return [whole[: len(whole) // 2]]


def stray_answer() -> list[bytes]:
    """A frame for a correlation id that nobody has used."""
    return [struct.pack(">ii", 4, 0x7FFFFFF)]
