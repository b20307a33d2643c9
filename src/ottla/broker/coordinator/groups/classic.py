"""Classic groups: members join, a leader among them assigns, all sync (KIP-62, KIP-345, KIP-394, KIP-814).

The states are Kafka's. A group without members is Empty. In PreparingRebalance members are parked in their joins
until all have come or the time is over; then there is a new generation, in CompletingRebalance, where they are
parked in their syncs until the assignment of the leader is committed, and the group is Stable. What a restart must
not forget is one record, written when the leader syncs, when a static member comes back, when the group is new and
when it becomes Empty; a generation that has not been synced is in memory only.

No clock, no loop: time comes in with the timers, and what is to be written goes out with the `Result`. The group is
what it says in memory; replaying its own records into it is for loading alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ottla.broker.coordinator.groups.classic_members import (
    UNKNOWN_MEMBER_ID,
    ClassicMember,
    protocols_of,
    refused_join,
)
from ottla.broker.coordinator.groups.classic_state import ClassicState, RecordedGroup
from ottla.broker.coordinator.shard import CoordinatorRecord, Parked, Result
from ottla.errors import (
    BrokerError,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnknownServerError,
)
from ottla.wire.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

_R = TypeVar("_R")

_MEMBER_ID_REQUIRED_SINCE: Final = 4
_SKIP_ASSIGNMENT_SINCE: Final = 9
_NEW_MEMBER_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a new member may be parked: no heartbeat of it says whether it is still there."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends a request, and in which version."""

    client_id: str
    client_host: str
    version: int


@dataclass(slots=True)
class _Writes:
    """What a change of the group writes, beside the response of the request that has caused it."""

    records: Sequence[CoordinatorRecord] = ()
    on_commit: Callable[[BrokerError | None], object] | None = None

    def with_response(self, response: _R | Parked[_R]) -> Result[_R]:
        return Result(self.records, response, replay=False, on_commit=self.on_commit)


class ClassicGroup(RecordedGroup):
    """One group."""

    def start(self) -> None:
        """The coordinator has loaded it: every member has a whole session to be heard of."""
        for member in self.members:
            self._renew(member)
        if len(self.members) > self._rules.max_size():
            self._prepare_rebalance()

    def committed(self, member_id: str) -> None:
        """A commit of a member renews its session."""
        if (
            self.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE)
            and member_id in self.members
        ):
            self._renew(self.members[member_id])

    # Requests

    def join(self, request: JoinGroupRequest, sender: Sender) -> Result[JoinGroupResponse]:
        """One with an unknown member id makes a member, or an id for it (KIP-394)."""
        member_id = request.member_id
        names = [each.name for each in request.protocols]
        if not self._has_room(member_id):
            self.members.remove(member_id)
            return _answer(refused_join(UNKNOWN_MEMBER_ID, GroupMaxSizeReachedError))
        if not self._supports(request.protocol_type, names):
            return _answer(refused_join(member_id, InconsistentGroupProtocolError))
        if member_id == UNKNOWN_MEMBER_ID:
            return self._join_new(request, sender)
        if member_id in self.members.pending:
            if request.group_instance_id is not None:
                raise UnknownServerError
            return self._add(request, sender, member_id)
        try:
            member = self.members.check(member_id, request.group_instance_id)
        except BrokerError as error:
            return _answer(refused_join(member_id, error))
        unchanged = member.protocols == protocols_of(request)
        if self.state is ClassicState.COMPLETING_REBALANCE and unchanged:
            return _answer(self._joined(member, with_members=self.members.leader == member_id))
        if self.state is ClassicState.STABLE and unchanged and self.members.leader != member_id:
            return _answer(self._joined(member, with_members=False))
        if self.state is ClassicState.EMPTY:
            return _answer(refused_join(UNKNOWN_MEMBER_ID, UnknownMemberIdError))
        self._update(member, request)
        parked = self.members.park_join(member)
        return self._rebalance_or_complete().with_response(parked)

    def sync(self, request: SyncGroupRequest) -> Result[SyncGroupResponse]:
        try:
            member = self.members.check(request.member_id, request.group_instance_id)
            if request.generation_id != self.generation:
                raise IllegalGenerationError
            if request.protocol_type not in (None, self.protocol_type) or request.protocol_name not in (
                None,
                self.protocol,
            ):
                raise InconsistentGroupProtocolError
            if self.state is ClassicState.PREPARING_REBALANCE:
                raise RebalanceInProgressError
        except BrokerError as error:
            return _answer(SyncGroupResponse(error_code=error.code))
        self._has_synced(member)
        if self.state is ClassicState.STABLE:
            return _answer(self._synced(member))
        parked = self.members.park_sync(member)
        if member.member_id != self.members.leader:
            return Result([], parked)
        return self._assign(
            {each.member_id: bytes(each.assignment) for each in request.assignments}
        ).with_response(parked)

    def heartbeat(self, request: HeartbeatRequest) -> Result[HeartbeatResponse]:
        member = self.members.check(request.member_id, request.group_instance_id)
        if request.generation_id != self.generation:
            raise IllegalGenerationError
        self._renew(member)
        if self.state is ClassicState.PREPARING_REBALANCE:
            return _answer(HeartbeatResponse(error_code=RebalanceInProgressError.code))
        return _answer(HeartbeatResponse())

    def leave(self, request: LeaveGroupRequest) -> Result[LeaveGroupResponse]:
        """Several at once, and one rebalance for all of them."""
        response = LeaveGroupResponse()
        has_changed = False
        for identity in request.members:
            code = self._leave(identity.member_id, identity.group_instance_id)
            has_changed |= code == 0
            response.members.append(
                LeaveGroupResponse.MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=code,
                )
            )
        writes = _Writes()
        if has_changed and self.state is not ClassicState.EMPTY:
            writes = self._rebalance_or_complete()
        return writes.with_response(response)

    def _leave(self, member_id: str, instance_id: str | None) -> int:
        if member_id == UNKNOWN_MEMBER_ID:
            known = None if instance_id is None else self.members.static_member_id(instance_id)
            if known is None:
                return UnknownMemberIdError.code
            self._remove(known)
            return 0
        if member_id not in self.members.pending:
            try:
                self.members.check(member_id, instance_id)
            except BrokerError as error:
                return error.code
        self._remove(member_id)
        return 0

    # Joining

    def _has_room(self, member_id: str) -> bool:
        most = self._rules.max_size()
        if self.state is ClassicState.EMPTY:
            return True
        is_member = member_id in self.members
        if self.state is ClassicState.PREPARING_REBALANCE:
            is_parked = is_member and self.members[member_id].join is not None
            return is_parked or self.members.awaiting_join < most
        return is_member or len(self.members) < most

    def _supports(self, protocol_type: str, names: Sequence[str]) -> bool:
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type and names)
        return protocol_type == self.protocol_type and self.members.supports_any(names)

    def _join_new(self, request: JoinGroupRequest, sender: Sender) -> Result[JoinGroupResponse]:
        instance_id = request.group_instance_id
        member_id = f"{sender.client_id if instance_id is None else instance_id}-{self._rules.new_id()}"
        if instance_id is not None:
            if self.members.static_member_id(instance_id) is not None:
                return self._replace(request, sender, instance_id, member_id)
            return self._add(request, sender, member_id)
        if sender.version < _MEMBER_ID_REQUIRED_SINCE:
            return self._add(request, sender, member_id)
        self.members.pending[member_id] = None
        self._expire_in(member_id, request.session_timeout_ms)
        return _answer(refused_join(member_id, MemberIdRequiredError))

    def _add(self, request: JoinGroupRequest, sender: Sender, member_id: str) -> Result[JoinGroupResponse]:
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            sender.client_id,
            sender.client_host,
            _rebalance_timeout(request),
            request.session_timeout_ms,
            request.protocol_type,
            protocols_of(request),
            is_new=True,
        )
        if self.state is ClassicState.PREPARING_REBALANCE and self._before is ClassicState.EMPTY:
            self._has_grown = True
        if not self.members:
            self.protocol_type = request.protocol_type
        self.members.add(member)
        parked = self.members.park_join(member)
        self._expire_in(member_id, _NEW_MEMBER_TIMEOUT_MS)
        return self._rebalance_or_complete().with_response(parked)

    def _update(self, member: ClassicMember, request: JoinGroupRequest) -> None:
        self.members.update(
            member, protocols_of(request), _rebalance_timeout(request), request.session_timeout_ms
        )

    def _replace(
        self, request: JoinGroupRequest, sender: Sender, instance_id: str, member_id: str
    ) -> Result[JoinGroupResponse]:
        """A static member is back. As long as it changes nothing, nobody else notices."""
        old_leader = self.members.leader
        old_id = self.members.static_member_id(instance_id)
        assert old_id is not None
        self._rules.timers.cancel(("session", self.group_id, old_id))
        member = self.members.replace(instance_id, member_id)
        self._renew(member)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._update(member, request)
        parked = self.members.park_join(member)
        if self.state is ClassicState.STABLE and self.members.choose_protocol() == self.protocol:

            def written(error: BrokerError | None) -> None:
                if error is not None:
                    self.members.complete_join(member, refused_join(UNKNOWN_MEMBER_ID, error))
                    self._undo_replacement(instance_id, member, old_id, before)
                    return
                is_leader = self.members.leader == member_id
                response = self._joined(member, with_members=is_leader)
                if sender.version >= _SKIP_ASSIGNMENT_SINCE:
                    response.skip_assignment = is_leader
                else:
                    # With the id of the old leader the client takes itself for a follower, and assigns nothing.
                    response.leader, response.members = old_leader or "", []
                self.members.complete_join(member, response)

            return _Writes([self.record()], written).with_response(parked)
        if self.state is ClassicState.PREPARING_REBALANCE:
            return self._complete_if_all_have_joined().with_response(parked)
        return self._prepare_rebalance().with_response(parked)

    def _undo_replacement(
        self, instance_id: str, member: ClassicMember, old_id: str, before: tuple[Any, int, int]
    ) -> None:
        if self.members.static_member_id(instance_id) != member.member_id:
            return
        self.members.update(member, *before)
        self._rules.timers.cancel(("session", self.group_id, member.member_id))
        self._renew(self.members.replace(instance_id, old_id))

    # Rebalances

    def _rebalance_or_complete(self) -> _Writes:
        if self.state is ClassicState.PREPARING_REBALANCE:
            return self._complete_if_all_have_joined()
        return self._prepare_rebalance()

    def prepare_rebalance(self) -> Result[None]:
        """Lets every member join again."""
        return self._prepare_rebalance().with_response(None)

    def _prepare_rebalance(self) -> _Writes:
        if self.state is ClassicState.COMPLETING_REBALANCE:
            self._refuse_syncs(RebalanceInProgressError())
        self._end_sync_phase()
        is_initial = self.state is ClassicState.EMPTY
        self._move(ClassicState.PREPARING_REBALANCE)
        if is_initial:
            delay = self._rules.initial_delay_ms()
            remaining = max(self.members.rebalance_timeout_ms - delay, 0)
            self._wait_for_more(delay, remaining)
            return _Writes()
        if self.members.have_all_joined:
            return self._complete_join()
        self._schedule_join(self.members.rebalance_timeout_ms, lambda: self._complete_join())
        return _Writes()

    def _wait_for_more(self, delay_ms: int, remaining_ms: int) -> None:
        """Others may be about to come: the first rebalance of a group waits for them."""

        def over() -> _Writes:
            if not self._has_grown or not remaining_ms:
                return self._complete_join()
            self._has_grown = False
            again = min(self._rules.initial_delay_ms(), remaining_ms)
            self._wait_for_more(again, max(remaining_ms - delay_ms, 0))
            return _Writes()

        self._schedule_join(delay_ms, over)

    def _schedule_join(self, delay_ms: int, over: Callable[[], _Writes]) -> None:
        self._schedule(
            ("join", self.group_id),
            delay_ms,
            lambda: over() if self.state is ClassicState.PREPARING_REBALANCE else _Writes(),
        )

    def _complete_if_all_have_joined(self) -> _Writes:
        # The first rebalance of a group ends with its timer, and not before.
        if (
            self.state is ClassicState.PREPARING_REBALANCE
            and self._before is not ClassicState.EMPTY
            and self.members.have_all_joined
        ):
            return self._complete_join()
        return _Writes()

    def _complete_join(self) -> _Writes:
        """The join phase is over: a new generation of those that have come, and of static members."""
        self._rules.timers.cancel(("join", self.group_id))
        for member in self.members.not_rejoined():
            if not member.is_static:
                self._remove(member.member_id)
        if not self.members.elect_joined_leader() and len(self.members):
            self._schedule_join(self.members.rebalance_timeout_ms, lambda: self._complete_join())
            return _Writes()
        self.generation += 1
        self._has_grown = False
        self.members.not_synced = {}
        if not len(self.members):
            self.protocol = None
            self._subscribed = self._subscribed_topics()
            self._move(ClassicState.EMPTY)
            return _Writes([self.record()])
        self.protocol = self.members.choose_protocol()
        self._subscribed = self._subscribed_topics()
        self._move(ClassicState.COMPLETING_REBALANCE)
        for member in self.members:
            response = self._joined(member, with_members=self.members.leader == member.member_id)
            self.members.complete_join(member, response)
            self._renew(member)
            member.is_new = False
            self.members.not_synced[member.member_id] = None
        self._schedule(("sync", self.group_id), self.members.rebalance_timeout_ms, self._expire_syncs)
        return _Writes()

    def _joined(self, member: ClassicMember, *, with_members: bool) -> JoinGroupResponse:
        listed = [
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                metadata=each.metadata(self.protocol),
            )
            for each in (self.members if with_members else ())
        ]
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=self.members.leader or "",
            member_id=member.member_id,
            members=listed,
        )

    # Assignments

    def _assign(self, assignments: dict[str, bytes]) -> _Writes:
        """The leader has synced. Nobody gets an assignment that a restart could forget."""
        generation = self.generation

        def written(error: BrokerError | None) -> None:
            if self.state is not ClassicState.COMPLETING_REBALANCE or self.generation != generation:
                return
            if error is not None:
                self._refuse_syncs(error)
                self._prepare_rebalance()
                return
            for member in self.members:
                member.assignment = assignments.get(member.member_id, b"")
            self._move(ClassicState.STABLE)
            for member in self.members:
                if self.members.complete_sync(member, self._synced(member)):
                    self._renew(member)

        return _Writes([self.record(assignments)], written)

    def _synced(self, member: ClassicMember) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.protocol_type, protocol_name=self.protocol, assignment=member.assignment
        )

    def _refuse_syncs(self, error: BrokerError) -> None:
        for member in self.members:
            member.assignment = b""
            if self.members.complete_sync(member, SyncGroupResponse(error_code=error.code)):
                self._renew(member)

    def _has_synced(self, member: ClassicMember) -> None:
        self.members.not_synced.pop(member.member_id, None)
        if not self.members.not_synced:
            self._rules.timers.cancel(("sync", self.group_id))

    def _end_sync_phase(self) -> None:
        self.members.not_synced = {}
        self._rules.timers.cancel(("sync", self.group_id))

    def _expire_syncs(self) -> _Writes:
        if (
            self.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
            or not self.members.not_synced
        ):
            return _Writes()
        for member_id in list(self.members.not_synced):
            self._remove(member_id)
        return self._prepare_rebalance()

    # Sessions

    def _renew(self, member: ClassicMember) -> None:
        self._expire_in(member.member_id, member.session_timeout_ms)

    def _expire_in(self, member_id: str, delay_ms: int) -> None:
        self._schedule(("session", self.group_id, member_id), delay_ms, lambda: self._expire(member_id))

    def _expire(self, member_id: str) -> _Writes:
        if member_id in self.members:
            if self.members[member_id].is_satisfied:
                return _Writes()
            self._remove(member_id)
            if self.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
                return self._prepare_rebalance()
        else:
            self._remove(member_id)
        if self.state is ClassicState.PREPARING_REBALANCE and self.members.have_all_joined:
            return self._complete_join()
        return _Writes()

    def _remove(self, member_id: str) -> None:
        self._rules.timers.cancel(("session", self.group_id, member_id))
        self.members.remove(member_id)

    def dispose(self, error: BrokerError) -> None:
        """The group goes, or becomes another: what is parked gets this error, and no timer is left."""
        for member in self.members:
            self.members.complete_join(member, refused_join(member.member_id, error))
            self.members.complete_sync(member, SyncGroupResponse(error_code=error.code))
            self._rules.timers.cancel(("session", self.group_id, member.member_id))
        for member_id in self.members.pending:
            self._rules.timers.cancel(("session", self.group_id, member_id))
        self._rules.timers.cancel(("join", self.group_id))
        self._rules.timers.cancel(("sync", self.group_id))

    def _schedule(self, key: Hashable, delay_ms: int, due: Callable[[], _Writes]) -> None:
        self._rules.timers.schedule(key, delay_ms / 1000, lambda shard: due().with_response(None))


def _rebalance_timeout(request: JoinGroupRequest) -> int:
    """Version 0 has none of its own."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms


def _answer(response: _R) -> Result[_R]:
    return Result([], response)
