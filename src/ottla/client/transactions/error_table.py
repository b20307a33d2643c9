"""What an error code means to a transactional producer: it depends on the request that the code answers.

Kafka's client has this in its handlers, one for each request; here it is a table. Where a code is not named, the last
line of its request counts. `produce` is about batches that are given up: what is sent again is decided by
client/produce/responses.py.

Two differences from Kafka's client, both on the safe side. UNKNOWN_SERVER_ERROR in the response to EndTxn leaves open
what has become of the transaction, and the request is repeated. UNKNOWN_PRODUCER_ID for a batch always ends its
transaction; brokers since 2.5 do not say it to a producer that goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from ottla.errors import (
    ClusterAuthorizationFailedError,
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupAuthorizationFailedError,
    IllegalGenerationError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    NotCoordinatorError,
    OutOfOrderSequenceNumberError,
    ProducerFencedError,
    RequestTimedOutError,
    StaleMemberEpochError,
    TopicAuthorizationFailedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
    UnknownMemberIdError,
    UnknownProducerIdError,
    UnknownServerError,
    UnsupportedVersionError,
    error_for,
)


class TransactionalCall(Enum):
    """The requests of a transactional producer; to commit and to abort are two."""

    FIND_COORDINATOR = "FindCoordinator"
    INIT = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    COMMIT = "EndTxn, to commit"
    ABORT = "EndTxn, to abort"
    PRODUCE = "Produce"


class Consequence(Enum):
    """What is to be done; where a response has several codes, the last of these counts."""

    GO_ON = auto()
    REPEAT = auto()
    """The same request again, after a back-off."""
    LOOK_UP = auto()
    """The same, to the coordinator that is found then."""
    ABORT = auto()
    """The transaction can only be aborted."""
    ABORT_AND_BUMP = auto()
    """The same, and the next one needs another epoch: sequences of this one may be missing at a broker."""
    FATAL = auto()
    """The producer is of no use any more."""

    def __lt__(self, other: Consequence) -> bool:
        return self.value < other.value


_Codes = Mapping[int, Consequence]
_OK: Final = 0

_COORDINATOR: Final[_Codes] = {
    NotCoordinatorError.code: Consequence.LOOK_UP,
    CoordinatorNotAvailableError.code: Consequence.LOOK_UP,
}
_PRODUCER: Final[_Codes] = {
    ProducerFencedError.code: Consequence.FATAL,
    InvalidProducerEpochError.code: Consequence.FATAL,
    InvalidProducerIdMappingError.code: Consequence.FATAL,
    InvalidTxnStateError.code: Consequence.FATAL,
    TransactionalIdAuthorizationFailedError.code: Consequence.FATAL,
}
_ABORTABLE: Final[_Codes] = {TransactionAbortableError.code: Consequence.ABORT}

_TABLE: Final[Mapping[TransactionalCall, _Codes]] = {
    TransactionalCall.FIND_COORDINATOR: {
        TransactionalIdAuthorizationFailedError.code: Consequence.FATAL,
        GroupAuthorizationFailedError.code: Consequence.ABORT,
    },
    TransactionalCall.INIT: {
        **_COORDINATOR,
        **_PRODUCER,
        **_ABORTABLE,
        # An ACL may come later, and nothing has begun.
        TransactionalIdAuthorizationFailedError.code: Consequence.ABORT,
        ClusterAuthorizationFailedError.code: Consequence.ABORT,
    },
    TransactionalCall.ADD_PARTITIONS: {
        **_COORDINATOR,
        **_PRODUCER,
        **_ABORTABLE,
        UnknownProducerIdError.code: Consequence.ABORT_AND_BUMP,
        TopicAuthorizationFailedError.code: Consequence.ABORT,
    },
    TransactionalCall.ADD_OFFSETS: {
        **_COORDINATOR,
        **_PRODUCER,
        **_ABORTABLE,
        UnknownProducerIdError.code: Consequence.ABORT_AND_BUMP,
        GroupAuthorizationFailedError.code: Consequence.ABORT,
    },
    TransactionalCall.COMMIT_OFFSETS: {
        **_COORDINATOR,
        **_PRODUCER,
        **_ABORTABLE,
        RequestTimedOutError.code: Consequence.LOOK_UP,
        GroupAuthorizationFailedError.code: Consequence.ABORT,
        UnknownMemberIdError.code: Consequence.ABORT,
        IllegalGenerationError.code: Consequence.ABORT,
        FencedInstanceIdError.code: Consequence.ABORT,
        # Of KIP-848, should a broker not translate them.
        FencedMemberEpochError.code: Consequence.ABORT,
        StaleMemberEpochError.code: Consequence.ABORT,
    },
    TransactionalCall.COMMIT: {
        **_COORDINATOR,
        **_PRODUCER,
        **_ABORTABLE,
        UnknownProducerIdError.code: Consequence.ABORT_AND_BUMP,
        UnknownServerError.code: Consequence.REPEAT,
    },
    # An abort that is to be aborted would go on forever.
    TransactionalCall.ABORT: {
        **_COORDINATOR,
        **_PRODUCER,
        UnknownServerError.code: Consequence.REPEAT,
    },
    TransactionalCall.PRODUCE: {
        ProducerFencedError.code: Consequence.FATAL,
        InvalidProducerIdMappingError.code: Consequence.FATAL,
        TransactionalIdAuthorizationFailedError.code: Consequence.FATAL,
        ClusterAuthorizationFailedError.code: Consequence.FATAL,
        UnsupportedVersionError.code: Consequence.FATAL,
        OutOfOrderSequenceNumberError.code: Consequence.ABORT_AND_BUMP,
        UnknownProducerIdError.code: Consequence.ABORT_AND_BUMP,
    },
}
_OTHERWISE: Final[Mapping[TransactionalCall, Consequence]] = {
    TransactionalCall.FIND_COORDINATOR: Consequence.FATAL,
    TransactionalCall.INIT: Consequence.FATAL,
    TransactionalCall.ADD_PARTITIONS: Consequence.ABORT,
    TransactionalCall.ADD_OFFSETS: Consequence.FATAL,
    TransactionalCall.COMMIT_OFFSETS: Consequence.FATAL,
    TransactionalCall.COMMIT: Consequence.FATAL,
    TransactionalCall.ABORT: Consequence.FATAL,
    TransactionalCall.PRODUCE: Consequence.ABORT,
}


def consequence_of(call: TransactionalCall, code: int) -> Consequence:
    """What a code of Kafka's in the response to this request means."""
    if code == _OK:
        return Consequence.GO_ON
    named = _TABLE[call].get(code)
    if named is not None:
        return named
    kind = error_for(code)
    # A batch that is given up was sent again as often as it may be.
    if kind is not None and kind.retriable and call is not TransactionalCall.PRODUCE:
        return Consequence.REPEAT
    return _OTHERWISE[call]
