"""One request on its way through a server: its header and body, where it came in, and who sends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.broker.security.principal import ANONYMOUS, KafkaPrincipal

if TYPE_CHECKING:
    from ottla.broker.replication.partition import PartitionKey
    from ottla.broker.server.registry import Handler
    from ottla.errors import BrokerError
    from ottla.net.connection import Connection
    from ottla.wire import Message
    from ottla.wire.messages import RequestHeader


class Peer(Protocol):
    """Where a request came in: the connection of a client, or the link of another node."""

    @property
    def peer(self) -> str: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Call:
    """What a handler needs beside the body of its request."""

    __slots__ = ("connection", "handler", "header", "listener", "principal", "refused", "request", "version")

    def __init__(
        self,
        connection: Peer,
        header: RequestHeader,
        handler: Handler,
        request: Message,
        *,
        listener: str,
        principal: KafkaPrincipal = ANONYMOUS,
    ) -> None:
        self.connection = connection
        self.header = header
        self.version = header.request_api_version
        self.handler = handler
        self.request = request
        self.listener = listener
        """The listener of the server on which the request came in, by Kafka's name for it."""
        self.principal = principal
        """The sender: of a forwarded request the client, not the broker that forwards it."""
        self.refused: dict[PartitionKey, BrokerError] | None = None
        """The error that a fault has for a partition."""

    @property
    def client_id(self) -> str | None:
        return self.header.client_id

    @property
    def peer(self) -> str:
        return self.connection.peer

    def check(self, topic: str, partition: int) -> None:
        """Raises the error that a fault has for this partition; handlers call it before they touch the partition."""
        if self.refused is not None and (topic, partition) in self.refused:
            raise self.refused[topic, partition]

    def enclosed(
        self, header: RequestHeader, handler: Handler, request: Message, principal: KafkaPrincipal
    ) -> Call:
        """The call of the request that an envelope encloses: on the same connection, for another principal."""
        return Call(self.connection, header, handler, request, listener=self.listener, principal=principal)


class ClientCall(Call):
    """A call that came in on a connection."""

    connection: Connection
