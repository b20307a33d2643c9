"""FetchSessionHandler: what goes into requests, as the broker's side of KIP-227 expects it."""

from __future__ import annotations

from ottla.client.consume.fetch_session import FetchPosition, FetchSessionHandler
from ottla.wire import Uuid

ID = Uuid(b"0123456789abcdef")


def position(partition: int, offset: int = 0) -> FetchPosition:
    return FetchPosition("orders", ID, partition, offset, 1, -1, 1024)


def begun() -> FetchSessionHandler:
    session = FetchSessionHandler()
    session.plan([position(0), position(1)], uses_ids=True)
    session.succeeded(7)
    return session


def test_the_first_request_is_full_and_asks_for_a_session() -> None:
    plan = FetchSessionHandler().plan([position(0), position(1)], uses_ids=True)
    assert (plan.session_id, plan.epoch) == (0, 0)
    assert plan.changed == [position(0), position(1)]
    assert plan.forgotten == []


def test_later_requests_say_what_changed_and_what_is_forgotten() -> None:
    session = begun()
    plan = session.plan([position(1, 5), position(2)], uses_ids=True)
    assert (plan.session_id, plan.epoch) == (7, 1)
    assert plan.changed == [position(1, 5), position(2)]
    assert plan.forgotten == [("orders", ID, 0)]
    session.succeeded(7)
    plan = session.plan([position(1, 5), position(2)], uses_ids=True)
    assert plan == (7, 2, [], [])


def test_without_a_session_every_request_is_full() -> None:
    session = FetchSessionHandler()
    session.plan([position(0)], uses_ids=True)
    session.succeeded(0)
    assert session.plan([position(0)], uses_ids=True) == (0, 0, [position(0)], [])


def test_a_reset_takes_the_place_of_the_session() -> None:
    session = begun()
    session.reset()
    assert session.plan([position(0)], uses_ids=True) == (7, 0, [position(0)], [])


def test_a_session_that_the_broker_does_not_know_is_not_named_again() -> None:
    session = begun()
    session.failed(70)
    assert session.plan([position(0)], uses_ids=True) == (0, 0, [position(0)], [])
    session = begun()
    session.failed(71)
    assert session.plan([position(0)], uses_ids=True) == (7, 0, [position(0)], [])


def test_names_and_ids_are_not_mixed_in_a_session() -> None:
    session = begun()
    assert session.plan([position(0)], uses_ids=False) == (7, 0, [position(0)], [])


def test_ends_once_with_the_final_epoch() -> None:
    session = begun()
    assert session.end() == (7, -1, [], [])
    assert session.end() is None


def test_the_epoch_wraps_around_to_one() -> None:
    session = begun()
    session._epoch = 0x7FFFFFFF
    session.succeeded(7)
    assert session.plan([], uses_ids=True).epoch == 1
