"""Random histories of a compacted log against a plain reading of the rules, batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.log.log import Log, LogConfig
from ottla.wire.batches import ControlType, encode_batch

from .compacting import StoredBatch, StoredRecord, compact, stored
from .support import NOW, append, append_marker, copy_of, open_log

RETENTION = 1000
CONFIG = LogConfig(compact=True, delete=False, delete_retention_ms=RETENTION, index_interval_bytes=200)
KEYS = [b"", b"a", b"b", b"c", b"a key of more than eight bytes"]
PLAIN, IDEMPOTENT, FIRST, SECOND = -1, 1, 2, 3


@dataclass
class Fate:
    """A batch of the history: what is stored of it, and the transaction that it belongs to."""

    batch: StoredBatch
    transaction: int | None = None


@dataclass
class Model:
    """What a log should hold."""

    fates: list[Fate] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    begun: int = 0

    def last_stable(self, log: Log) -> int:
        starts = [fate.batch.base_offset for fate in self.fates if fate.transaction in self.open.values()]
        return min([log.log_end_offset, *starts])

    def compact(self, log: Log, start: int, end: int, upper: int, covered: int, now_ms: int) -> None:
        """A pass whose map begins at `start` and ends at `end`, over segments that end at `covered`."""
        latest: dict[bytes | None, int] = {}
        for fate in self.fates:
            if not fate.batch.is_control and fate.transaction not in self.aborted:
                for record in fate.batch.records:
                    if start <= record.offset < end:
                        latest[record.key] = record.offset
        with_data = {
            (fate.batch.producer[0], fate.transaction) for fate in self.fates if not fate.batch.is_control
        }
        last_of_producer = {
            state.producer_id: (state.batches[-1].last_offset if state.batches else None, state.epoch)
            for state in log.producers.active()
        }
        left = []
        for fate in self.fates:
            batch = fate.batch
            if batch.base_offset < covered:
                has_data = (batch.producer[0], fate.transaction) in with_data
                batch = self._cleaned(fate, latest, end, now_ms, has_data=has_data)
                offset, epoch = last_of_producer.get(batch.producer[0], (-1, -1))
                is_last = (
                    batch.is_control and batch.producer[1] == epoch
                    if offset is None
                    else batch.last_offset == offset
                )
                if not batch.records:
                    if not (is_last or batch.last_offset + 1 == upper):
                        continue
                    batch = replace(batch, codec=0, horizon=None)
            left.append(Fate(batch, fate.transaction))
        self.fates = left

    def _cleaned(
        self, fate: Fate, latest: dict[bytes | None, int], end: int, now_ms: int, *, has_data: bool
    ) -> StoredBatch:
        batch = fate.batch
        is_past = batch.horizon is not None and batch.horizon <= now_ms
        if batch.is_control:
            records = [] if is_past and not has_data else batch.records
            waits = not has_data
        elif fate.transaction in self.aborted:
            records, waits = [], False
        else:
            records = [
                record
                for record in batch.records
                if record.offset >= end
                or (record.offset >= latest.get(record.key, -1) and not (is_past and record.value is None))
            ]
            waits = any(record.value is None for record in records)
        horizon = now_ms + RETENTION if waits and records and batch.horizon is None else batch.horizon
        return replace(batch, records=records, horizon=horizon)


_PAIRS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=6), st.integers(-500, 500)),
    min_size=1,
    max_size=6,
)
_STEPS = st.one_of(
    st.tuples(
        st.just("data"), st.sampled_from([PLAIN, IDEMPOTENT, FIRST, SECOND]), _PAIRS, st.integers(0, 4)
    ),
    st.tuples(st.just("end"), st.sampled_from([FIRST, SECOND]), st.booleans()),
    st.just(("roll",)),
    st.tuples(st.just("wait"), st.sampled_from([1, RETENTION // 2, RETENTION])),
    st.tuples(st.just("compact"), st.sampled_from([1 << 20, 1 << 20, 6 * 24])),
    st.just(("expire",)),
    st.just(("reopen",)),
)


@st.composite
def _histories(draw: DrawFn) -> list[tuple[object, ...]]:
    return draw(st.lists(_STEPS, min_size=1, max_size=40))


class Run:
    """A log and its model, side by side."""

    def __init__(self) -> None:
        self.fs = MemoryFileSystem()
        self.log = open_log(self.fs, CONFIG)
        self.model = Model()
        self.now_ms = NOW
        self.sequences = dict.fromkeys((IDEMPOTENT, FIRST, SECOND), 0)

    def data(self, producer: int, pairs: list[tuple[bytes, bytes | None, int]], codec: int) -> None:
        is_transactional = producer in (FIRST, SECOND)
        state = self.log.producers.get(producer)
        if state is not None and not state.batches:
            # Compaction has left a marker only, and a log that was opened anew has found that: as to Kafka, the
            # producer is one that has written nothing of this epoch yet.
            self.sequences[producer] = 0
        identity = (-1, -1, -1) if producer == PLAIN else (producer, 0, self.sequences[producer])
        base = self.log.log_end_offset
        rows = [
            StoredRecord(base + index, NOW + time, key, value)
            for index, (key, value, time) in enumerate(pairs)
        ]
        data = encode_batch(
            [(row.offset - base, row.timestamp, row.key, row.value, []) for row in rows],
            codec=codec,
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=identity[2],
            transactional=is_transactional,
        )
        append(self.log, bytearray(data))
        if producer != PLAIN:
            self.sequences[producer] += len(pairs)
        transaction = None
        if is_transactional:
            if producer not in self.model.open:
                self.model.begun += 1
                self.model.open[producer] = self.model.begun
            transaction = self.model.open[producer]
        batch = StoredBatch(base, base + len(pairs) - 1, identity, is_transactional, False, codec, None, rows)
        self.model.fates.append(Fate(batch, transaction))

    def end(self, producer: int, commit: bool) -> None:
        if producer not in self.model.open:
            return
        outcome = ControlType.COMMIT if commit else ControlType.ABORT
        append_marker(self.log, outcome, producer)
        transaction = self.model.open.pop(producer)
        if not commit:
            self.model.aborted.append(transaction)
        self.model.fates.append(Fate(stored(self.log)[-1], transaction))

    def roll(self) -> None:
        self.log.roll(self.now_ms)

    def wait(self, ms: int) -> None:
        self.now_ms += ms

    def expire(self) -> None:
        """The sequences go on: a log that does not know a producer takes any."""
        self.log.producers.expire(NOW + 10**12)

    def reopen(self) -> None:
        """As after a crash: on what the files say, with nothing in memory but how far the log is clean."""
        clean = self.log.first_dirty_offset
        self.fs = copy_of(self.fs)
        self.log = open_log(self.fs, CONFIG)
        self.log.first_dirty_offset = clean
        self.log.replicated_to(self.log.log_end_offset)

    def compact(self, room: int) -> None:
        log, start = self.log, self.log.first_dirty_offset
        log.replicated_to(log.log_end_offset)
        stable = self.model.last_stable(log)
        ends = [segment.base_offset for segment in log.segments]
        upper = max(end for end in [ends[0], *ends[1:]] if end <= max(stable, ends[0]))
        if upper <= start:
            return
        end = compact(log, now_ms=self.now_ms, upper=upper, room=room).end_offset
        assert start < end <= upper
        covered = min(base for base in ends if base >= end)
        self.model.compact(log, start, end, upper, covered, self.now_ms)

    def check(self) -> None:
        log = self.log
        assert stored(log) == [fate.batch for fate in self.model.fates]
        assert self.read_committed() == self.committed()
        offsets = [fate.batch.last_offset for fate in self.model.fates]
        for offset in range(log.log_start_offset, log.log_end_offset):
            following = [
                fate.batch.base_offset for fate in self.model.fates if fate.batch.last_offset >= offset
            ]
            found = log.read(offset, 1, at_least_one=True)
            assert bool(found.size) == bool(following)
            if following:
                assert int.from_bytes(found.parts[0][:8], "big") == following[0]
        assert offsets == sorted(offsets)

    def committed(self) -> list[StoredRecord]:
        return [
            record
            for fate in self.model.fates
            if not fate.batch.is_control and fate.transaction not in self.model.aborted
            for record in fate.batch.records
            if record.offset < self.model.last_stable(self.log)
        ]

    def read_committed(self) -> list[StoredRecord]:
        """As a client reads: by the aborted transactions that the log names, and the markers."""
        stable = self.model.last_stable(self.log)
        to_come = sorted(self.log.aborted(0, stable), key=lambda entry: entry[1])
        aborting: list[int] = []
        found = []
        for batch in stored(self.log):
            if batch.base_offset >= stable:
                break
            while to_come and to_come[0][1] <= batch.last_offset:
                aborting.append(to_come.pop(0)[0])
            producer = batch.producer[0]
            if batch.is_control:
                if producer in aborting:
                    aborting.remove(producer)
            elif not (batch.is_transactional and producer in aborting):
                found += batch.records
        return found


_FORGOTTEN_BUT_FOR_A_MARKER: list[tuple[object, ...]] = [
    ("data", FIRST, [(b"", None, 0)], 0),
    ("data", PLAIN, [(b"", None, 0)], 0),
    ("roll",),
    ("end", FIRST, False),
    ("expire",),
    ("data", PLAIN, [(b"", None, 0)], 0),
    ("compact", 1 << 20),
    ("reopen",),
    ("data", FIRST, [(b"", None, 0)], 0),
]


@settings(max_examples=400, deadline=None)
@given(_histories())
@example(_FORGOTTEN_BUT_FOR_A_MARKER)
def test_a_history_ends_up_as_the_rules_say(history: list[tuple[object, ...]]) -> None:
    run = Run()
    for name, *arguments in history:
        getattr(run, str(name))(*arguments)
        run.check()
    run.roll()
    for _ in range(3):
        run.wait(RETENTION)
        run.compact(1 << 20)
        run.check()
        run.reopen()
        run.check()
