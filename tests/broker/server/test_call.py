"""A call: what it says of its request, whom it is for, and which partitions a fault wants refused."""

from __future__ import annotations

import pytest

from ottla.broker.handlers import BROKER_APIS
from ottla.broker.security.principal import ANONYMOUS, KafkaPrincipal
from ottla.broker.server.call import Call
from ottla.errors import NotLeaderOrFollowerError
from ottla.net.connection import Connection
from ottla.wire.messages import CreateTopicsRequest, EnvelopeRequest, MetadataRequest, RequestHeader

HANDLERS = BROKER_APIS.limited({})


class Silent:
    """The receiver of a connection that is never made."""

    def connected(self, connection: Connection) -> None: ...
    def received(self, connection: Connection, frame: memoryview) -> None: ...
    def drained(self, connection: Connection) -> None: ...
    def lost(self, connection: Connection, error: Exception | None) -> None: ...


def call() -> Call:
    header = RequestHeader(request_api_key=3, request_api_version=12, correlation_id=7, client_id="me")
    connection = Connection(Silent())
    connection.peer = "127.0.0.1:40000"
    return Call(connection, header, HANDLERS[3], MetadataRequest(), listener="PLAINTEXT")


def test_a_call_has_the_header_of_its_request_and_the_peer_of_its_connection() -> None:
    one = call()
    assert (one.version, one.client_id, one.peer, one.listener) == (12, "me", "127.0.0.1:40000", "PLAINTEXT")


def test_without_authentication_a_client_is_anonymous() -> None:
    assert call().principal == ANONYMOUS
    assert str(call().principal) == "User:ANONYMOUS"


def test_partitions_that_a_fault_wants_refused_raise_its_error() -> None:
    one = call()
    one.check("orders", 0)
    one.refused = {("orders", 0): NotLeaderOrFollowerError()}
    with pytest.raises(NotLeaderOrFollowerError):
        one.check("orders", 0)
    one.check("orders", 1)


def test_what_an_envelope_encloses_is_for_its_principal_on_the_same_connection() -> None:
    alice = KafkaPrincipal("User", "alice")
    envelope = call()
    envelope.request = EnvelopeRequest()
    header = RequestHeader(request_api_key=19, request_api_version=7, correlation_id=1, client_id="client")
    enclosed = envelope.enclosed(header, HANDLERS[19], CreateTopicsRequest(), alice)
    assert (enclosed.principal, envelope.principal) == (alice, ANONYMOUS)
    assert (enclosed.version, enclosed.client_id) == (7, "client")
    assert enclosed.connection is envelope.connection
    assert enclosed.listener == envelope.listener
