"""The record core: against memcpy, the limit that no codec can beat, and against confluent-kafka.

100-byte values, no compression, and a working set of four times the last-level cache: where the cache holds all of
it, memcpy is twice as fast as memory is, and what is fetched and produced does not wait in a cache. Memory is warm
on both sides: the pool has its blocks, and memcpy a destination that was written before. With one repeat, which tells
nothing about a noisy machine and is there to see that everything runs, the working set is small.

confluent-kafka is measured in thread CPU (see confluent.py), and so is what is compared with it. `append` is what
`produce()` of a client calls for a topic that it knows. It gives a receipt each time, and confluent-kafka's
`produce()` has none to give: what a program can ask about a message later, it has to ask for in advance with a
callback, which costs more. So a program that keeps every receipt is compared with one that keeps nothing.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from bench.confluent import Confluent, Headers
from bench.harness import Figure, Result, cpu_per_call, interleaved
from ottla.client.partitioners import ManualPartitioner
from ottla.runtime import Random
from ottla.wire.records import (
    Accumulator,
    Delivery,
    EncodedBatch,
    Records,
    TopicAppender,
    decode_fetch,
    encode_columns,
)

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
# What most servers have per socket, for a system that does not say; and the most that is taken, since the working
# set is in memory seven times.
USUAL_CACHE, LARGEST_WORKING_SET = 32 << 20, 512 << 20
SMALL_WORKING_SET = 8 << 20

VALUE = b"v" * 100
KEY = b"k-%06d"
HEADERS: Headers = [("trace", b"0123456789abcdef")]
NOW = 1_700_000_000_000
LARGE_BATCH, SMALL_BATCH = 64 << 10, 1 << 10


def last_level_cache(caches: Path = CACHES) -> int:
    """The size in bytes of the largest level, as Linux tells it: a file `size` per cache, such as "32768K"."""
    sizes = [file.read_text().strip() for file in caches.glob("index*/size")]
    return max((int(size.removesuffix("K")) << 10 for size in sizes), default=USUAL_CACHE)


def working_set(repeats: int) -> int:
    if repeats == 1:
        return SMALL_WORKING_SET
    return min(4 * last_level_cache(), LARGEST_WORKING_SET)


def fetched(size: int, batch_size: int) -> bytes:
    """A `records` field of this size, made of batches of this size."""
    rows = size // len(VALUE)
    values = pa.array([VALUE] * rows)
    batches = encode_columns(
        {"value": values}, partitions=1, batch_size=batch_size, now=NOW, unkeyed_partition=0
    )
    field, offset = bytearray(), 0
    for batch in batches:
        field += offset.to_bytes(8) + memoryview(batch)[8:]
        offset += batch.count
        if len(field) >= size:
            break
    return bytes(field)


def decode(field: bytes) -> Records:
    return decode_fetch(field, "orders", 0)


class Encoding:
    """Arrow columns with keys, over 16 partitions; as many rows as fill the working set."""

    def __init__(self, size: int) -> None:
        rows = size // 120
        keys = pa.array([KEY % (number % 1_000_000) for number in range(rows)])
        self._table = pa.table({"key": keys, "value": pa.array([VALUE] * rows)})
        self.encoded = b"".join(self.encode())

    def encode(self) -> list[EncodedBatch]:
        return encode_columns(self._table, partitions=16, batch_size=LARGE_BATCH, now=NOW)


class Copy:
    """memcpy into memory that was written before."""

    def __init__(self, source: bytes) -> None:
        self._source, self._target = source, memoryview(bytearray(len(source)))

    def __call__(self) -> None:
        self._target[:] = self._source


class Topic:
    """A topic of four partitions, all with a leader, as `TopicAppender` asks for it. Nothing waits in it."""

    partitions = 4
    available = (0, 1, 2, 3)
    slow = ()

    def buffered(self) -> Sequence[int]:
        return [0] * self.partitions


class Append:
    """Seconds of CPU of this thread for one `append()`, the taking out of full batches included."""

    def __init__(self, headers: Headers | None = None) -> None:
        self._headers = headers

    def _topic(self) -> tuple[Accumulator, Callable[..., Delivery]]:
        accumulator = Accumulator(batch_size=LARGE_BATCH, max_bytes=1 << 30)
        partitioner = ManualPartitioner().for_topic("orders", batch_size=LARGE_BATCH, random=Random(1))
        return accumulator, TopicAppender(accumulator, "orders", partitioner, Topic()).append

    def __call__(self, count: int) -> float:
        accumulator, add = self._topic()
        headers = self._headers
        started = time.thread_time()
        for number in range(count):
            add(b"key-0001", VALUE, headers, number & 3)
        self._drain(accumulator)
        return (time.thread_time() - started) / count

    def keeping(self, count: int) -> float:
        """The same with every receipt in a list, which is dropped in the end and is counted with it."""
        accumulator, add = self._topic()
        headers = self._headers
        started = time.thread_time()
        receipts: list[Delivery] = []
        keep = receipts.append
        for number in range(count):
            keep(add(b"key-0001", VALUE, headers, number & 3))
        self._drain(accumulator)
        receipts.clear()
        return (time.thread_time() - started) / count

    def _drain(self, accumulator: Accumulator) -> None:
        for partition in range(Topic.partitions):
            accumulator.drain("orders", partition, force=True)


def iterate(field: bytes) -> float:
    """Seconds of CPU of this thread for one record: decoded, made into an object, its value read."""
    spent, seen = 0.0, 0
    for turn in range(4):
        started = time.thread_time()
        records = decode(field)
        for record in records:
            record.value  # noqa: B018
        if turn > 0:  # the first warms the memory, as for everything else here
            spent += time.thread_time() - started
            seen += len(records)
    return spent / seen


def import_milliseconds() -> float:
    """Of every extension module and what it needs, in a new process, from compiled bytecode."""
    program = (
        "import time; started = time.perf_counter(); "
        "import ottla._native.decode, ottla._native.encode, ottla._native.accumulator; "
        "print((time.perf_counter() - started) * 1e3)"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        found = []
        for _ in range(6):  # the first writes the bytecode
            done = subprocess.run(
                [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
            )
            found.append(float(done.stdout))
    return statistics.median(found[1:])


def run(repeats: int) -> Result:
    size = working_set(repeats)
    large, small, encoding = fetched(size, LARGE_BATCH), fetched(size, SMALL_BATCH), Encoding(size)
    copy_decoded, copy_encoded = Copy(large), Copy(encoding.encoded)
    confluent = Confluent()
    count = 160_000
    cases: dict[str, tuple[str, Callable[[], float]]] = {
        "memcpy_fetched": ("ms", lambda: cpu_per_call(copy_decoded) * 1e3),
        "decode_large_batches": ("ms", lambda: cpu_per_call(lambda: decode(large).columns()) * 1e3),
        "decode_small_batches": ("ms", lambda: cpu_per_call(lambda: decode(small).columns()) * 1e3),
        "memcpy_encoded": ("ms", lambda: cpu_per_call(copy_encoded) * 1e3),
        "encode_16_partitions": ("ms", lambda: cpu_per_call(encoding.encode) * 1e3),
        "append": ("ns", lambda: Append()(count) * 1e9),
        "append_handles": ("ns", lambda: Append().keeping(count) * 1e9),
        "produce_confluent": ("ns", lambda: confluent.produce(b"key-0001", VALUE) * 1e9),
        "append_header": ("ns", lambda: Append(HEADERS)(count) * 1e9),
        "produce_header_confluent": ("ns", lambda: confluent.produce(b"key-0001", VALUE, HEADERS) * 1e9),
        "iterate": ("ns", lambda: iterate(large) * 1e9),
        "iterate_confluent": ("ns", lambda: confluent.iterate() * 1e9),
        "import": ("ms", import_milliseconds),
    }
    samples = interleaved({name: measure for name, (_, measure) in cases.items()}, repeats, "records")
    result = Result("records", figures={n: Figure(cases[n][0], values) for n, values in samples.items()})
    median = {name: figure.median for name, figure in result.figures.items()}
    result.ratios = {
        "decode_vs_memcpy": median["decode_large_batches"] / median["memcpy_fetched"],
        "encode16_vs_memcpy": median["encode_16_partitions"] / median["memcpy_encoded"],
        "append_vs_confluent": median["append"] / median["produce_confluent"],
        "append_header_vs_confluent": median["append_header"] / median["produce_header_confluent"],
        "append_handles_vs_confluent": median["append_handles"] / median["produce_confluent"],
        "iterate_vs_confluent": median["iterate"] / median["iterate_confluent"],
        "small_batches_vs_large": (len(small) / median["decode_small_batches"])
        / (len(large) / median["decode_large_batches"]),
        "import_ms": median["import"],
    }
    result.notes.append(
        f"working set: {size >> 20} MB, with a last-level cache of {last_level_cache() >> 20} MB"
    )
    rows = len(decode(large))
    result.notes.append(f"decode: {rows / median['decode_large_batches'] / 1e3:.1f} M records a second")
    result.notes.append(
        f"encode: {len(encoding.encoded) / 120 / median['encode_16_partitions'] / 1e3:.1f} M records a second"
    )
    return result
