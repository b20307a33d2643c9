"""A log against a naive one: random appends, rolls, reads, cuts, deletions and restarts; and crashes at any byte."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.broker.log.flushing import Checkpointed
from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.log.log import Log, LogConfig
from ottla.broker.log.segment import TimestampedOffset
from ottla.wire.batches import ControlType
from ottla.wire.records import decode_fetch
from tests.broker.log.support import (
    DIRECTORY,
    NOW,
    append,
    append_marker,
    copy_of,
    joined,
    make_batch,
    open_log,
    values,
)

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=150, segment_index_bytes=100)


class NaiveLog:
    """Batches as (base offset, last offset, bytes, timestamp), and nothing else."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, bytes, int]] = []
        self.start = 0
        self.end = 0

    def read(self, offset: int, max_bytes: int, upper: int, at_least_one: bool) -> bytes:
        found = b""
        for _, last, data, _ in self.batches:
            if offset <= last < upper:
                if len(found) + len(data) > max_bytes and not (at_least_one and not found):
                    break
                found += data
        return found

    def first_at(self, timestamp: int) -> TimestampedOffset | None:
        for base, last, _, known in self.batches:
            if known >= timestamp and last >= self.start:
                return TimestampedOffset(known, max(base, self.start), 0)
        return None


class LogMachine(RuleBasedStateMachine):
    """Every step is done to both."""

    @initialize()
    def begin(self) -> None:
        self.fs = MemoryFileSystem()
        self.log = open_log(self.fs, SMALL)
        self.model = NaiveLog()
        self.sequences: dict[int, int] = {}

    @rule(count=st.integers(1, 5), size=st.integers(0, 350), older=st.integers(0, 1000))
    def append(self, count: int, size: int, older: int) -> None:
        data = make_batch(count, value=b"x" * size, timestamp=NOW - older)
        appended = append(self.log, data)
        assert (appended.base_offset, appended.last_offset) == (self.model.end, self.model.end + count - 1)
        stored = self._stored(appended.base_offset)
        assert stored[61:] == data[61:]
        self.model.batches.append((appended.base_offset, appended.last_offset, stored, NOW - older))
        self.model.end += count

    def _stored(self, base_offset: int) -> bytes:
        return joined(self.log.read(base_offset, 1, at_least_one=True))

    @rule(producer=st.integers(0, 2))
    def append_idempotently(self, producer: int) -> None:
        sequence = self.sequences.get(producer, 0)
        appended = append(self.log, make_batch(producer=(producer, 0, sequence)))
        assert appended.base_offset == self.model.end
        self.model.batches.append(
            (appended.base_offset, appended.last_offset, self._stored(appended.base_offset), NOW)
        )
        self.model.end += 1
        self.sequences[producer] = sequence + 1
        again = append(self.log, make_batch(producer=(producer, 0, sequence)))
        assert (again.base_offset, again.duplicate) == (appended.base_offset, True)

    @rule(at=st.floats(0, 1), size=st.integers(0, 5000), upper=st.floats(0, 1), at_least_one=st.booleans())
    def read(self, at: float, size: int, upper: float, at_least_one: bool) -> None:
        start, end = self.model.start, self.model.end
        offset = start + int(at * (end - start))
        below = offset + int(upper * (end - offset))
        found = self.log.read(offset, size, below, at_least_one=at_least_one)
        expected = self.model.read(offset, size, below, at_least_one)
        assert joined(found) == expected
        following = [base for base, last, _, _ in self.model.batches if last >= found.next_offset]
        if expected:
            assert not following or following[0] >= found.next_offset
        else:
            assert found.next_offset == offset

    @rule(older=st.integers(-10, 1010))
    def look_for_a_time(self, older: int) -> None:
        found, expected = self.log.offset_for_timestamp(NOW - older), self.model.first_at(NOW - older)
        if found is None and expected is not None:
            # No more than one segment is asked, and what it has of that time is gone.
            asked = next(each for each in self.log.segments if each.largest_timestamp >= NOW - older)
            assert asked.base_offset < self.model.start
            assert asked.next_offset <= expected.offset
        else:
            assert found == expected

    @rule(at=st.floats(0, 1))
    def delete_records(self, at: float) -> None:
        before = self.model.start + int(at * (self.model.end - self.model.start))
        self.log.delete_records(before)
        self.model.start = before
        self.log.enforce_retention(NOW)

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        kept = [batch for batch in self.model.batches if batch[0] >= self.model.start]
        if not kept or back == 0:
            return
        offset = kept[-min(back, len(kept))][0]
        self.log.truncate_to(offset)
        self.model.batches = [batch for batch in self.model.batches if batch[1] < offset]
        self.model.end = offset
        self._forget_sequences()

    def _forget_sequences(self) -> None:
        self.sequences = {
            producer.producer_id: producer.last_sequence + 1 for producer in self.log.producers.active()
        }

    @rule(cleanly=st.booleans())
    def restart(self, cleanly: bool) -> None:
        if cleanly:
            self.log.close()
        before = self._producers(self.log)
        known = Checkpointed(self.log.log_start_offset, None if cleanly else self.log.recovery_point)
        self.log = open_log(self.fs, SMALL, known=known)
        assert self._producers(self.log) == before

    def _producers(self, log: Log) -> list[tuple[int, int, int]]:
        return [(state.producer_id, state.epoch, state.last_sequence) for state in log.producers.active()]

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @invariant()
    def both_have_the_same_ends(self) -> None:
        assert self.log.log_start_offset == self.model.start
        assert self.log.log_end_offset == self.model.end
        assert all(segment.size <= SMALL.segment_bytes for segment in self.log.segments)


LogMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestLogMachine = LogMachine.TestCase


def busy_log(fs: MemoryFileSystem) -> Log:
    """Several segments, producers, an open transaction and an aborted one."""
    log = open_log(fs, SMALL)
    for number in range(30):
        append(log, make_batch(2, value=b"%d" % number * 20))
    append(log, make_batch(3, producer=(7, 0, 0), transactional=True))
    append(log, make_batch(1, producer=(8, 0, 0), transactional=True))
    append_marker(log, ControlType.ABORT, 7)
    append(log, make_batch(1, producer=(9, 0, 0)))
    return log


def test_a_crash_at_any_byte_of_the_last_append_leaves_a_prefix() -> None:
    fs = MemoryFileSystem()
    log = busy_log(fs)
    before, end = values(log), log.log_end_offset
    path = f"{DIRECTORY}/{log.segments[-1].base_offset:020d}.log"
    size = fs.open(path).size
    append(log, make_batch(2, producer=(9, 0, 1)))
    after = values(log)
    assert len(log.segments) > 2
    for cut in range(size, fs.open(path).size + 1):
        crashed = copy_of(fs)
        crashed.open(path).truncate(cut)
        again = open_log(crashed, SMALL)
        whole = cut == fs.open(path).size
        assert values(again) == (after if whole else before)
        assert again.log_end_offset == (end + 2 if whole else end)
        assert again.aborted(0, end) == [(7, 60)]
        again.replicated_to(again.log_end_offset)
        assert again.first_unstable_offset == 63
        following = append(again, make_batch(1, producer=(9, 0, 3 if whole else 1)))
        assert following.base_offset == again.log_end_offset - 1


def test_a_damaged_byte_in_the_last_segment_costs_no_more_than_what_is_behind_it() -> None:
    fs = MemoryFileSystem()
    log = busy_log(fs)
    everything = values(log)
    path = f"{DIRECTORY}/{log.segments[-1].base_offset:020d}.log"
    content = b"".join(fs.open(path).read(0, fs.open(path).size))
    for at in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[at] ^= 0x55
        crashed = copy_of(fs)
        crashed.open(path).truncate(0)
        crashed.open(path).append(damaged)
        again = open_log(crashed, SMALL)
        found = again.read(0, 1 << 30)
        known = [record.value for record in decode_fetch(joined(found), "orders", 0)]
        assert known == everything[: len(known)]
        assert again.log_end_offset == found.next_offset


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([".index", ".timeindex", ".snapshot", "checkpoint"]), unique=True), st.data())
def test_whatever_is_lost_besides_the_batches_is_built_anew(lost: list[str], data: st.DataObject) -> None:
    fs = MemoryFileSystem()
    log = busy_log(fs)
    everything = values(log)
    if data.draw(st.booleans()):
        log.close()
    for name in fs.list(DIRECTORY):
        if name.endswith(tuple(lost)) and data.draw(st.booleans()):
            fs.remove(f"{DIRECTORY}/{name}")
    again = open_log(fs, SMALL)
    assert values(again) == everything
    assert again.aborted(0, again.log_end_offset) == [(7, 60)]
    again.replicated_to(again.log_end_offset)
    assert again.first_unstable_offset == 63
    found = again.offset_for_timestamp(NOW)
    assert found == (NOW, 0, 0)
    for offset in range(0, again.log_end_offset, 5):
        assert again.read(offset, 1, at_least_one=True).size
