"""The accumulator from many threads, and from code that comes back to it while it is at work."""

from __future__ import annotations

import gc
import random
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from ottla._native.accumulator import Accumulator
from ottla._native.deliveries import Delivery
from ottla._native.outgoing import EncodedBatch
from ottla._native.record_buffer import BufferFull, RecordBuffer
from tests.native.encode_support import decoded, everything_given_back
from tests.oracle.records import decode_batch

THREADS = 8
PER_THREAD = 3000
PARTITIONS = 3
NUMBER = struct.Struct(">HI")


@pytest.fixture(autouse=True)
def switching_often() -> Iterator[None]:
    """Threads change places as often as Python allows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def run(*works: Callable[[], object]) -> None:
    """All at once, each in a thread of its own; what one of them raises is raised here."""
    errors: list[BaseException] = []
    together = threading.Barrier(len(works))

    def guarded(work: Callable[[], object]) -> None:
        try:
            together.wait()
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


class Freed:
    """Lets who met BufferFull wait until some memory has come back."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0

    def count(self) -> int:
        return self._count

    def wait(self, count: int) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._count > count, timeout=60)

    def tell(self) -> None:
        with self._condition:
            self._count += 1
            self._condition.notify_all()


class Countdown:
    """Sets an event when the last of several is done."""

    def __init__(self, count: int, finished: threading.Event) -> None:
        self._count = count
        self._finished = finished
        self._lock = threading.Lock()

    def down(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                self._finished.set()


def value_of(thread: int, number: int) -> bytes:
    return NUMBER.pack(thread, number) + bytes(random.Random(number).randrange(120))


@dataclass(order=True)
class Taken:
    """A batch as it left, and the offset that it was given."""

    partition: int
    base_offset: int
    data: bytes


class Partitions:
    """Takes batches out of the buffers and completes them, as the owner of an accumulator does."""

    def __init__(self, records: Accumulator) -> None:
        self.records = records
        self.taken: list[Taken] = []
        self._next_offsets = [0] * PARTITIONS
        # Of several who drain, only one at a time may number the batches of a partition.
        self._locks = [threading.Lock() for _ in range(PARTITIONS)]

    def take(self, partition: int, force: bool) -> None:
        with self._locks[partition]:
            for batch in self.records.drain("orders", partition, max_bytes=50_000, force=force):
                offset = self._next_offsets[partition]
                batch.seal()
                self.taken.append(Taken(partition, offset, bytes(batch)))
                batch.complete(offset)
                self._next_offsets[partition] += batch.count

    def take_the_rest(self) -> None:
        for partition in range(PARTITIONS):
            while self.records.buffer("orders", partition).records:
                self.take(partition, force=True)


def check(batches: list[Taken], batch_size: int, receipts: dict[bytes, Delivery]) -> None:
    """Nothing lost, nothing twice, what a thread wrote to a partition in order, and batches within their bounds."""
    last = [[-1] * THREADS for _ in range(PARTITIONS)]
    seen = 0
    for taken in sorted(batches):
        batch = decode_batch(taken.data)
        assert len(taken.data) <= batch_size or len(batch.records) == 1
        for record in batch.records:
            assert record.value is not None
            thread, number = NUMBER.unpack_from(record.value)
            assert record.value == value_of(thread, number)
            assert number % PARTITIONS == taken.partition
            assert number > last[taken.partition][thread]
            last[taken.partition][thread] = number
            assert receipts[record.value].offset == taken.base_offset + record.offset
            seen += 1
    assert seen == THREADS * PER_THREAD


def appender(
    records: Accumulator, thread: int, receipts: dict[bytes, Delivery], freed: Freed
) -> Callable[[], None]:
    def work() -> None:
        for number in range(PER_THREAD):
            value = value_of(thread, number)
            while True:
                count = freed.count()
                try:
                    receipts[value] = records.append("orders", number % PARTITIONS, b"key", value)
                    break
                except BufferFull:
                    freed.wait(count)

    return work


@pytest.mark.parametrize("batch_size", [200, 16_384])
def test_nothing_is_lost_or_twice_when_many_threads_append(batch_size: int) -> None:
    with everything_given_back():
        records = Accumulator(batch_size=batch_size, max_bytes=2**30)
        receipts: dict[bytes, Delivery] = {}
        run(*[appender(records, thread, receipts, Freed()) for thread in range(THREADS)])
        assert records.records == THREADS * PER_THREAD
        partitions = Partitions(records)
        partitions.take_the_rest()
        check(partitions.taken, batch_size, receipts)
        assert records.used_bytes == 0


def append_while_others_drain(batch_size: int, max_bytes: int, drainers: int) -> None:
    receipts: dict[bytes, Delivery] = {}
    freed, woken, finished = Freed(), threading.Event(), threading.Event()
    records = Accumulator(batch_size=batch_size, max_bytes=max_bytes, wake=lambda buffer, full: woken.set())
    partitions = Partitions(records)
    running = Countdown(THREADS, finished)

    def append(thread: int) -> None:
        appender(records, thread, receipts, freed)()
        running.down()

    def drain() -> None:
        chance = random.Random(7)
        while not finished.is_set():
            woken.wait(timeout=0.01)
            woken.clear()
            for partition in range(PARTITIONS):
                partitions.take(partition, force=chance.random() < 0.5 or records.used_bytes > max_bytes // 2)
                freed.tell()
            assert records.used_bytes <= max_bytes

    run(*[partial(append, thread) for thread in range(THREADS)], *[drain] * drainers)
    partitions.take_the_rest()
    check(partitions.taken, batch_size, receipts)
    assert records.used_bytes == 0


@pytest.mark.parametrize("drainers", [1, 2])
@pytest.mark.parametrize(("batch_size", "max_bytes"), [(200, 40_000), (4096, 65_536), (16_384, 2**30)])
def test_nothing_is_lost_or_twice_while_others_drain(batch_size: int, max_bytes: int, drainers: int) -> None:
    with everything_given_back():
        append_while_others_drain(batch_size, max_bytes, drainers)


def test_threads_that_come_first_to_a_partition_get_the_same_buffer() -> None:
    def meet() -> set[int]:
        records = Accumulator(batch_size=16_384, max_bytes=2**24)
        buffers: list[RecordBuffer] = []
        run(*[lambda: buffers.append(records.buffer("orders", 5))] * THREADS)
        return {id(buffer) for buffer in buffers}

    assert [len(meet()) for _ in range(20)] == [1] * 20


def test_clocks_and_owners_may_come_back_to_the_buffer() -> None:
    taken: list[EncodedBatch] = []
    inside = threading.local()

    def again(append: bool) -> None:
        if getattr(inside, "already", False):
            return
        inside.already = True
        taken.extend(records.drain("orders", 0, force=True))
        if append:
            records.append("orders", 0, None, b"from inside")
        inside.already = False

    def clock() -> int:
        again(append=True)
        return 1

    def monotonic() -> float:
        again(append=True)
        return 1.0

    records = Accumulator(
        batch_size=200,
        max_bytes=2**24,
        clock=clock,
        monotonic=monotonic,
        wake=lambda buffer, full: again(append=False),
    )
    run(lambda: [records.append("orders", 0, None, b"%d" % i * 20) for i in range(1000)])
    taken.extend(records.drain("orders", 0, force=True))
    for batch in taken:
        batch.seal()
    found = [record.value for batch in taken for record in decoded(batch).records]
    assert [value for value in found if value != b"from inside"] == [b"%d" % i * 20 for i in range(1000)]
    assert found.count(b"from inside") >= 1000


def test_the_garbage_collector_may_come_back_to_the_buffer() -> None:
    records = Accumulator(batch_size=300, max_bytes=2**24)
    finalized: list[Delivery] = []

    class Cycle:
        def __init__(self) -> None:
            self.myself = self

        def __del__(self) -> None:
            finalized.append(records.append("orders", 0, None, b"from a finalizer"))

    def work() -> None:
        for i in range(2000):
            Cycle()
            records.append("orders", 0, None, b"%d" % i, [("header", b"v")]).add_done_callback(id)

    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)  # as soon as anything is allocated, where Python does it that way
    try:
        run(work, work)
    finally:
        gc.set_threshold(*thresholds)
    # A collection does nothing while another thread of this process, one of pytest's for instance, is in one.
    deadline = time.monotonic() + 30
    while len(finalized) < 2 * 2000 and time.monotonic() < deadline:
        gc.collect()
    assert len(finalized) == 2 * 2000
    assert records.records == 2 * 2000 + len(finalized)


def test_buffers_of_arguments_may_run_code_that_comes_back() -> None:
    records = Accumulator(batch_size=300, max_bytes=2**24)

    class Name(str):
        __slots__ = ()

        def __hash__(self) -> int:
            records.buffer("orders", 0).append(None, b"from a hash")
            return str.__hash__(self)

        def __eq__(self, other: Any) -> bool:
            return str.__eq__(self, other)

    run(lambda: [records.append(Name("orders"), 0, None, b"v") for _ in range(100)])
    assert records.records == 200
