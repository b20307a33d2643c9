"""Random lives of a classic group: whatever its members do, its rules hold."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.broker.coordinator.groups.classic import ClassicGroup
from ottla.broker.coordinator.groups.classic_state import ClassicState
from ottla.broker.coordinator.shard import Parked
from ottla.errors import CoordinatorNotAvailableError
from ottla.wire.messages import JoinGroupResponse, SyncGroupResponse
from tests.broker.coordinator.groups.classic_world import ClassicWorld

INSTANCES = ("i", "j")


class ClassicGroupLife(RuleBasedStateMachine):
    """Members join, sync, fall silent, leave, come back; records are committed late, or never."""

    def __init__(self) -> None:
        super().__init__()
        self.world = ClassicWorld(initial_delay_ms=1000, max_size=5)
        self.world.holding = True
        self.highest = 0
        self.ids: list[tuple[str, str | None]] = []
        self.waiting: list[tuple[Parked[Any], list[object]]] = []
        self.assigned: dict[tuple[int, str], bytes] = {}

    @property
    def group(self) -> ClassicGroup:
        return self.world.group

    def _watch(self, response: object) -> None:
        if isinstance(response, Parked):
            ends: list[object] = []
            response.then(lambda parked: ends.append(parked.response))
            self.waiting.append((response, ends))

    def _member(self, number: int) -> tuple[str, str | None]:
        """Mostly one that the group knows; sometimes one that it has forgotten."""
        known = [(member.member_id, member.instance_id) for member in self.group.members]
        known += [(member_id, None) for member_id in self.group.members.pending]
        if not known or number == 0:
            return self.ids[number % len(self.ids)]
        return known[number % len(known)]

    @rule(version=st.sampled_from([3, 4, 9]), names=st.sampled_from([("a",), ("a", "b"), ("b", "a")]))
    def join_as_someone_new(self, version: int, names: tuple[str, ...]) -> None:
        response = self.world.join(version=version, names=names)
        self._watch(response)
        if isinstance(response, JoinGroupResponse) and response.member_id:
            self.ids.append((response.member_id, None))
        self._learn()

    @rule(instance=st.sampled_from(INSTANCES), version=st.sampled_from([8, 9]))
    def join_as_a_static_member(self, instance: str, version: int) -> None:
        self._watch(self.world.join(instance=instance, version=version, names=("a", "b")))
        self._learn()

    def _learn(self) -> None:
        known = {member_id for member_id, _ in self.ids}
        self.ids += [
            (member.member_id, member.instance_id)
            for member in self.group.members
            if member.member_id not in known
        ]

    @precondition(lambda self: self.ids)
    @rule(number=st.integers(0, 12), metadata=st.sampled_from([b"", b"x"]))
    def join_again(self, number: int, metadata: bytes) -> None:
        member_id, instance = self._member(number)
        if member_id in self.group.members.pending:
            instance = None
        self._watch(self.world.join(member_id, instance=instance, names=("a", "b"), metadata=metadata))

    @rule()
    def join_with_the_ids_that_were_given_out(self) -> None:
        for member_id in list(self.group.members.pending):
            self._watch(self.world.join(member_id, names=("a", "b")))

    @precondition(lambda self: len(self.group.members) > 0)
    @rule(
        syncing=st.lists(st.integers(0, 4), max_size=5, unique=True),
        is_committed=st.sampled_from([True, True, False]),
    )
    def rebalance_together(self, syncing: list[int], is_committed: bool) -> None:
        """All that the group knows join, some of them sync: where random steps seldom come by themselves."""
        self.join_with_the_ids_that_were_given_out()
        for member in self.group.members:
            if member.join is None and member.member_id in self.group.members:
                response = self.world.join(member.member_id, instance=member.instance_id, names=("a", "b"))
                self._watch(response)
        self.world.timers.advance(1.0)
        for number in syncing:
            if len(self.group.members):
                members = list(self.group.members)
                member = members[number % len(members)]
                self._sync(member.member_id, member.instance_id, self.group.generation)
        if is_committed:
            self.world.commit()

    @precondition(lambda self: self.ids)
    @rule(number=st.integers(0, 12), generation=st.sampled_from([-1, 0, 0, 0]))
    def sync(self, number: int, generation: int) -> None:
        self._sync(*self._member(number), self.group.generation + generation)

    def _sync(self, member_id: str, instance: str | None, generation: int) -> None:
        plan = {each.member_id: f"{generation}-{each.member_id}".encode() for each in self.group.members}
        response = self.world.sync(member_id, generation, plan, instance=instance)
        self._watch(response)
        if isinstance(response, SyncGroupResponse) and response.error_code == 0:
            # What is answered at once is of the generation that the group is in.
            assert response.assignment in (b"", self._part(generation, member_id))

    def _part(self, generation: int, member_id: str) -> bytes:
        """A static member has what its older self got."""
        members = self.group.members
        return members[member_id].assignment if member_id in members else b""

    @precondition(lambda self: self.ids)
    @rule(number=st.integers(0, 12))
    def heartbeat(self, number: int) -> None:
        member_id, instance = self._member(number)
        self.world.heartbeat(member_id, instance=instance)

    @precondition(lambda self: self.ids)
    @rule(number=st.integers(0, 12), by_instance=st.booleans())
    def leave(self, number: int, by_instance: bool) -> None:
        member_id, instance = self._member(number)
        self.world.leave(("" if by_instance else member_id, instance))

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 1.0, 4.0, 11.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.timers.advance(seconds)

    @rule(fails=st.sampled_from([False, False, True]))
    def records_are_committed(self, fails: bool) -> None:
        self.world.commit(CoordinatorNotAvailableError() if fails else None)

    @invariant()
    def one_leader_is_a_member(self) -> None:
        members = self.group.members
        assert (members.leader is None) == (len(members) == 0)
        assert members.leader is None or members.leader in members

    @invariant()
    def generations_grow(self) -> None:
        assert self.group.generation >= self.highest
        self.highest = self.group.generation

    @invariant()
    def only_a_group_without_members_is_empty(self) -> None:
        if self.group.state is ClassicState.EMPTY:
            assert len(self.group.members) == 0
        if self.group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            assert len(self.group.members) > 0

    @invariant()
    def joins_wait_in_one_state_and_syncs_in_another(self) -> None:
        for member in self.group.members:
            if member.sync is not None:
                assert self.group.state is ClassicState.COMPLETING_REBALANCE
            if member.join is not None:
                # One whose return is not yet stored waits in a stable group.
                assert self.group.state in (ClassicState.PREPARING_REBALANCE, ClassicState.STABLE)
        parked = sum(member.join is not None for member in self.group.members)
        assert self.group.members.awaiting_join == parked

    @invariant()
    def a_parked_request_has_one_response(self) -> None:
        live = {id(member.join) for member in self.group.members} | {
            id(member.sync) for member in self.group.members
        }
        for parked, ends in self.waiting:
            assert len(ends) == parked.is_done
            assert parked.is_done or id(parked) in live

    @invariant()
    def an_assignment_is_of_the_generation_in_which_it_was_made(self) -> None:
        if self.group.state is ClassicState.STABLE:
            for member in self.group.members:
                if member.assignment:
                    assert member.assignment.startswith(f"{self.group.generation}-".encode())

    def teardown(self) -> None:
        self.world.commit()
        for _ in range(40):
            self.world.timers.advance(61)
            self.world.commit()
        assert self.group.state is ClassicState.EMPTY
        assert self.group.members.pending == {}
        assert self.world.timers.keys == set()
        assert all(parked.is_done for parked, _ in self.waiting)


TestClassicGroupLife = ClassicGroupLife.TestCase
TestClassicGroupLife.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
