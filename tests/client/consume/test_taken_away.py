"""Partitions that a group takes away from the reader, and how far the program was: at any moment, from any thread."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client.consume.reader import Reader
from ottla.client.topic_partition import TopicPartition
from tests.client.consume.test_reader import AUDIT, ORDERS, Reading, orders


def done_offset(reader: Reader, tp: TopicPartition) -> int | None:
    done = reader.done_with(tp)
    return None if done is None else done.offset


def audit(*offsets: int) -> list[tuple[str, int]]:
    return [("audit", offset) for offset in offsets]


@pytest.fixture
def reading() -> Reading:
    reading = Reading()
    reading.reader.keeps_work = True
    reading.put(ORDERS, 0, 4)
    reading.put(AUDIT, 0, 4)
    return reading


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_iterating_the_program_is_done_with_a_record_when_it_asks_for_the_next(reading: Reading) -> None:
    done: list[int | None] = []
    reading.iterate(lambda record: done.append(done_offset(reading.reader, ORDERS)), most=6)
    assert done == [0, 1, 2, 3, 4, 4]
    assert done_offset(reading.reader, AUDIT) == 1
    assert reading.reader.position(AUDIT) == 2


def test_polling_it_is_done_with_what_it_got_when_it_polls_again(reading: Reading) -> None:
    reader = reading.reader
    for most, seen, done in (
        (3, orders(0, 1, 2), (0, None)),
        (3, [*orders(3), *audit(0, 1)], (3, 0)),
        (9, audit(2, 3), (4, 2)),
        (9, [], (4, 4)),
    ):
        reader.settle()
        assert reading.poll(most) == seen
        assert (done_offset(reader, ORDERS), done_offset(reader, AUDIT)) == done
    assert (reader.position(ORDERS), reader.position(AUDIT)) == (4, 4)


def test_batches_are_done_with_when_the_next_is_asked_for(reading: Reading) -> None:
    pytest.importorskip("pyarrow")
    reader = reading.reader
    reader.settle()
    assert reader.batch() is not None
    assert (done_offset(reader, ORDERS), reader.position(ORDERS)) == (0, 4)
    reader.settle()
    assert done_offset(reader, ORDERS) == 4


def test_pausing_what_it_works_on_does_not_make_the_program_done_with_it(reading: Reading) -> None:
    reader = reading.reader
    reading.iterate(most=2)
    reader.pause(ORDERS)
    assert (done_offset(reader, ORDERS), reader.position(ORDERS)) == (1, 2)
    reader.settle()
    assert done_offset(reader, ORDERS) == 2


def test_a_seek_is_where_the_program_is(reading: Reading) -> None:
    reader = reading.reader
    reading.poll(4)
    reader.seek(ORDERS, 2)
    assert done_offset(reader, ORDERS) == 2
    reader.seek(ORDERS, None)
    assert done_offset(reader, ORDERS) is None


def test_what_is_revoked_while_it_is_iterated_ends_with_the_record_at_hand(reading: Reading) -> None:
    reader = reading.reader

    def meddle(record: Any) -> None:
        if (record.topic, record.offset) == ("orders", 1):
            reader.revoke([ORDERS])

    seen = reading.iterate(meddle)
    assert seen == [*orders(0, 1), *audit(0, 1, 2, 3)]
    assert (done_offset(reader, ORDERS), reader.position(ORDERS)) == (1, 2)


def test_what_waits_in_the_queue_or_is_paused_is_not_seen_after_a_revocation(reading: Reading) -> None:
    reader = reading.reader
    reader.pause(AUDIT)
    reading.iterate(most=1)
    reading.put(ORDERS, 4, 2)
    reader.revoke([ORDERS, AUDIT])
    reader.resume(AUDIT)
    assert reading.poll(100) == []
    assert reader.paused == []


def test_a_partition_that_comes_back_knows_nothing_of_before(reading: Reading) -> None:
    reader = reading.reader
    reading.iterate(most=2)
    generations = reader.revoke([ORDERS])
    reader.forget([ORDERS])
    assert done_offset(reader, ORDERS) is None
    assert reader.position(ORDERS) is None
    reading.put(ORDERS, 50, 2)
    reading.queue.items[-1].generation = generations[ORDERS]
    assert reading.poll(100) == [*audit(0, 1, 2, 3), *orders(50, 51)]
    assert reader.position(ORDERS) == 52


def test_a_part_from_before_says_nothing_of_a_partition_that_came_back_and_goes_again(
    reading: Reading,
) -> None:
    reader = reading.reader
    reading.poll(3)  # and the program works on these, whatever happens to their partition
    reader.revoke([ORDERS])
    reader.forget([ORDERS])
    reader.revoke([ORDERS])
    assert done_offset(reader, ORDERS) is None


def test_letting_go_of_an_iterator_loses_and_repeats_nothing(reading: Reading) -> None:
    seen = reading.iterate(lambda record: reading.reader.interrupt())
    assert seen == [*orders(0, 1, 2, 3), *audit(0, 1, 2, 3)]


def test_another_thread_never_reads_behind_what_the_program_works_on(quick_switches: None) -> None:
    reading = Reading()
    reader = reading.reader
    reader.keeps_work = True
    working = [0]
    wrong: list[tuple[int | None, int]] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            # What the program works on when it is asked is at least what it worked on before.
            done = done_offset(reader, ORDERS)
            now = working[0]
            if done is not None and done > now:
                wrong.append((done, now))

    looking = threading.Thread(target=look)
    looking.start()
    for part in range(300):
        reading.put(ORDERS, part * 10, 10)
        if part % 2:
            working[0] = part * 10
            reader.settle()
            reading.poll(4)
            working[0] = part * 10 + 4
            reader.settle()
            reading.poll(6)
            working[0] = part * 10 + 10
            reader.settle()
        else:

            def work(record: Any) -> None:
                working[0] = record.offset + 1

            reading.iterate(work)
    ended.set()
    looking.join()
    assert wrong == []


def test_a_thread_that_reads_sees_nothing_long_after_a_revocation(quick_switches: None) -> None:
    for _ in range(100):
        reading = Reading()
        reader = reading.reader
        reader.keeps_work = True
        for part in range(5):
            reading.put(ORDERS, part * 10, 10)
        begun = threading.Event()
        seen: list[int] = []

        def note(record: Any, seen: list[int] = seen, begun: threading.Event = begun) -> None:
            seen.append(record.offset)
            if record.offset == 3:
                begun.set()

        thread = threading.Thread(target=reading.iterate, args=(note,))
        thread.start()
        begun.wait(10)
        reader.revoke([ORDERS])
        at_hand = len(seen)
        thread.join()
        # The one that was being handed out, and its successor that was asked for just then.
        assert len(seen) - at_hand <= 2
        done = done_offset(reader, ORDERS)
        assert done is not None
        assert done <= seen[-1] + 1
