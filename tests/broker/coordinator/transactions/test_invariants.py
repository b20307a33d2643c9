"""Random lives of a transactional id: whatever producers, replicas and coordinators do, its rules hold.

Producers send every request that they could send, old ones again as well. What is written is on all replicas later,
or never: a coordinator that fails takes with it what was not. The next one loads what is left.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.broker.coordinator.shard import Result
from ottla.broker.coordinator.transactions.markers import PendingEnd
from ottla.broker.coordinator.transactions.records import decode
from ottla.broker.coordinator.transactions.state import (
    ProducerIdAndEpoch,
    TransactionalIdState,
    TransactionalIdStatus,
)
from ottla.errors import BrokerError
from tests.broker.coordinator.transactions.shards import ID, LoneTransactions

PARTITIONS = [("orders", 0), ("orders", 1), ("payments", 0)]
ONGOING = TransactionalIdStatus.ONGOING
NEAR_THE_LAST = 32764


class TransactionalIdLife(RuleBasedStateMachine):
    """One id, its producers, and the coordinators that come after each other."""

    def __init__(self) -> None:
        super().__init__()
        self.known: list[ProducerIdAndEpoch] = []
        self.committed = 0
        # One name for each record, which outlives those that were written in its place.
        self.record_names: list[int] = []
        self.named = 0
        self.promised: list[tuple[int, int, bool]] = []
        """Ends that will be answered: the name of the record, of the transaction, and the outcome."""
        self.answered: dict[int, bool] = {}
        self.marked: dict[int, bool] = {}
        self.seen: dict[PendingEnd, None] = {}

    @initialize(version=st.sampled_from([0, 1, 2]), is_old=st.booleans())
    def begin(self, version: int, is_old: bool) -> None:
        self.world = LoneTransactions(version).begin()
        self.world.commits_at_once = False
        first = self.world.first()
        if is_old:
            state = replace(self.world.state(), epoch=NEAR_THE_LAST)
            self.world.write(lambda shard: Result([shard._write(ID, state)], None))
            first = state.producer
        self.known.append(first)
        self._observe()
        self.replicate()

    def _who(self, number: int) -> ProducerIdAndEpoch:
        """Mostly the newest."""
        return self.known[-1 - min(number, len(self.known) - 1)]

    @rule(says_who=st.booleans(), number=st.integers(0, 3))
    def init(self, says_who: bool, number: int) -> None:
        try:
            found = self.world.init(self._who(number) if says_who else None)
        except BrokerError:
            found = None
        self._observe()
        if found is not None:
            self.known.append(found)

    @rule(number=st.integers(0, 2), partition=st.sampled_from(PARTITIONS), version=st.sampled_from([0, 2]))
    def add(self, number: int, partition: tuple[str, int], version: int) -> None:
        try:
            self.world.add(self._who(number), partition, client_version=version)
        except BrokerError:
            return
        finally:
            self._observe()

    @rule(number=st.integers(0, 2), is_commit=st.booleans(), bumps=st.booleans())
    def end(self, number: int, is_commit: bool, bumps: bool) -> None:
        before = len(self.world.log)
        try:
            found = self.world.end(self._who(number), is_commit, bumps=bumps)
        except BrokerError:
            return
        finally:
            self._observe()
        if bumps:
            self.known.append(found)
        if len(self.world.log) > before:
            self.promised.append((self.record_names[-1], self._transaction(before), is_commit))

    @rule(seconds=st.sampled_from([5, 70]))
    def wait(self, seconds: int) -> None:
        self.world.timers.advance(seconds)
        self._observe()

    @rule()
    def replicate(self) -> None:
        self.committed = len(self.world.log)
        self.world.commit()
        for name, transaction, is_commit in self.promised:
            if name in self.record_names:
                assert self.answered.setdefault(transaction, is_commit) == is_commit
        self.promised = []
        self._observe()

    @precondition(lambda self: self.world.markers.sent)
    @rule()
    def write_markers(self) -> None:
        self.world.markers.write_all()
        self._observe()

    @rule(keeps=st.integers(0, 2))
    def fail_over(self, keeps: int) -> None:
        """The next coordinator has all that is committed, and some of the rest."""
        last = min(len(self.world.log), self.committed + keeps)
        del self.world.log[last:], self.record_names[last:]
        self.promised = [each for each in self.promised if each[0] in self.record_names]
        self.world = self.world.loaded()
        self.world.commits_at_once = False
        self.committed = last
        self._observe()

    def _observe(self) -> None:
        """Names new records, and looks at the markers that leave."""
        while len(self.record_names) < len(self.world.log):
            self.record_names.append(self.named)
            self.named += 1
        for end in self.world.markers.sent:
            if end not in self.seen:
                self.seen[end] = None
                prepared = max(n for n, state in enumerate(self._states()) if state.is_pending)
                assert prepared < self.committed
                transaction = self._transaction(prepared)
                assert self.marked.setdefault(transaction, end.is_commit) == end.is_commit
                assert self.answered.get(transaction, end.is_commit) == end.is_commit

    def _states(self) -> list[TransactionalIdState]:
        states = []
        for record in self.world.log:
            decoded = decode(record.key, record.value)
            assert decoded is not None
            assert decoded[1] is not None
            states.append(decoded[1])
        return states

    def _transaction(self, prepared: int) -> int:
        """The name of the record with which the transaction began that ends with this one."""
        states = self._states()
        first = prepared
        while first > 0 and states[first - 1].status is ONGOING:
            first -= 1
        return self.record_names[first]

    @invariant()
    def epochs_never_go_back(self) -> None:
        if not hasattr(self, "world"):
            return
        highest: dict[int, int] = {}
        order: list[int] = []
        for state in self._states():
            assert state.epoch >= highest.get(state.producer_id, 0)
            highest[state.producer_id] = state.epoch
            if state.producer_id not in order:
                order.append(state.producer_id)
            assert order[-1] == state.producer_id  # an id that was replaced does not come back

    @invariant()
    def a_load_gives_the_same_state(self) -> None:
        if hasattr(self, "world") and self.world.shard.transaction_version:
            loaded = self.world.loaded().state()
            assert loaded == replace(self.world.state(), last_epoch=-1)


TestTransactionalIdLife = TransactionalIdLife.TestCase
TestTransactionalIdLife.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
