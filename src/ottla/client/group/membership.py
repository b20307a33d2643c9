"""Membership: who a consumer is in its group: member id, generation, and what state it is in.

The one place for both protocols; the loops (classic.py, consumer_protocol.py) change it, commits and the health view
read it. A generation is called a member epoch by KIP-848.

Invariant: member id and generation change together, in `joined`, `fenced` and `forgotten`; a request takes both at
once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

NO_GENERATION: Final = -1


class GroupMetadata(NamedTuple):
    """Who a member is, for a transaction that commits offsets of its group (KIP-447)."""

    group_id: str
    generation: int = NO_GENERATION
    member_id: str = ""
    instance_id: str | None = None


class MembershipState(Enum):
    """What a member is doing; the words are those of the health view."""

    UNJOINED = "not in the group yet"
    JOINING = "joining"
    STABLE = "stable"
    REVOKING = "giving partitions up"
    STOPPED = "stopped"
    """Until the program asks for more, and gets the error."""
    LEFT = "left"


_COMMITS: Final = (MembershipState.STABLE, MembershipState.REVOKING)
_OVER: Final = (MembershipState.STOPPED, MembershipState.LEFT)


class Membership:
    """Of one consumer in one group."""

    def __init__(self, group_id: str, instance_id: str | None = None) -> None:
        self.group_id = group_id
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = NO_GENERATION
        self.state = MembershipState.UNJOINED
        self.reason = ""
        """Why it is in this state, where that needs words."""
        self._waiters: dict[asyncio.Future[None], None] = {}

    def __str__(self) -> str:
        return f"member {self.member_id or '(new)'} of group {self.group_id}"

    def metadata(self) -> GroupMetadata:
        """The member as it is now, as a value."""
        return GroupMetadata(self.group_id, self.generation, self.member_id, self.instance_id)

    def move(self, state: MembershipState, reason: str = "") -> None:
        self.state, self.reason = state, reason
        self.look_again()

    def look_again(self) -> None:
        """Has all that wait look whether what they want has come about."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def joined(self, member_id: str, generation: int) -> None:
        self.member_id, self.generation = member_id, generation

    def fenced(self) -> None:
        """The generation is over, the member is still known."""
        self.generation = NO_GENERATION

    def forgotten(self) -> None:
        """The coordinator does not know it (any more)."""
        self.member_id, self.generation = "", NO_GENERATION

    @property
    def may_commit(self) -> bool:
        """Whether the coordinator takes commits from it now: not while it joins."""
        return self.state in _COMMITS

    @property
    def is_over(self) -> bool:
        """Whether it will not be in the group before the program does something."""
        return self.state in _OVER

    async def wait_for(self, wanted: Callable[[], bool]) -> None:
        """Until a change of state, or `look_again`, finds it."""
        while not wanted():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters[waiter] = None
            try:
                await waiter
            finally:
                self._waiters.pop(waiter, None)
