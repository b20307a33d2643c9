"""What a member does about the error codes of its coordinator: decisions, as tables, without side effects.

COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR are not here: the request is sent again,
to the coordinator that is found then (client/requests).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ottla.errors import (
    BrokerError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnreleasedInstanceIdError,
    UnstableOffsetCommitError,
    error_for,
)


class Reaction(Enum):
    """From the mildest to the hardest: where two come together, the later one counts."""

    GO_ON = "nothing went wrong"
    RETRY = "the same again, after a back-off"
    REJOIN = "join, and keep what is owned until then"
    LOSE = "what is owned is lost: join with the same member id"
    LOSE_ID = "what is owned is lost, and the member id: join as a new member"
    FAIL = "only the program can do something about it"
    FENCED = "another member has this one's place, for good"

    def __lt__(self, other: Reaction) -> bool:
        return _STRENGTH[self] < _STRENGTH[other]


_STRENGTH: Final = {reaction: strength for strength, reaction in enumerate(Reaction)}

_OK: Final = 0

_JOIN: Final = {
    MemberIdRequiredError.code: Reaction.REJOIN,
    RebalanceInProgressError.code: Reaction.REJOIN,
    UnknownMemberIdError.code: Reaction.LOSE_ID,
    # Of a classic member that a KIP-848 group has fenced.
    IllegalGenerationError.code: Reaction.LOSE,
    FencedInstanceIdError.code: Reaction.FENCED,
}
_SYNC: Final = {
    RebalanceInProgressError.code: Reaction.REJOIN,
    IllegalGenerationError.code: Reaction.LOSE,
    UnknownMemberIdError.code: Reaction.LOSE_ID,
    FencedInstanceIdError.code: Reaction.FENCED,
}
_COMMIT: Final = {
    RebalanceInProgressError.code: Reaction.REJOIN,
    IllegalGenerationError.code: Reaction.LOSE,
    UnknownMemberIdError.code: Reaction.LOSE_ID,
    FencedInstanceIdError.code: Reaction.FENCED,
    # A broker may not have heard of a topic yet.
    UnknownTopicOrPartitionError.code: Reaction.RETRY,
    UnknownTopicIdError.code: Reaction.RETRY,
    # KIP-848: the next heartbeat says in which epoch the member is.
    StaleMemberEpochError.code: Reaction.REJOIN,
    FencedMemberEpochError.code: Reaction.LOSE,
    GroupIdNotFoundError.code: Reaction.LOSE_ID,
}
_OFFSETS: Final = {
    UnstableOffsetCommitError.code: Reaction.RETRY,
    StaleMemberEpochError.code: Reaction.REJOIN,
    IllegalGenerationError.code: Reaction.LOSE,
    UnknownMemberIdError.code: Reaction.LOSE_ID,
    UnknownTopicOrPartitionError.code: Reaction.RETRY,
    UnknownTopicIdError.code: Reaction.RETRY,
}
_CONSUMER_HEARTBEAT: Final = {
    FencedMemberEpochError.code: Reaction.LOSE,
    # The id is the member's own, and stays: another one would leave the old one's partitions parked for a session.
    UnknownMemberIdError.code: Reaction.LOSE,
    GroupIdNotFoundError.code: Reaction.LOSE,
    StaleMemberEpochError.code: Reaction.LOSE,
    FencedInstanceIdError.code: Reaction.FENCED,
    UnreleasedInstanceIdError.code: Reaction.FAIL,
}


def after_join(code: int) -> Reaction:
    return _reaction(_JOIN, code)


def after_sync(code: int) -> Reaction:
    return _reaction(_SYNC, code)


def after_heartbeat(code: int) -> Reaction:
    """Of the classic protocol; its codes mean what they mean to a SyncGroup."""
    return _reaction(_SYNC, code)


def after_commit(code: int) -> Reaction:
    """Of one partition of an OffsetCommit, by either protocol."""
    return _reaction(_COMMIT, code)


def after_offset_fetch(code: int) -> Reaction:
    return _reaction(_OFFSETS, code)


def after_consumer_heartbeat(code: int) -> Reaction:
    """Of KIP-848."""
    return _reaction(_CONSUMER_HEARTBEAT, code)


def _reaction(table: dict[int, Reaction], code: int) -> Reaction:
    if code == _OK:
        return Reaction.GO_ON
    if code in table:
        return table[code]
    kind: type[BrokerError] | None = error_for(code)
    return Reaction.RETRY if kind is not None and kind.retriable else Reaction.FAIL
