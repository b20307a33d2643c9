"""The way of a record through interceptors and serializers, for clients that have some; others never come here.

It runs in the thread that produces. A serializer's error is the caller's; an interceptor's is logged, and the record
goes on as it was before that interceptor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from ottla.client.produce.topics import Appender
from ottla.hooks import Hooks, ProducerInterceptor, ProducerRecord, overrides, raise_outside
from ottla.serde.calls import Serialize
from ottla.wire.records import BufferFull, BufferRetired, Delivery

_logger = logging.getLogger("ottla.client.produce.producer")


class RefusingAppenders(dict[str, Appender]):
    """Instead of the appenders of topics: for every topic one that raises."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def __missing__(self, topic: str) -> Appender:
        return self

    def append(self, *_: Any) -> NoReturn:
        raise self._error


class CheckedAppenders(dict[str, Appender]):
    """The appenders of topics, for a producer that may not always append: `check()` raises then.

    One that is known in here is taken without a check. `clear` is called whenever `check` has begun to raise; a
    record that a thread is about to append in that moment is taken, as it would be had the thread been faster.
    """

    def __init__(self, check: Callable[[], None], appenders: Mapping[str, Appender]) -> None:
        super().__init__()
        self._check = check
        self._appenders = appenders

    def __missing__(self, topic: str) -> Appender:
        self._check()
        appender = self[topic] = self._appenders[topic]
        try:
            # `clear` may have come before it was in here.
            self._check()
        except BaseException:
            self.pop(topic, None)
            raise
        return appender


class NoRoom(BufferFull):
    """There is no room for a record. `again` tries once more, with what interceptors and serializers have made."""

    def __init__(self, full: BufferFull, again: Callable[[], Delivery]) -> None:
        super().__init__(str(full), full.limit)
        self.again = again


class RecordPath:
    """Interceptors in their order, then serializers, then the append of the record's topic."""

    def __init__(
        self,
        key_serializer: Serialize | None,
        value_serializer: Serialize | None,
        interceptors: Sequence[ProducerInterceptor],
        hooks: Hooks,
        find: Callable[[str], Appender],
        notify: Callable[[], None],
    ) -> None:
        """`find(topic)` gives the appender of a topic; `notify` is called behind a record."""
        self._key = key_serializer
        self._value = value_serializer
        self._senders = [each for each in interceptors if overrides(each, ProducerInterceptor, "on_send")]
        self._tables = [
            each for each in interceptors if overrides(each, ProducerInterceptor, "on_send_batch")
        ]
        self._receivers = [
            each for each in interceptors if overrides(each, ProducerInterceptor, "on_acknowledgement")
        ]
        self._on_record_buffered = hooks.on_record_buffered
        self._find = find
        self._notify = notify

    @property
    def is_needed(self) -> bool:
        """Whether there is anything between the caller and the buffer."""
        return bool(self._key or self._value or self._senders or self._receivers or self._on_record_buffered)

    @property
    def needs_rows(self) -> str | None:
        """Why a table has to go row by row, if it does: an interceptor takes records and not whole tables."""
        if any(each not in self._tables for each in self._senders):
            return "an interceptor has on_send and no on_send_batch"
        return "an interceptor has on_acknowledgement" if self._receivers else None

    def produce(
        self,
        topic: str,
        key: Any,
        value: Any,
        headers: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        if self._senders:
            record = ProducerRecord(topic, value, key, as_pairs(headers), partition, timestamp)
            record = self._sent(record)
            topic, value, key, headers = record.topic, record.value, record.key, record.headers
            partition, timestamp = record.partition, record.timestamp
        if self._key is not None or self._value is not None:
            headers = as_pairs(headers)
            if self._key is not None:
                key = self._key(key, topic, headers)
            if self._value is not None:
                value = self._value(value, topic, headers)
        return self.append(topic, key, value, headers, partition, timestamp)

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Any,
        partition: int | None,
        timestamp: int | None,
    ) -> Delivery:
        """A record that is serialized already."""
        try:
            delivery = self._append(topic, key, value, headers or None, partition, timestamp)
        except BufferFull as full:
            again = partial(self.append, topic, key, value, headers, partition, timestamp)
            raise NoRoom(full, again) from None
        self._notify()
        if self._on_record_buffered is not None:
            self._on_record_buffered(delivery)
        if self._receivers:
            delivery.add_done_callback(self._acknowledged)
        return delivery

    def _append(self, topic: str, *record: Any) -> Delivery:
        while True:
            try:
                return self._find(topic).append(*record)
            except BufferRetired:
                # The loop has forgotten the topic since: again, until it is done with that.
                continue

    def produce_row(self, topic: str, row: ProducerRecord) -> Delivery:
        """A row of a table: its columns are bytes, so serializers have nothing to do."""
        record = self._sent(row) if self._senders else row
        return self.append(
            record.topic, record.key, record.value, record.headers, record.partition, record.timestamp
        )

    def table(self, topic: str, table: Any) -> Any:
        """A table as the interceptors of tables leave it."""
        for interceptor in self._tables:
            try:
                table = interceptor.on_send_batch(topic, table)
            except Exception:
                _logger.exception("the interceptor %r failed on a table for %s", interceptor, topic)
        return table

    def _sent(self, record: ProducerRecord) -> ProducerRecord:
        for interceptor in self._senders:
            try:
                record = interceptor.on_send(record)
            except Exception:
                _logger.exception("the interceptor %r failed on a record for %s", interceptor, record.topic)
        return record

    def _acknowledged(self, delivery: Delivery) -> None:
        for interceptor in self._receivers:
            try:
                interceptor.on_acknowledgement(delivery)
            except (SystemExit, KeyboardInterrupt) as error:
                raise_outside(error)
            except BaseException:
                _logger.exception("the interceptor %r failed on an acknowledgement", interceptor)


def as_pairs(headers: Any) -> list[tuple[str, Any]]:
    """A list of one's own, which interceptors and serializers may add to."""
    if headers is None:
        return []
    return list(headers.items()) if hasattr(headers, "items") else list(headers)
