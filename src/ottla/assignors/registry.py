"""The assignors by the names that members and coordinators choose them by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from ottla.assignors.protocol import encode_cooperative_data, encode_sticky_data
from ottla.assignors.range import assign_range
from ottla.assignors.roundrobin import assign_roundrobin
from ottla.assignors.sticky import assign_cooperative_sticky, assign_sticky
from ottla.assignors.subscription import Assignment, MemberSubscription, Partition, TopicLayout
from ottla.assignors.target import T, Target, TargetMember, target_range, target_uniform


def _no_user_data(owned: Iterable[Partition], generation: int) -> bytes | None:
    return None


@dataclass(frozen=True, slots=True)
class Assignor:
    """An assignor of classic groups, under the name by which members choose it."""

    name: str
    assign: Callable[[Sequence[MemberSubscription], Mapping[str, TopicLayout]], Assignment]
    cooperative: bool = False
    """Whether members keep what they own while they rebalance (KIP-429); otherwise they revoke all of it before."""
    user_data: Callable[[Iterable[Partition], int], bytes | None] = _no_user_data
    """What a member adds to its subscription, from what it was assigned last and in which generation."""


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {
        assignor.name: assignor
        for assignor in (
            Assignor("range", assign_range),
            Assignor("roundrobin", assign_roundrobin),
            Assignor("sticky", assign_sticky, user_data=encode_sticky_data),
            Assignor(
                "cooperative-sticky",
                assign_cooperative_sticky,
                cooperative=True,
                user_data=lambda owned, generation: encode_cooperative_data(generation),
            ),
        )
    }
)
"""The assignors of classic groups, by name."""


class TargetAssignor(Protocol):
    """An assignor of KIP-848 groups: members with their previous target, and how many partitions each topic has."""

    def __call__(self, members: Sequence[TargetMember[T]], topics: Mapping[T, int], /) -> Target[T]: ...


TARGET_ASSIGNORS: Final[Mapping[str, TargetAssignor]] = MappingProxyType(
    {"uniform": target_uniform, "range": target_range}
)
"""The assignors of KIP-848 groups, by name; the first is the default."""
