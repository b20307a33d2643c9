"""The producers of a log against a model of a few lines: whatever is sent, in any order, and after every restart.

The model keeps lists instead of state: every batch that was taken and every marker, in the order of the log. Each
rule is computed from them anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.log.guards import Guard
from ottla.broker.log.log import Origin
from ottla.broker.log.producers import REMEMBERED_BATCHES
from ottla.broker.log.validation import only_batch
from ottla.errors import BrokerError
from ottla.wire.batches import ControlType
from tests.broker.log.support import NOW, copy_of, make_batch, make_marker, open_log

_T = TypeVar("_T")

OUT_OF_ORDER, INVALID_EPOCH, INVALID_STATE, COORDINATOR_FENCED = 45, 47, 48, 52

producers = st.integers(1, 3)
epochs = st.integers(0, 3)
sequences = st.integers(0, 6)
counts = st.integers(1, 2)


@dataclass
class Written:
    """A batch or a marker in the log."""

    offset: int
    end: int
    producer: int
    epoch: int
    sequence: int = -1
    transactional: bool = False
    outcome: ControlType | None = None
    coordinator_epoch: int = -1


@dataclass
class Model:
    """The log."""

    written: list[Written] = field(default_factory=list)

    def of(self, producer: int) -> list[Written]:
        return [each for each in self.written if each.producer == producer]

    def epoch(self, producer: int) -> int:
        return self.of(producer)[-1].epoch if self.of(producer) else -1

    def batches(self, producer: int) -> list[Written]:
        """The last batches of the current epoch."""
        known: list[Written] = []
        epoch = -1
        for each in self.of(producer):
            if each.epoch != epoch:
                known, epoch = [], each.epoch
            if each.outcome is None:
                known.append(each)
        return known[-REMEMBERED_BATCHES:]

    def opened_at(self, producer: int) -> int | None:
        opened = None
        for each in self.of(producer):
            if each.outcome is not None:
                opened = None
            elif each.transactional and opened is None:
                opened = each.offset
        return opened

    def coordinator_epoch(self, producer: int) -> int:
        ends = [each.coordinator_epoch for each in self.of(producer) if each.outcome is not None]
        return ends[-1] if ends else -1

    def first_unstable(self, replicated: int) -> int | None:
        """Of the transactions without a marker, and those whose marker is not replicated."""
        found: list[int] = []
        for producer in (1, 2, 3):
            opened = None
            for each in self.of(producer):
                if each.outcome is not None:
                    if opened is not None and each.offset >= replicated:
                        found.append(opened)
                    opened = None
                elif each.transactional and opened is None:
                    opened = each.offset
            if opened is not None:
                found.append(opened)
        return min(found, default=None)

    def aborted(self) -> list[tuple[int, int]]:
        found = []
        for number, each in enumerate(self.written):
            if each.outcome is ControlType.ABORT:
                opened = Model(self.written[:number]).opened_at(each.producer)
                if opened is not None:
                    found.append((each.producer, opened))
        return found


def outcome_of(call: Callable[[], _T]) -> tuple[_T | None, int]:
    """What it gives, or the code of the error with which it is refused."""
    try:
        return call(), 0
    except BrokerError as error:
        return None, error.code


class ProducerMachine(RuleBasedStateMachine):
    """One log; `restart` opens it anew from its files."""

    def __init__(self) -> None:
        super().__init__()
        self.fs = MemoryFileSystem()
        self.log = open_log(self.fs)
        self.model = Model()
        self.guards: dict[int, Guard] = {}
        self.replicated = 0

    @initialize()
    def begin(self) -> None:
        assert self.log.log_end_offset == 0

    @rule(producer=producers, epoch=epochs, sequence=sequences, adds=st.booleans())
    def ask(self, producer: int, epoch: int, sequence: int, adds: bool) -> None:
        known = self.model.epoch(producer)
        is_open = self.model.opened_at(producer) is not None and known == epoch
        guard, code = outcome_of(
            lambda: self.log.producers.guard(producer, epoch, sequence, NOW, adds_partitions=adds)
        )
        if epoch < known:
            assert code == INVALID_EPOCH
            return
        assert (code, guard is None) == (0, is_open)
        if guard is not None:
            assert self.guards.get(producer, guard) is guard
            self.guards[producer] = guard

    @rule(
        producer=producers,
        epoch=epochs,
        sequence=sequences,
        count=counts,
        transactional=st.booleans(),
        with_guard=st.booleans(),
    )
    def send(
        self, producer: int, epoch: int, sequence: int, count: int, transactional: bool, with_guard: bool
    ) -> None:
        guard = self.guards.get(producer) if with_guard else None
        data = make_batch(count, producer=(producer, epoch, sequence), transactional=transactional)
        expected = self.expected(producer, epoch, sequence, count, transactional, guard)
        appended, code = outcome_of(lambda: self.log.append_as_leader(only_batch(data), 0, NOW, guard=guard))
        if appended is None:
            assert code == expected
            return
        if appended.duplicate:
            assert expected == ("again", appended.base_offset)
            return
        assert expected is None
        assert appended.base_offset == self.end
        self.model.written.append(
            Written(self.end, self.end + count, producer, epoch, sequence, transactional)
        )
        if transactional:
            self.guards.pop(producer, None)

    def expected(
        self, producer: int, epoch: int, sequence: int, count: int, transactional: bool, guard: Guard | None
    ) -> object:
        """The code of the refusal, the offset of what is a repetition, or None."""
        known, batches = self.model.epoch(producer), self.model.batches(producer)
        is_open = self.model.opened_at(producer) is not None
        if known == epoch:
            for each in batches:
                if each.sequence == sequence and each.end - each.offset == count:
                    return ("again", each.offset)
        standing = self.guards.get(producer)
        if transactional and not (is_open and known == epoch) and (guard is None or guard is not standing):
            return INVALID_STATE
        if epoch < known:
            return INVALID_EPOCH
        if standing is not None:
            if standing.adds_partitions and sequence != 0 and not batches:
                return OUT_OF_ORDER
            if sequence > standing.lowest_sequence:
                return OUT_OF_ORDER
        if known >= 0:
            last = batches[-1].sequence + batches[-1].end - batches[-1].offset if batches else 0
            if sequence != (last if epoch == known else 0):
                return OUT_OF_ORDER
        if is_open and not transactional:
            return INVALID_STATE
        return None

    @rule(
        producer=producers,
        epoch=epochs,
        outcome=st.sampled_from([ControlType.COMMIT, ControlType.ABORT]),
        version=st.sampled_from([1, 2]),
        coordinator_epoch=st.integers(0, 2),
    )
    def end_transaction(
        self, producer: int, epoch: int, outcome: ControlType, version: int, coordinator_epoch: int
    ) -> None:
        marker = make_marker(outcome, producer, epoch=epoch, coordinator_epoch=coordinator_epoch)
        known, opened = self.model.epoch(producer), self.model.opened_at(producer)
        expected = 0
        if epoch < known or (version == 2 and epoch == known and opened is not None):
            expected = INVALID_EPOCH
        elif coordinator_epoch < self.model.coordinator_epoch(producer):
            expected = COORDINATOR_FENCED
        _, code = outcome_of(
            lambda: self.log.append_as_leader(
                only_batch(marker), 0, NOW, origin=Origin.COORDINATOR, transaction_version=version
            )
        )
        assert code == expected
        if code:
            return
        self.guards.pop(producer, None)
        self.model.written.append(
            Written(
                self.end,
                self.end + 1,
                producer,
                epoch,
                outcome=outcome,
                coordinator_epoch=coordinator_epoch,
            )
        )

    @rule(ahead=st.integers(0, 3))
    def replicate(self, ahead: int) -> None:
        self.replicated = min(self.replicated + ahead, self.end)
        self.log.replicated_to(self.replicated)

    @precondition(lambda self: self.end > 0)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """Another leader has less; the cut falls between batches, as it does between epochs of leaders."""
        kept = data.draw(st.integers(0, len(self.model.written)))
        if kept < len(self.model.written):
            del self.model.written[kept:]
            self.guards = {}
        self.log.truncate_to(self.end)
        self.replicated = min(self.replicated, self.end)
        self.log.replicated_to(self.replicated)

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        """Of a clean end only the last batch of each producer is remembered, so nothing older is sent after it."""
        if clean:
            self.log.close()
        self.fs = copy_of(self.fs)
        self.log = open_log(self.fs)
        self.log.replicated_to(self.replicated)
        self.guards = {}
        self.forget_all_but_the_last()

    def forget_all_but_the_last(self) -> None:
        """What the log has forgotten, the model reads from it: how many batches that are is no rule of Kafka's."""
        for producer in (1, 2, 3):
            state = self.log.producers.get(producer)
            remembered = [] if state is None else [each.first_offset for each in state.batches]
            known = [each.offset for each in self.model.batches(producer)]
            assert remembered == known[len(known) - len(remembered) :]
            assert bool(remembered) == bool(known)
            for each in self.model.written:
                if each.offset in known and each.offset not in remembered:
                    each.sequence = -9

    @property
    def end(self) -> int:
        return self.model.written[-1].end if self.model.written else 0

    @invariant()
    def the_log_knows_what_the_model_knows(self) -> None:
        assert self.log.log_end_offset == self.end
        for producer in (1, 2, 3):
            state = self.log.producers.get(producer)
            if state is None:
                assert self.model.of(producer) == []
                continue
            assert state.epoch == self.model.epoch(producer)
            assert state.transaction_first_offset == self.model.opened_at(producer)
            assert state.coordinator_epoch == self.model.coordinator_epoch(producer)

    @invariant()
    def what_is_stable_and_aborted_is_what_the_model_says(self) -> None:
        assert self.log.aborted(0, self.end) == self.model.aborted()
        stable, known = self.log.first_unstable_offset, self.model.first_unstable(self.replicated)
        # A marker that a clean end has written down is decided, however far the replicas had come.
        assert stable == known or (known is not None and (stable is None or stable > known))


ProducerMachine.TestCase.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestProducerMachine = ProducerMachine.TestCase
