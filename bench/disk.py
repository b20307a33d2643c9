"""What logs on a disk cost: opening them after a crash, appending to them, and compacting them.

Recovery. A log of a gigabyte, one partition and one segment, as confluent-kafka has filled it with records of 1,000
bytes, is opened in a directory as after an unclean stop: nothing of it is known to be flushed, and its indexes, its
snapshots and its leader epochs have to be made anew. That is held against reading the same file once, in Python, into
a buffer that is used again and again. Both are in this process, and the file is in the page cache. A second log, of a
quarter of the size, has one record in each batch.

Disk and memory. confluent-kafka produces records of 1,000 bytes to a cluster in a process of its own, with --data-dir
and without. The files go to the page cache, as they do in Kafka: nothing asks for a flush.

Compaction, next to Apache Kafka's cleaner. A topic with a million records of 100 bytes under a hundred thousand keys,
in batches as confluent-kafka makes them, is compacted in one pass; min.compaction.lag.ms holds the cleaner back until
all is written. Both sides are measured in megabytes of the log for each second of CPU that the broker spends from
then on until the pass is through. Kafka's cleaner runs beside nothing else, after a pass that warms it up, with the
first compiler alone and the serial collector, as everywhere in these benchmarks. Its logs are files, in the page
cache; ours are memory.
"""

from __future__ import annotations

import gc
import os
import random
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from bench.harness import Figure, Result, interleaved, progress
from bench.processes import OTTLA, Process, running
from bench.throughput import PARTITIONS, Traffic
from ottla.broker.log.config import LogConfig
from ottla.broker.log.flushing import Checkpointed
from ottla.broker.log.fs.directory import DirectoryFileSystem
from ottla.broker.log.log import Log
from ottla.broker.log.segment import LOG_SUFFIX
from ottla.wire.records import decode_fetch
from tests.interop.apache import ApacheKafka
from tests.interop.plain import Connection

VALUE = b"v" * 100
LARGER_VALUE = b"v" * 1000
EAGER = {"log.cleaner.backoff.ms": "100"}
KAFKAS = {**EAGER, "log.cleaner.dedupe.buffer.size": str(128 * 1024 * 1024)}
COMPACTING = [*OTTLA, "--brokers", "1", *(f"--config={name}={value}" for name, value in EAGER.items())]
APPENDING = [*OTTLA, "--brokers", "1", f"--config=num.partitions={PARTITIONS}"]
SOON_REMOVED = "--config=log.segment.delete.delay.ms=1000"
Settings = dict[str, str | int | float | bool]
PIECE = 1024 * 1024
"""What is read at once where a file is only read."""
TURNS = 3
"""In one pair of processes: where their memory and their cores happen to be is worth ten percent."""
_DEADLINE = 300.0
_HOUR_MS = 3_600_000
_HELD_BACK = str(10**12)
_CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "min.compaction.lag.ms": _HELD_BACK,
    "segment.bytes": str(64 * 1024 * 1024),
    "segment.ms": str(_HOUR_MS),
}


@dataclass(frozen=True)
class Scale:
    """How many records are recovered, in ordinary and in single batches, and compacted, under how many keys."""

    recovered: int
    recovered_singly: int
    compacted: int
    keys: int


WHOLE = Scale(recovered=1_000_000, recovered_singly=250_000, compacted=1_000_000, keys=100_000)
QUICK = Scale(recovered=20_000, recovered_singly=2_000, compacted=20_000, keys=2_000)


def run(repeats: int) -> Result:
    result = Result("disk")
    scale = WHOLE if repeats > 1 else QUICK
    _recovery(result, "", scale.recovered, {}, repeats)
    _recovery(result, "_single", scale.recovered_singly, {"batch.num.messages": 1}, repeats)
    _appends(result, repeats)
    _compaction(result, scale, repeats)
    return result


def _recovery(result: Result, variant: str, count: int, settings: Settings, repeats: int) -> None:
    """The ratio is one of CPU time; the time that passes is beside it."""
    with TemporaryDirectory(prefix="ottla-bench-") as root:
        progress(f"disk: filling a log of {count} records")
        directory = _filled_log(Path(root), count, settings)
        passed: dict[str, list[float]] = {"recovery": [], "read": []}
        cases: dict[str, Callable[[], float]] = {
            "recovery": lambda: _recovered(directory, passed["recovery"]),
            "read": lambda: _cpu_of(partial(_read, directory), passed["read"]),
        }
        interleaved(cases, 1, f"disk: recovery{variant}, warming up")
        samples = interleaved(cases, repeats, f"disk: recovery{variant}")
    for case, spent in samples.items():
        result.figures[f"{case}{variant}_cpu"] = Figure("s", spent)
        result.figures[f"{case}{variant}_wall"] = Figure("s", tuple(passed[case][1:]))
    result.ratios[f"recovery{variant}_vs_read"] = median(samples["recovery"]) / median(samples["read"])


def _filled_log(root: Path, count: int, settings: Settings) -> Path:
    """The directory of a log with that many records, whose node has ended."""
    with running([*OTTLA, "--brokers", "1", f"--data-dir={root}", "--topic", "bench"]) as broker:
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "log_level": 0,
                "linger.ms": 5,
                "enable.idempotence": True,
                "queue.buffering.max.kbytes": 500_000,
                **settings,
            }
        )
        for _ in range(count):
            while True:
                try:
                    producer.produce("bench", LARGER_VALUE)
                    break
                except BufferError:
                    producer.poll(0.1)
        _flush(producer)
    (directory,) = root.glob("**/bench-0")
    for file in directory.iterdir():
        with open(file, "rb") as opened:
            os.fsync(opened.fileno())  # or it is written while something is measured
    return directory


def _recovered(directory: Path, passed: list[float]) -> float:
    for file in directory.iterdir():
        if file.suffix != LOG_SUFFIX:
            file.unlink()
    return _cpu_of(partial(_recover, directory), passed)


def _recover(directory: Path) -> None:
    fs = DirectoryFileSystem(directory.parent)
    log = Log.open(fs, directory.name, LogConfig(), int(time.time() * 1000), Checkpointed(recovery_point=0))
    fs.close()
    whole = sum(file.stat().st_size for file in directory.glob(f"*{LOG_SUFFIX}"))
    if log.size != whole or not log.log_end_offset:
        raise RuntimeError(f"of {whole} bytes {log.size} were recovered")


def _read(directory: Path) -> None:
    buffer = bytearray(PIECE)
    for file in directory.glob(f"*{LOG_SUFFIX}"):
        with open(file, "rb", buffering=0) as opened:
            while opened.readinto(buffer):
                pass


def _cpu_of(work: Callable[[], None], passed: list[float]) -> float:
    """Seconds of CPU; those that pass go to `passed`."""
    gc.collect()
    began, before = time.perf_counter(), time.process_time()
    work()
    spent = time.process_time() - before
    passed.append(time.perf_counter() - began)
    return spent


def _appends(result: Result, repeats: int) -> None:
    """The ratio is one of records per second; the CPU that the broker spends on a million is beside it."""
    samples: dict[str, list[float]] = {}
    left = repeats
    while left:
        turns = min(left, TURNS)
        left -= turns
        label = f"disk: produce, {repeats - left} of {repeats} when done"
        with TemporaryDirectory(prefix="ottla-bench-") as root, ExitStack() as stack:
            on_disk = [*APPENDING, SOON_REMOVED, f"--data-dir={root}"]
            brokers = {"disk": on_disk, "memory": APPENDING}
            cases = {
                where: _Appends(stack.enter_context(running(command))) for where, command in brokers.items()
            }
            interleaved(cases, 1, f"{label}, warming up")
            for where, rates in interleaved(cases, turns, label).items():
                samples.setdefault(f"produce_{where}", []).extend(rates)
                samples.setdefault(f"produce_cpu_{where}", []).extend(cases[where].cpu[1:])
    for case, values in samples.items():
        result.figures[case] = Figure("s/M rec" if "_cpu_" in case else "rec/s", tuple(values))
    result.ratios["disk_vs_memory"] = median(samples["produce_disk"]) / median(samples["produce_memory"])


class _Appends:
    """Fills topics of one broker and deletes them again: records per second."""

    def __init__(self, broker: Process) -> None:
        self._broker = broker
        self._traffic = Traffic(broker.bootstrap, len(LARGER_VALUE))
        self.cpu: list[float] = []
        """Seconds that the broker has spent on a million records, each time."""

    def __call__(self) -> float:
        before = self._broker.cpu()
        rate = self._traffic.produce()
        self.cpu.append((self._broker.cpu() - before) / self._traffic.count * 1e6)
        self._traffic.forget()
        return rate


def _compaction(result: Result, scale: Scale, repeats: int) -> None:
    progress("disk: starting Apache Kafka")
    with ExitStack() as stack:
        kafka = stack.enter_context(ApacheKafka(properties=KAFKAS))
        brokers = {
            "ottla": stack.enter_context(running(COMPACTING)),
            "kafka": Process(kafka.pid(1), kafka.bootstrap),
        }
        cases: dict[str, Callable[[], float]] = {
            f"compaction_{who}": partial(_compacted, broker, scale) for who, broker in brokers.items()
        }
        interleaved(cases, 1, "disk: compaction, warming up")
        samples = interleaved(cases, repeats, "disk: compaction")
    for case, rates in samples.items():
        result.figures[case] = Figure("MB/CPU-s", rates)
    result.ratios["compaction_vs_kafka"] = (
        result.figures["compaction_ottla"].median / result.figures["compaction_kafka"].median
    )


def _compacted(broker: Process, scale: Scale) -> float:
    """Megabytes of a log that a broker compacts in one second of CPU."""
    topic = _Topic(broker.bootstrap)
    dropped = topic.fill(scale)
    before = broker.cpu()
    topic.hold_back("0")
    topic.wait_until_gone(dropped)
    spent = broker.cpu() - before
    topic.delete()
    return topic.written_bytes / 1e6 / spent


class _Topic:
    """A compacted topic of one partition, which is filled, compacted and deleted."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._name = f"bench-{uuid.uuid4().hex[:8]}"
        self.written_bytes = 0
        topic = NewTopic(self._name, num_partitions=1, replication_factor=1, config=_CONFIG)
        self._admin.create_topics([topic], operation_timeout=20)[self._name].result(_DEADLINE)

    def fill(self, scale: Scale) -> int:
        """Writes all records, and last one that compaction drops from the last segment: its offset."""
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "log_level": 0,
                "linger.ms": 50,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": 2 * scale.compacted,
            }
        )
        keys = random.Random(1)
        now_ms = int(time.time() * 1000)
        old_ms = now_ms - 3 * _HOUR_MS
        for _ in range(scale.compacted):
            key = b"key-%08d" % keys.randrange(scale.keys)
            producer.produce(self._name, VALUE, key, timestamp=old_ms)
            self.written_bytes += len(key) + len(VALUE)
        _flush(producer)
        for value in (b"goes", b"stays"):
            producer.produce(self._name, value, b"sentinel", timestamp=old_ms)
        _flush(producer)
        # So much later that it begins a segment: the active one is never compacted.
        producer.produce(self._name, b"", b"begins a segment", timestamp=now_ms)
        _flush(producer)
        return scale.compacted

    def hold_back(self, lag_ms: str) -> None:
        entry = ConfigEntry("min.compaction.lag.ms", lag_ms, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self._name, incremental_configs=[entry])
        for done in self._admin.incremental_alter_configs([resource]).values():
            done.result(_DEADLINE)

    def wait_until_gone(self, offset: int) -> None:
        """Looks at the last segment only, now and then, so that looking costs next to nothing."""
        deadline = time.perf_counter() + _DEADLINE
        with Connection(self._bootstrap) as connection:
            while time.perf_counter() < deadline:
                data = bytes(connection.fetch(self._name, offset).records or b"")
                if offset not in [
                    record.offset for record in decode_fetch(data, self._name, 0, offset=offset)
                ]:
                    return
                time.sleep(0.1)
        raise TimeoutError(f"{self._name} was not compacted")

    def delete(self) -> None:
        self._admin.delete_topics([self._name])[self._name].result(_DEADLINE)


def _flush(producer: Producer) -> None:
    left = producer.flush(_DEADLINE)
    if left:
        raise TimeoutError(f"{left} records were not acknowledged")
