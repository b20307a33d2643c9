"""A classic group without a coordinator: tests run its timers, and say when its records are committed."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from itertools import count
from typing import Any, TypeVar

from ottla.broker.coordinator.groups.classic import ClassicGroup, Sender
from ottla.broker.coordinator.groups.classic_state import ClassicRules
from ottla.broker.coordinator.groups.records import GroupMetadataValue, decode
from ottla.broker.coordinator.shard import CoordinatorRecord, Parked, Result
from ottla.errors import BrokerError
from ottla.wire.messages import (
    ConsumerProtocolSubscription,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)

_R = TypeVar("_R")

SESSION_MS = 10_000
REBALANCE_MS = 60_000


class ManualTimers:
    """Timers that run when time is moved."""

    def __init__(self, run: Callable[[Callable[[Any], Result[Any]]], object]) -> None:
        self.now_ms = 1_000_000
        self._run = run
        self._numbers = count()
        self._due: list[tuple[float, int, Hashable]] = []
        self._live: dict[Hashable, tuple[int, Callable[[Any], Result[Any]]]] = {}

    def schedule(self, key: Hashable, delay: float, operation: Callable[[Any], Result[Any]]) -> None:
        number = next(self._numbers)
        self._live[key] = (number, operation)
        heapq.heappush(self._due, (self.now_ms + delay * 1000, number, key))

    def cancel(self, key: Hashable) -> None:
        self._live.pop(key, None)

    @property
    def keys(self) -> set[Hashable]:
        return set(self._live)

    def advance(self, seconds: float) -> None:
        end = self.now_ms + seconds * 1000
        while self._due and self._due[0][0] <= end:
            due, number, key = heapq.heappop(self._due)
            live = self._live.get(key)
            if live is None or live[0] != number:
                continue
            del self._live[key]
            self.now_ms = max(self.now_ms, int(due))
            self._run(live[1])
        self.now_ms = int(end)


class ClassicWorld:
    """One group, and everything that it writes."""

    def __init__(self, *, initial_delay_ms: int = 0, max_size: int = 1000) -> None:
        self.timers = ManualTimers(lambda operation: self.apply(operation(None)))
        self.max_size = max_size
        numbers = count(1)
        self.rules = ClassicRules(
            timers=self.timers,
            now_ms=lambda: self.timers.now_ms,
            new_id=lambda: str(next(numbers)),
            max_size=lambda: self.max_size,
            initial_delay_ms=lambda: initial_delay_ms,
        )
        self.group = ClassicGroup("g", self.rules)
        self.written: list[CoordinatorRecord] = []
        self.holding = False
        """Whether records wait for `commit` instead of being committed at once."""
        self._held: list[Result[Any]] = []

    def apply(self, result: Result[_R]) -> _R | Parked[_R]:
        self.written += result.records
        if result.on_commit is not None:
            if self.holding:
                self._held.append(result)
            else:
                result.on_commit(None)
        return result.response

    def commit(self, error: BrokerError | None = None) -> None:
        held, self._held = self._held, []
        for result in held:
            assert result.on_commit is not None
            result.on_commit(error)

    @property
    def last_value(self) -> GroupMetadataValue:
        _, value = decode(self.written[-1].key, self.written[-1].value)
        assert isinstance(value, GroupMetadataValue)
        return value

    # Requests

    def join(
        self,
        member_id: str = "",
        *,
        version: int = 9,
        instance: str | None = None,
        names: tuple[str, ...] = ("range",),
        metadata: bytes = b"",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        protocol_type: str = "consumer",
    ) -> JoinGroupResponse | Parked[JoinGroupResponse]:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names
            ],
        )
        return self.apply(self.group.join(request, Sender("c", "/127.0.0.1", version)))

    def new_id(self, **options: Any) -> str:
        """An id that a dynamic member has got, with which it has not joined yet."""
        response = self.join(**options)
        assert isinstance(response, JoinGroupResponse)
        assert response.error_code == 79
        return response.member_id

    def parked(self, member_id: str = "", **options: Any) -> Parked[JoinGroupResponse]:
        response = self.join(member_id, **options)
        assert isinstance(response, Parked)
        return response

    def refused(self, member_id: str = "", **options: Any) -> int:
        response = self.join(member_id, **options)
        assert isinstance(response, JoinGroupResponse)
        return response.error_code

    def sync(
        self,
        member_id: str,
        generation: int | None = None,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol: str | None = None,
    ) -> SyncGroupResponse | Parked[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id="g",
            generation_id=self.group.generation if generation is None else generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=each, assignment=assignment)
                for each, assignment in (assignments or {}).items()
            ],
        )
        return self.apply(self.group.sync(request))

    def heartbeat(self, member_id: str, generation: int | None = None, instance: str | None = None) -> int:
        request = HeartbeatRequest(
            group_id="g",
            generation_id=self.group.generation if generation is None else generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        try:
            response = self.apply(self.group.heartbeat(request))
        except BrokerError as error:
            return error.code
        assert isinstance(response, HeartbeatResponse)
        return response.error_code

    def leave(self, *members: tuple[str, str | None]) -> list[int]:
        request = LeaveGroupRequest(
            group_id="g",
            members=[
                LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance)
                for member_id, instance in members
            ],
        )
        response = self.apply(self.group.leave(request))
        assert not isinstance(response, Parked)
        return [member.error_code for member in response.members]

    # Whole phases

    def stable(self, *instances: str | None, **options: Any) -> list[str]:
        """A stable group of as many new members; their ids, the leader first."""
        ids = [self.new_id(**options) if instance is None else "" for instance in instances]
        joins = [
            self.parked(member_id, instance=instance, **options)
            for member_id, instance in zip(ids, instances, strict=True)
        ]
        self.timers.advance(0.0)
        members = [joined(join).member_id for join in joins]
        syncs = [self.sync(member) for member in members if member != self.group.members.leader]
        leader = self.group.members.leader
        assert leader is not None
        synced(self.sync(leader, assignments={member: member.encode() for member in members}))
        assert [synced(each).error_code for each in syncs] == [0] * len(syncs)
        return members


def joined(response: JoinGroupResponse | Parked[JoinGroupResponse]) -> JoinGroupResponse:
    """The response of a join, which has to be there."""
    if isinstance(response, Parked):
        assert response.response is not None
        return response.response
    return response


def synced(response: SyncGroupResponse | Parked[SyncGroupResponse]) -> SyncGroupResponse:
    if isinstance(response, Parked):
        assert response.response is not None
        return response.response
    return response


def subscription(*topics: str) -> bytes:
    """What a consumer sends with its protocol."""
    return b"\0\0" + ConsumerProtocolSubscription(topics=list(topics)).encode(0)
