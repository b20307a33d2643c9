"""The members of a classic group: who they are, what they support, and which of their requests are parked.

Invariant: a parked request of a member is completed before the member goes, and before another takes its place; the
leader is a member, and there is one as long as there are members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.groups.records import MemberMetadata
from ottla.broker.coordinator.shard import Parked
from ottla.errors import (
    BrokerError,
    FencedInstanceIdError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from ottla.wire.messages import JoinGroupRequest, JoinGroupResponse, SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Collection

UNKNOWN_MEMBER_ID: Final = ""

Protocol = tuple[str, bytes]
"""A name and the metadata that the member sends with it."""


def protocols_of(request: JoinGroupRequest) -> tuple[Protocol, ...]:
    """In the order of the member's preference; of two with one name the first counts."""
    found: dict[str, bytes] = {}
    for each in request.protocols:
        found.setdefault(each.name, each.metadata)
    return tuple(found.items())


@dataclass(slots=True, eq=False)
class ClassicMember:
    """One member. Times are milliseconds."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    """It has not been in any generation yet: parked or not, it goes when its time is over."""
    join: Parked[JoinGroupResponse] | None = field(default=None, repr=False)
    sync: Parked[SyncGroupResponse] | None = field(default=None, repr=False)

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_satisfied(self) -> bool:
        """Whether it need not send heartbeats: one that waits for a rebalance cannot."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        return dict(self.protocols).get(protocol or "", b"")

    def vote(self, candidates: Collection[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)

    def as_record(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )

    @staticmethod
    def of_record(record: MemberMetadata, protocol_type: str, protocol: str | None) -> ClassicMember:
        """As it is loaded: of its protocols, only the one that was chosen is known."""
        rebalance_timeout = record.rebalance_timeout
        return ClassicMember(
            record.member_id,
            record.group_instance_id,
            record.client_id,
            record.client_host,
            record.session_timeout if rebalance_timeout == -1 else rebalance_timeout,
            record.session_timeout,
            protocol_type,
            ((protocol or "", record.subscription),),
            record.assignment,
        )


class ClassicMembers:
    """All of them, in the order of their coming."""

    def __init__(self) -> None:
        self.leader: str | None = None
        self.pending: dict[str, None] = {}
        """Ids that were given out, whose clients have not joined with them yet (KIP-394)."""
        self.not_synced: dict[str, None] = {}
        """Members that have not sent their SyncGroup in this generation."""
        self._by_id: dict[str, ClassicMember] = {}
        self._static: dict[str, str] = {}
        self._supported: Counter[str] = Counter()
        self._awaiting_join = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[ClassicMember]:
        return iter(list(self._by_id.values()))

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def __getitem__(self, member_id: str) -> ClassicMember:
        return self._by_id[member_id]

    @property
    def awaiting_join(self) -> int:
        """How many are parked in a join."""
        return self._awaiting_join

    @property
    def have_all_joined(self) -> bool:
        return len(self._by_id) == self._awaiting_join and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self._by_id.values()), default=0)

    def static_member_id(self, instance_id: str) -> str | None:
        return self._static.get(instance_id)

    def check(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member that a request names; the error that the request gets where it is not that one."""
        if instance_id is not None:
            known = self._static.get(instance_id)
            if known is None:
                raise UnknownMemberIdError
            if known != member_id:
                raise FencedInstanceIdError
        member = self._by_id.get(member_id)
        if member is None:
            raise UnknownMemberIdError
        return member

    # Who is a member

    def add(self, member: ClassicMember) -> None:
        if member.instance_id is not None:
            assert member.instance_id not in self._static, "an instance is one member"
            self._static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._by_id[member.member_id] = member
        self._supported.update(name for name, _ in member.protocols)
        self._awaiting_join += member.join is not None
        self.pending.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Takes a member or a pending id out; its parked requests get UNKNOWN_MEMBER_ID."""
        member = self._by_id.get(member_id)
        if member is not None:
            self.complete_join(member, refused_join(UNKNOWN_MEMBER_ID, UnknownMemberIdError))
            self.complete_sync(member, SyncGroupResponse(error_code=UnknownMemberIdError.code))
            del self._by_id[member_id]
            self._forget_protocols(member)
            if member.instance_id is not None:
                del self._static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._by_id), None)
        self.pending.pop(member_id, None)
        self.not_synced.pop(member_id, None)

    def replace(self, instance_id: str, new_id: str) -> ClassicMember:
        """A static member comes back and gets another id (KIP-345): requests with the old one are fenced."""
        old = self._by_id.pop(self._static[instance_id])
        self.complete_join(old, refused_join(old.member_id, FencedInstanceIdError))
        self.complete_sync(old, SyncGroupResponse(error_code=FencedInstanceIdError.code))
        new = ClassicMember(
            new_id,
            instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocol_type,
            old.protocols,
            old.assignment,
        )
        self._by_id[new_id] = new
        if self.leader == old.member_id:
            self.leader = new_id
        self.not_synced.pop(old.member_id, None)
        self._static[instance_id] = new_id
        return new

    def update(
        self,
        member: ClassicMember,
        protocols: tuple[Protocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """What a member says when it joins again."""
        self._forget_protocols(member)
        member.protocols = protocols
        self._supported.update(name for name, _ in protocols)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def _forget_protocols(self, member: ClassicMember) -> None:
        self._supported.subtract(name for name, _ in member.protocols)

    def elect_joined_leader(self) -> bool:
        """Makes sure that the leader is one of those that have joined; whether there is one."""
        if self.leader is None:
            return False
        if self._by_id[self.leader].join is None:
            joined = next((member for member in self._by_id.values() if member.join is not None), None)
            if joined is None:
                return False
            self.leader = joined.member_id
        return True

    # What they support

    def supports_any(self, names: Iterable[str]) -> bool:
        """Whether every member supports one of these."""
        return any(self._supported[name] == len(self._by_id) for name in names)

    def choose_protocol(self) -> str:
        """Each member votes for the first of its protocols that all support; the most votes decide."""
        candidates = {name for name, count in self._supported.items() if count == len(self._by_id)}
        votes = Counter(member.vote(candidates) for member in self._by_id.values())
        return votes.most_common(1)[0][0]

    # Parked requests

    def park_join(self, member: ClassicMember) -> Parked[JoinGroupResponse]:
        """The member waits in a join; an older one of its own, on a connection that it gave up, ends."""
        self.complete_join(member, refused_join(member.member_id, RebalanceInProgressError))
        member.join = Parked()
        self._awaiting_join += 1
        return member.join

    def park_sync(self, member: ClassicMember) -> Parked[SyncGroupResponse]:
        self.complete_sync(member, SyncGroupResponse(error_code=RebalanceInProgressError.code))
        member.sync = Parked()
        return member.sync

    def complete_join(self, member: ClassicMember, response: JoinGroupResponse) -> bool:
        if member.join is None:
            return False
        parked, member.join = member.join, None
        self._awaiting_join -= 1
        parked.complete(response)
        return True

    def complete_sync(self, member: ClassicMember, response: SyncGroupResponse) -> bool:
        if member.sync is None:
            return False
        parked, member.sync = member.sync, None
        parked.complete(response)
        return True

    def not_rejoined(self) -> Sequence[ClassicMember]:
        return [member for member in self._by_id.values() if member.join is None]


def refused_join(member_id: str, error: type[BrokerError] | BrokerError) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error.code, member_id=member_id, generation_id=-1, protocol_type=None, protocol_name=None
    )
