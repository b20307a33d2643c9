"""The record core: against memcpy, the limit that no codec can beat, and against confluent-kafka.

100-byte values, no compression, a working set of 32 MB. Memory is warm on both sides: the pool has its blocks, and
memcpy a destination that was written before. confluent-kafka is measured in thread CPU (see confluent.py), and so
is what is compared with it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import pyarrow as pa

from bench.confluent import Confluent
from bench.harness import Figure, Result, cpu_per_call, interleaved
from ottla.wire.records import Accumulator, EncodedBatch, Records, decode_fetch, encode_columns

WORKING_SET = 32 << 20
VALUE = b"v" * 100
KEY = b"k-%06d"
NOW = 1_700_000_000_000
LARGE_BATCH, SMALL_BATCH = 64 << 10, 1 << 10


def fetched(batch_size: int) -> bytes:
    """A `records` field of the working set's size, made of batches of this size."""
    rows = WORKING_SET // len(VALUE)
    values = pa.array([VALUE] * rows)
    batches = encode_columns(
        {"value": values}, partitions=1, batch_size=batch_size, now=NOW, unkeyed_partition=0
    )
    field, offset = bytearray(), 0
    for batch in batches:
        field += offset.to_bytes(8) + memoryview(batch)[8:]
        offset += batch.count
        if len(field) >= WORKING_SET:
            break
    return bytes(field)


def decode(field: bytes) -> Records:
    return decode_fetch(field, "orders", 0)


class Encoding:
    """Arrow columns with keys, over 16 partitions; as many rows as fill the working set."""

    def __init__(self) -> None:
        rows = WORKING_SET // 120
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


def append(count: int) -> float:
    """Seconds of CPU of this thread for one `append()`, the taking out of full batches included."""
    accumulator = Accumulator(batch_size=LARGE_BATCH, max_bytes=1 << 30)
    add, drain = accumulator.append, accumulator.drain
    started = time.thread_time()
    for number in range(count):
        add("orders", number & 3, b"key-0001", VALUE)
    for partition in range(4):
        drain("orders", partition, force=True)
    return (time.thread_time() - started) / count


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
    large, small, encoding = fetched(LARGE_BATCH), fetched(SMALL_BATCH), Encoding()
    copy_decoded, copy_encoded = Copy(large), Copy(encoding.encoded)
    confluent = Confluent()
    count = 160_000
    cases: dict[str, tuple[str, Callable[[], float]]] = {
        "memcpy_32mb": ("ms", lambda: cpu_per_call(copy_decoded) * 1e3),
        "decode_large_batches": ("ms", lambda: cpu_per_call(lambda: decode(large).columns()) * 1e3),
        "decode_small_batches": ("ms", lambda: cpu_per_call(lambda: decode(small).columns()) * 1e3),
        "memcpy_encoded": ("ms", lambda: cpu_per_call(copy_encoded) * 1e3),
        "encode_16_partitions": ("ms", lambda: cpu_per_call(encoding.encode) * 1e3),
        "append": ("ns", lambda: append(count) * 1e9),
        "produce_confluent": ("ns", lambda: confluent.produce(b"key-0001", VALUE) * 1e9),
        "iterate": ("ns", lambda: iterate(large) * 1e9),
        "iterate_confluent": ("ns", lambda: confluent.iterate() * 1e9),
        "import": ("ms", import_milliseconds),
    }
    samples = interleaved({name: measure for name, (_, measure) in cases.items()}, repeats, "records")
    result = Result("records", figures={n: Figure(cases[n][0], values) for n, values in samples.items()})
    median = {name: figure.median for name, figure in result.figures.items()}
    result.ratios = {
        "decode_vs_memcpy": median["decode_large_batches"] / median["memcpy_32mb"],
        "encode16_vs_memcpy": median["encode_16_partitions"] / median["memcpy_encoded"],
        "append_vs_confluent": median["append"] / median["produce_confluent"],
        "iterate_vs_confluent": median["iterate"] / median["iterate_confluent"],
        "small_batches_vs_large": (len(small) / median["decode_small_batches"])
        / (len(large) / median["decode_large_batches"]),
        "import_ms": median["import"],
    }
    rows = len(decode(large))
    result.notes.append(f"decode: {rows / median['decode_large_batches'] / 1e3:.1f} M records a second")
    result.notes.append(
        f"encode: {len(encoding.encoded) / 120 / median['encode_16_partitions'] / 1e3:.1f} M records a second"
    )
    return result
