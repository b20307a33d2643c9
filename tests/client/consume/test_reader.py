"""The reader's side: whatever is paused, polled, sought or iterated in between, records come once and in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from ottla.client.consume.deserialized import Intercepted
from ottla.client.consume.fetch_queue import Failure, FetchQueue, Wake
from ottla.client.consume.partition_records import PartitionRecords
from ottla.client.consume.reader import Reader
from ottla.client.topic_partition import TopicPartition
from ottla.errors import DataLossError
from ottla.hooks import ConsumerInterceptor, Hook, Hooks
from ottla.wire.batches import PlainRecord, encode_batch

ORDERS = TopicPartition("orders", 0)
AUDIT = TopicPartition("audit", 0)


class Reading:
    """A reader, what it is given, and a loop over it that can be left and entered again."""

    def __init__(self, *, wake: Wake | None = None, hooks: Iterable[object] = (), **options: Any) -> None:
        self.queue = FetchQueue(wake)
        self.refetched: list[tuple[TopicPartition, int]] = []
        self.reader = Reader(self.queue, Hooks(hooks), lambda: 0.0, self._refetch, **options)

    def _refetch(self, tp: TopicPartition, offset: int) -> None:
        self.refetched.append((tp, offset))
        self.reader.seek(tp, offset)

    def put(self, tp: TopicPartition, first: int, count: int, *, end: int | None = None) -> None:
        records: list[PlainRecord] = [
            (offset, 1_700_000_000_000, None, b"%d" % offset, []) for offset in range(first, first + count)
        ]
        part = PartitionRecords(
            tp,
            encode_batch(records, base_offset=first),
            offset=first,
            next_offset=first + count,
            epoch_before=-1,
            generation=0,
            position=first,
            end=first + count if end is None else end,
            on_taken=lambda: None,
        )
        self.queue.put(part)

    def lose(self, tp: TopicPartition, new: int) -> None:
        error = DataLossError("lost", topic=tp.topic, partition=tp.partition, wanted_offset=0, new_offset=new)
        self.queue.put(Failure(error, tp, position=new))

    def iterate(self, meddle: Callable[[Any], None] | None = None, most: int = 1000) -> list[tuple[str, int]]:
        """As both twins do it."""
        reader, seen = self.reader, []
        while (records := reader.records()) is not None:
            for record in records:
                reader.last = record
                seen.append((record.topic, record.offset))
                if meddle is not None:
                    meddle(record)
                if len(seen) == most:
                    return seen
                if reader.iterator is not records:
                    break
            else:
                reader.exhausted(records)
        return seen

    def poll(self, most: int) -> list[tuple[str, int]]:
        taken: list[Any] = []
        while len(taken) < most and (records := self.reader.records()) is not None:
            taken += self.reader.take(records, most - len(taken))
        return [(record.topic, record.offset) for record in taken]


def orders(*offsets: int) -> list[tuple[str, int]]:
    return [("orders", offset) for offset in offsets]


def test_records_and_arrow_columns_end_at_the_stop() -> None:
    reading = Reading()
    reading.put(ORDERS, 0, 3, end=2)
    assert reading.iterate() == orders(0, 1)
    reading.put(AUDIT, 0, 3, end=2)
    batch = reading.reader.batch()
    assert batch is not None
    assert batch.column("value").to_pylist() == [b"0", b"1"]


def test_columns_of_a_part_that_was_read_in_part_begin_behind_that() -> None:
    reading = Reading()
    reading.put(ORDERS, 0, 3, end=2)
    assert reading.iterate(most=1) == orders(0)
    batch = reading.reader.batch()
    assert batch is not None
    assert batch.column("value").to_pylist() == [b"1"]


def test_what_follows_a_paused_part_does_not_move_its_position() -> None:
    reading = Reading()
    reading.put(ORDERS, 0, 10)
    assert reading.iterate(most=3) == orders(0, 1, 2)
    reading.reader.pause(ORDERS)
    reading.put(ORDERS, 10, 10)
    assert reading.iterate() == []
    assert reading.reader.position(ORDERS) == 3
    reading.reader.resume(ORDERS)
    assert reading.iterate() == orders(*range(3, 20))


def test_parts_keep_their_order_however_often_they_are_paused() -> None:
    reading = Reading()
    reading.put(ORDERS, 0, 10)
    reading.iterate(most=3)
    reading.reader.pause(ORDERS)
    reading.put(ORDERS, 10, 10)
    assert reading.iterate() == []
    reading.reader.resume(ORDERS)
    assert reading.iterate(most=1) == orders(3)
    reading.reader.pause(ORDERS)
    reading.reader.resume(ORDERS)
    assert reading.iterate() == orders(*range(4, 20))


def test_a_loss_is_told_behind_what_was_paused_before_it() -> None:
    reading = Reading()
    reading.put(ORDERS, 0, 10)
    reading.iterate(most=3)
    reading.reader.pause(ORDERS)
    reading.lose(ORDERS, 8)
    reading.put(AUDIT, 0, 1)
    assert reading.iterate() == [("audit", 0)]
    reading.reader.resume(ORDERS)
    assert reading.poll(7) == orders(*range(3, 10))
    with pytest.raises(DataLossError):
        reading.iterate()
    assert reading.reader.position(ORDERS) == 8


def test_polling_inside_a_loop_takes_nothing_from_it() -> None:
    reading = Reading()
    reading.put(ORDERS, 0, 10)
    reading.put(AUDIT, 0, 10)
    polled: list[tuple[str, int]] = []

    def poll(record: Any) -> None:
        if record.offset == 4 and record.topic == "orders":
            polled.extend(reading.poll(8))

    seen = reading.iterate(poll)
    assert polled == [*orders(*range(5, 10)), *[("audit", offset) for offset in range(3)]]
    assert seen == [*orders(*range(5)), *[("audit", offset) for offset in range(3, 10)]]


@pytest.mark.parametrize("how", ["pause", "seek"])
def test_a_loop_ends_its_part_when_that_is_moved_even_if_somebody_polls_before_it_looks(how: str) -> None:
    reading = Reading()
    reading.put(ORDERS, 0, 10)
    reading.put(AUDIT, 0, 10)

    def meddle(record: Any) -> None:
        if (record.topic, record.offset) == ("orders", 4):
            reading.reader.pause(ORDERS) if how == "pause" else reading.reader.seek(ORDERS, 20)
            assert reading.poll(1) == [("audit", 0)]

    assert reading.iterate(meddle) == [*orders(*range(5)), *[("audit", offset) for offset in range(1, 10)]]
    reading.reader.resume(ORDERS)
    assert reading.iterate() == (orders(*range(5, 10)) if how == "pause" else [])


def test_an_error_that_is_none_of_ours_loses_no_record() -> None:
    """Ctrl-C in the middle of a deserializer, for one."""
    fails = [True]

    def deserialize(value: bytes | None, record: Any) -> bytes | None:
        if record.offset == 2 and fails:
            fails.clear()
            raise KeyboardInterrupt
        return value

    reading = Reading(value_deserializer=deserialize)
    reading.put(ORDERS, 0, 5)
    with pytest.raises(KeyboardInterrupt):
        reading.poll(5)
    assert reading.poll(5) == orders(*range(5))


def test_an_interceptor_that_is_interrupted_gets_the_same_records_again() -> None:
    fails = [True]

    class Interrupted(ConsumerInterceptor):
        def on_consume(self, records: Any) -> Any:
            if fails:
                fails.clear()
                raise KeyboardInterrupt
            return records

    found = Intercepted(iter([1, 2, 3]), [Interrupted()])
    with pytest.raises(KeyboardInterrupt):
        next(found)
    assert list(found) == [1, 2, 3]


def test_positions_before_and_behind_empty_parts() -> None:
    reading = Reading()
    assert reading.reader.position(ORDERS) is None
    reading.put(ORDERS, 5, 1)
    reading.reader.seek(ORDERS, 6)
    assert reading.iterate() == []
    assert reading.reader.position(ORDERS) == 6


def test_ctrl_c_while_the_loop_is_told_loses_nothing() -> None:
    told: list[str] = []

    def wake(function: Callable[[], None]) -> None:
        told.append("told")
        function()
        if len(told) == 1:
            raise KeyboardInterrupt

    reading = Reading(wake=wake)
    reading.put(ORDERS, 0, 2)
    reading.put(ORDERS, 2, 2)
    with pytest.raises(KeyboardInterrupt):
        reading.iterate()
    assert reading.iterate() == [("orders", offset) for offset in range(4)]
    # Once for each response.
    assert told == ["told", "told"]


def test_a_hook_that_ends_the_program_in_the_reader_loses_nothing() -> None:
    class Ends(Hook):
        def on_fetch_taken(self, fetched: object) -> None:
            taken.append(fetched)
            if len(taken) == 1:
                raise SystemExit(3)

    taken: list[object] = []
    reading = Reading(hooks=[Ends()])
    reading.put(ORDERS, 0, 2)
    with pytest.raises(SystemExit):
        reading.iterate()
    assert reading.iterate() == [("orders", 0), ("orders", 1)]
