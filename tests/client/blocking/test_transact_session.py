"""The session of the client that blocks: it polls and rewinds in the thread that calls."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker import Cluster
from ottla.client.blocking.client import Client
from ottla.client.blocking.transact_session import TransactSession
from ottla.errors import TransactionStateError
from tests.client.group.grouping import PROTOCOLS, QUICK

COUNT = 10


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, config={**QUICK, "transaction.state.log.num.partitions": "1"}) as cluster:
        yield cluster


@pytest.fixture(params=PROTOCOLS)
def client(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Client]:
    """The topics, the group and the transactional id of a test go by one name."""
    name = uuid.uuid4().hex[:12]
    for topic in ("orders", "bills"):
        cluster.create_topic(f"{topic}-{name}", partitions=1)
    cluster.seed(f"orders-{name}", [b"%d" % number for number in range(COUNT)])
    options: dict[str, Any] = {**PROTOCOLS[request.param], "session_timeout_ms": 30_000}
    with Client(cluster.bootstrap, transactional_id=name, linger_ms=0, **options) as client:
        yield client


def polled(session: TransactSession, name: str) -> list[bytes | None]:
    """Everything, produced again in a transaction that is open."""
    records: list[Any] = []
    while len(records) < COUNT:
        records += session.poll(timeout=60)
    session.begin()
    for record in records:
        session.produce(f"bills-{name}", record.value)
    return [record.value for record in records]


def test_records_come_again_after_an_abort_and_are_committed_once(cluster: Cluster, client: Client) -> None:
    name = client.config.transactional_id
    with client.transact_session(f"orders-{name}", group=name) as session:
        with pytest.raises(TransactionStateError):
            session.end()
        first = polled(session, name)
        assert session.end(commit=False) is False
        assert polled(session, name) == first == [b"%d" % number for number in range(COUNT)]
        assert session.end() is True
        assert session.poll(timeout=0) == []
    with Client(cluster.bootstrap, isolation_level="read_committed") as reader:
        bills = [record.value for record in reader.consume(f"bills-{name}", start="earliest", stop="latest")]
        assert bills == first
        (offset,) = reader.admin.group_offsets(name, require_stable=True).values()
        assert offset is not None
        assert offset.offset == COUNT


def test_a_session_that_is_left_aborts_what_is_open(cluster: Cluster, client: Client) -> None:
    name = client.config.transactional_id

    def fail() -> None:
        with client.transact_session(f"orders-{name}", group=name) as session:
            polled(session, name)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with client.transact_session(f"orders-{name}", group=name) as session:
        assert len(polled(session, name)) == COUNT
        assert session.end() is True
    with Client(cluster.bootstrap, isolation_level="read_committed") as reader:
        assert len(list(reader.consume(f"bills-{name}", start="earliest", stop="latest"))) == COUNT
