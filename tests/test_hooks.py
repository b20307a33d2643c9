"""Hooks: which are notified of what, and that a hook cannot harm the client."""

from __future__ import annotations

import inspect
import logging
from typing import Any

import pytest

from ottla.hooks import (
    HOOK_NAMES,
    ConsumerInterceptor,
    FetchedPartition,
    Hook,
    Hooks,
    ProducedBatch,
    ProducerInterceptor,
    ProducerRecord,
    overrides,
)

BATCH = ProducedBatch(1, "orders", 0, 2, 100, 50, opened_at=1.0)


class Notified(Hook):
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def on_broker_write(self, node_id: int, api_key: int, size: int, error: BaseException | None) -> None:
        self.calls.append((node_id, api_key, size, error))

    def on_client_closed(self) -> None:
        self.calls.append(())


def test_an_event_without_a_hook_is_none() -> None:
    none = Hooks()
    assert [getattr(none, name) for name in HOOK_NAMES] == [None] * len(HOOK_NAMES)
    hooks = Hooks([Notified()])
    assert [name for name in HOOK_NAMES if getattr(hooks, name) is not None] == [
        "on_broker_write",
        "on_client_closed",
    ]


def test_all_are_notified_in_the_order_in_which_they_were_given() -> None:
    order: list[str] = []

    class First:
        def on_client_closed(self) -> None:
            order.append("first")

    class Second(Hook):
        def on_client_closed(self) -> None:
            order.append("second")

    notify = Hooks([First(), Notified(), Second()]).on_client_closed
    assert notify is not None
    notify()
    assert order == ["first", "second"]


def test_a_hook_that_raises_is_logged_and_the_others_are_notified(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Hook):
        def on_broker_write(self, node_id: int, api_key: int, size: int, error: BaseException | None) -> None:
            raise ZeroDivisionError

    notified = Notified()
    notify = Hooks([Broken(), notified]).on_broker_write
    assert notify is not None
    with caplog.at_level(logging.ERROR, "ottla"):
        notify(1, 0, 100, None)
    assert notified.calls == [(1, 0, 100, None)]
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert "on_broker_write" in caplog.text


def test_the_clients_own_hook_is_called_as_it_is_where_it_is_alone_and_first_where_it_is_not() -> None:
    order: list[str] = []

    class Own(Hook):
        def on_client_closed(self) -> None:
            order.append("own")

    class Other(Hook):
        def on_client_closed(self) -> None:
            order.append("other")

    own = Own()
    alone = Hooks(own=own)
    assert alone.on_client_closed == own.on_client_closed
    assert alone.on_broker_read is None
    notify = Hooks([Other()], own=own).on_client_closed
    assert notify is not None
    notify()
    assert order == ["own", "other"]


def test_a_users_hook_that_raises_is_isolated_from_the_clients_own(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Hook):
        def on_client_closed(self) -> None:
            raise ZeroDivisionError

    own = Notified()
    notify = Hooks([Broken()], own=own).on_client_closed
    assert notify is not None
    with caplog.at_level(logging.ERROR, "ottla"):
        notify()
    assert own.calls == [()]
    assert "on_client_closed" in caplog.text


def test_every_hook_has_a_slot_and_takes_the_arguments_that_the_slot_is_called_with() -> None:
    annotations = Hooks.__annotations__
    assert tuple(annotations) == HOOK_NAMES
    for name in HOOK_NAMES:
        parameters = [
            each for each in inspect.signature(getattr(Hook, name)).parameters.values() if each.name != "self"
        ]
        declared = annotations[name].split("[[", 1)[1].split("]", 1)[0]
        assert len(parameters) == len([each for each in declared.split(", ") if each]), name


def test_a_class_instead_of_an_object_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Notified\(\) instead of Notified"):
        Hooks([Notified])


def test_an_object_without_any_hook_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no hook"):
        Hooks([object()])


def test_a_hook_with_a_misspelled_name_is_refused_with_the_right_one() -> None:
    class Misspelled(Hook):
        def on_broker_writes(self) -> None: ...

    with pytest.raises(TypeError, match="did you mean on_broker_write"):
        Hooks([Misspelled()])


def test_a_coroutine_function_is_refused_because_it_would_not_be_awaited() -> None:
    class Awaited:
        async def on_client_closed(self) -> None: ...

    with pytest.raises(TypeError, match="hooks are called, not awaited"):
        Hooks([Awaited()])


def test_one_object_can_be_a_hook_and_an_interceptor() -> None:
    class Both(Notified, ProducerInterceptor, ConsumerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return record

    both = Both()
    assert Hooks([both]).on_client_closed is not None
    assert overrides(both, ProducerInterceptor, "on_send")
    assert not overrides(both, ProducerInterceptor, "on_send_batch")


def test_an_interceptor_that_overrides_nothing_changes_nothing() -> None:
    record = ProducerRecord("orders", b"1", headers=[("trace", b"x")])
    table, records = object(), [object()]
    assert ProducerInterceptor().on_send(record) is record
    assert ProducerInterceptor().on_send_batch("orders", table) is table
    assert ConsumerInterceptor().on_consume(records) is records


def test_what_hooks_are_handed_cannot_be_changed() -> None:
    fetched = FetchedPartition(1, "orders", 0, 3, 300, 10, read_at=1.0)
    for handed, name in ((BATCH, "records"), (fetched, "bytes")):
        with pytest.raises(AttributeError):
            setattr(handed, name, 5)
