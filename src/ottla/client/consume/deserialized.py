"""Records with keys and values that are no bytes any more, and what becomes of those that cannot be read.

Plain and synchronous: runs in the thread that reads, for the asynchronous consumer and the blocking one alike.

Invariant: a record that cannot be deserialized stays the next one until the program, or `on_error`, goes behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from ottla.errors import DeserializationError
from ottla.hooks import ConsumerInterceptor
from ottla.serde import Deserialize
from ottla.wire.records import Record

_logger = logging.getLogger("ottla.client.consume.consumer")


class ConsumedRecord:
    """A record whose key and value have been deserialized; everything else is as it was fetched."""

    __slots__ = ("_record", "key", "value")

    def __init__(self, record: Record, key: Any, value: Any) -> None:
        self._record = record
        self.key = key
        self.value = value

    @property
    def topic(self) -> str:
        return self._record.topic

    @property
    def partition(self) -> int:
        return self._record.partition

    @property
    def offset(self) -> int:
        return self._record.offset

    @property
    def timestamp(self) -> int:
        return self._record.timestamp

    @property
    def timestamp_type(self) -> int:
        return self._record.timestamp_type

    @property
    def leader_epoch(self) -> int:
        return self._record.leader_epoch

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        return self._record.headers

    @property
    def raw(self) -> Record:
        """The record with its bytes."""
        return self._record

    def __repr__(self) -> str:
        return (
            f"ConsumedRecord({self.topic}[{self.partition}] offset={self.offset} timestamp={self.timestamp} "
            f"key={self.key!r} value={self.value!r} headers={self.headers!r})"
        )


class Deserialized:
    """An iterator over `records` that survives what it raises: the same record comes again, until `skip`."""

    __slots__ = ("_failed", "_key", "_records", "_skips", "_value", "skipped")

    def __init__(
        self,
        records: Iterator[Record],
        key: Deserialize | None,
        value: Deserialize | None,
        skips: bool,
    ) -> None:
        self._records = records
        self._key = key
        self._value = value
        self._skips = skips
        self._failed: Record | None = None
        self.skipped = 0

    def __iter__(self) -> Iterator[ConsumedRecord]:
        return self

    def __next__(self) -> ConsumedRecord:
        while True:
            # Kept first: whatever interrupts a deserializer, the record stays the next one.
            record = self._failed = self._failed or next(self._records)
            try:
                key = record.key if self._key is None else self._key(record.key, record)
                value = record.value if self._value is None else self._value(record.value, record)
            except DeserializationError as error:
                if not self._skips:
                    raise
                _logger.warning("skipped: %s", error)
                self.skip()
                continue
            self._failed = None
            return ConsumedRecord(record, key, value)

    @property
    def failed_offset(self) -> int | None:
        """Of the record that is tried again next."""
        return None if self._failed is None else self._failed.offset

    def skip(self) -> None:
        """The record that failed is not tried again."""
        if self._failed is not None:
            self._failed = None
            self.skipped += 1


class Intercepted:
    """An iterator over what interceptors make of `records`: all there are, or all before one that fails."""

    __slots__ = ("_gathered", "_interceptors", "_ready", "_records")

    def __init__(self, records: Iterator[Any], interceptors: Sequence[ConsumerInterceptor]) -> None:
        self._records = records
        self._interceptors = interceptors
        self._gathered: list[Any] = []
        """What interceptors have yet to see through, whatever interrupts them."""
        self._ready: Iterator[Any] = iter(())

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while True:
            for record in self._ready:
                return record
            self._gather()
            self._ready, self._gathered = iter(self._intercept(list(self._gathered))), []

    def _gather(self) -> None:
        gathered = self._gathered
        try:
            # Not list(): what came before an error must not be lost.
            gathered.extend(self._records)
        except DeserializationError:
            if not gathered:
                raise
        if not gathered:
            raise StopIteration

    def _intercept(self, records: list[Any]) -> list[Any]:
        for interceptor in self._interceptors:
            try:
                records = list(interceptor.on_consume(records))
            except Exception:
                _logger.exception("on_consume of %r failed; the records go on as they were", interceptor)
        return records
