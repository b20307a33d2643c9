"""A connection whose answers have the type that the test asked for."""

from __future__ import annotations

from typing import TypeVar

from ottla.wire import Message
from tests.interop.plain import Connection

M = TypeVar("M", bound=Message)


class Link(Connection):
    """One connection to a coordinator. A request that parks occupies it: each member has one of its own."""

    def get(self, request: Message, version: int, kind: type[M]) -> M:
        self.send(request, version)
        return self.receive_as(kind)

    def receive_as(self, kind: type[M]) -> M:
        answer = self.receive()
        assert isinstance(answer, kind), answer
        return answer
