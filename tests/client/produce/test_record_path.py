"""Between `produce` and the buffer: interceptors, serializers, and what is tried again when there is no room."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.produce.record_path import CheckedAppenders, NoRoom, RecordPath, as_pairs
from ottla.hooks import Acknowledgement, Hook, Hooks, ProducerInterceptor, ProducerRecord
from ottla.wire.records import Accumulator, BufferFull, Delivery


class Topic:
    """Where a path ends: an accumulator, and what was asked of it."""

    def __init__(self, max_records: int = 0) -> None:
        self.accumulator = Accumulator(batch_size=1000, max_bytes=1 << 20, max_records=max_records)
        self.appended: list[tuple[Any, ...]] = []
        self.told = 0

    def find(self, topic: str) -> Any:
        def append(key: Any, value: Any, headers: Any, partition: Any, timestamp: Any) -> Delivery:
            delivery = self.accumulator.append(topic, partition or 0, key, value, headers, timestamp)
            self.appended.append((topic, key, value, headers, partition, timestamp))
            return delivery

        return SimpleNamespace(append=append)

    def notify(self) -> None:
        self.told += 1

    def path(
        self, *interceptors: ProducerInterceptor, key: Any = None, value: Any = None, hooks: Any = ()
    ) -> RecordPath:
        return RecordPath(key, value, interceptors, Hooks(hooks), self.find, self.notify)


class Counting(ProducerInterceptor):
    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged: list[Acknowledgement] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.sent += 1
        record.headers.append(("seen", b"1"))
        return record

    def on_acknowledgement(self, delivery: Acknowledgement) -> None:
        self.acknowledged.append(delivery)


class Moving(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return ProducerRecord("elsewhere", record.value, b"other", [], 1, 5)


class Broken(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise ValueError("broken")

    def on_acknowledgement(self, delivery: Acknowledgement) -> None:
        raise ValueError("broken")


class Whole(ProducerInterceptor):
    def on_send_batch(self, topic: str, table: Any) -> Any:
        return [*table, topic]


def serialized(value: Any, topic: str, headers: list[tuple[str, Any]]) -> bytes:
    headers.append(("of", topic.encode()))
    return b"<%s>" % str(value).encode()


def test_it_is_needed_only_if_somebody_takes_part() -> None:
    class Buffered(Hook):
        def on_record_buffered(self, delivery: Acknowledgement) -> None: ...

    topic = Topic()
    assert not topic.path().is_needed
    assert not topic.path(Whole()).is_needed
    assert topic.path(Counting()).is_needed
    assert topic.path(key=serialized).is_needed
    assert topic.path(hooks=[Buffered()]).is_needed


def test_interceptors_go_first_and_may_send_a_record_elsewhere() -> None:
    topic, counting = Topic(), Counting()
    path = topic.path(Moving(), counting, key=serialized, value=serialized)
    path.produce("orders", "k", "v")
    (appended,) = topic.appended
    where = b"elsewhere"
    assert appended == (
        "elsewhere",
        b"<b'other'>",
        b"<v>",
        [("seen", b"1"), ("of", where), ("of", where)],
        1,
        5,
    )
    assert topic.told == 1


def test_the_headers_of_the_caller_are_not_changed() -> None:
    topic = Topic()
    given = [("mine", b"1")]
    topic.path(Counting()).produce("orders", None, b"v", given)
    assert given == [("mine", b"1")]
    assert topic.appended[0][3] == [("mine", b"1"), ("seen", b"1")]
    assert as_pairs({"mine": b"1"}) == given
    assert as_pairs(None) == []


def test_an_interceptor_that_fails_is_logged_and_the_record_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    topic, counting = Topic(), Counting()
    delivery = topic.path(Broken(), counting).produce("orders", None, b"v")
    with caplog.at_level(logging.ERROR):
        topic.accumulator.drain("orders", 0, force=True)[0].complete(3)
    assert (counting.sent, delivery.offset) == (1, 3)
    assert [each.offset for each in counting.acknowledged] == [3]
    assert "failed on an acknowledgement" in caplog.text


def test_what_there_is_no_room_for_is_tried_again_as_it_left_interceptors_and_serializers() -> None:
    topic, counting = Topic(max_records=1), Counting()
    path = topic.path(counting, value=serialized)
    path.produce("orders", None, "first")
    with pytest.raises(NoRoom) as full:
        path.produce("orders", None, "second", None, 0, 7)
    assert full.value.limit == "records"
    with pytest.raises(NoRoom) as still:
        full.value.again()
    topic.accumulator.drain("orders", 0, force=True)[0].complete(0)
    delivery = still.value.again()
    assert counting.sent == 2
    assert topic.appended[-1][2:] == (b"<second>", [("seen", b"1"), ("of", b"orders")], 0, 7)
    assert not delivery.done()
    assert isinstance(full.value, BufferFull)


def test_a_serializer_that_fails_is_the_callers_and_nothing_is_kept() -> None:
    def refuse(value: Any, topic: str, headers: Any) -> bytes:
        raise TypeError("not this")

    topic = Topic()
    with pytest.raises(TypeError, match="not this"):
        topic.path(value=refuse).produce("orders", None, b"v")
    assert topic.accumulator.used_records == 0


def test_a_table_goes_by_rows_only_for_interceptors_of_records(caplog: pytest.LogCaptureFixture) -> None:
    class Acknowledged(ProducerInterceptor):
        def on_acknowledgement(self, delivery: Any) -> None:
            """Wants to hear of each record."""

    topic = Topic()
    assert topic.path(Whole()).needs_rows is None
    assert topic.path(Whole(), Counting()).needs_rows == "an interceptor has on_send and no on_send_batch"
    assert topic.path(Whole(), Acknowledged()).needs_rows == "an interceptor has on_acknowledgement"
    assert topic.path(Whole(), Whole()).table("orders", []) == ["orders", "orders"]

    class BrokenTables(ProducerInterceptor):
        def on_send_batch(self, topic: str, table: Any) -> Any:
            raise ValueError("broken")

    assert topic.path(BrokenTables(), Whole()).table("orders", []) == ["orders"]
    assert "failed on a table for orders" in caplog.text


def test_rows_and_raw_records_pass_serializers_by() -> None:
    topic, counting = Topic(), Counting()
    path = topic.path(counting, value=serialized)
    path.produce_row("orders", ProducerRecord("orders", b"row"))
    path.append("orders", None, b"raw", None, None, None)
    assert [appended[2] for appended in topic.appended] == [b"row", b"raw"]
    assert counting.sent == 1


def test_checked_appenders_are_looked_up_once_until_they_are_closed() -> None:
    calls: list[str] = []

    def check() -> None:
        calls.append("check")
        if is_closed:
            raise ValueError("closed")

    is_closed = False
    known: dict[str, Any] = {"orders": object()}
    appenders = CheckedAppenders(check, known)
    assert appenders["orders"] is known["orders"]
    calls.clear()
    assert appenders["orders"] is known["orders"]
    assert calls == [], "it is open, and has not been closed since"
    with pytest.raises(KeyError):
        appenders["bills"]
    is_closed = True
    appenders.clear()
    for _ in range(2):
        with pytest.raises(ValueError, match="closed"):
            appenders["orders"]
    is_closed = False
    assert appenders["orders"] is known["orders"]


def test_an_appender_that_is_looked_up_while_it_is_closed_is_not_kept() -> None:
    checks = iter([False, True])

    def check() -> None:
        if next(checks, True):
            raise ValueError("closed")

    appenders = CheckedAppenders(check, {"orders": Topic().find("orders")})
    with pytest.raises(ValueError, match="closed"):
        appenders["orders"]
    assert not appenders
