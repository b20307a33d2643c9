"""What a Produce response means for one batch: the decision, without doing anything about it.

Retriable errors are Kafka's own (errors.py says which); here are those that idempotence gives a meaning of their own.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from ottla.errors import (
    BrokerError,
    DuplicateSequenceNumberError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    KafkaStorageError,
    MessageTooLargeError,
    NotEnoughReplicasAfterAppendError,
    OutOfOrderSequenceNumberError,
    RequestTimedOutError,
    UnknownCodeError,
    UnknownProducerIdError,
    UnknownServerError,
    from_code,
)
from ottla.wire.messages import ProduceResponse

# Appended perhaps, or certainly but not by enough replicas: only another attempt can show which. A leader whose disk
# refuses to flush (KAFKA_STORAGE_ERROR) has appended before, and followers may have fetched the batch.
_AMBIGUOUS: Final = (RequestTimedOutError, NotEnoughReplicasAfterAppendError, KafkaStorageError)
_ENDS_TRANSACTION: Final = (
    OutOfOrderSequenceNumberError,
    UnknownProducerIdError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
)
# Of these a broker does not say whether it has stored anything.
_VAGUE: Final = (UnknownServerError, UnknownCodeError)


class BatchAction(Enum):
    """What is to be done with a batch."""

    COMPLETE = auto()
    """It is stored."""
    RETRY = auto()
    RETRY_AMBIGUOUS = auto()
    """Again, and from now on it may be stored."""
    RETRY_BEHIND = auto()
    """Again, once the batch before it is done: it was refused only because of that one."""
    RETRY_NOT_STORED = auto()
    """Again, in a new epoch: the log has neither this batch nor those behind it."""
    RETRY_NEW_EPOCH = auto()
    """Again, in a new epoch: the broker has forgotten the producer."""
    RETRY_NEW_ID = auto()
    """Again, with another producer id: the broker knows a later epoch of this one, or nothing."""
    SPLIT = auto()
    FAIL = auto()
    FAIL_AMBIGUOUS = auto()
    """No further attempt, but it may be stored."""


def action_after(
    error: BrokerError | None,
    *,
    idempotent: bool,
    first: bool,
    ambiguous: bool,
    appended: bool = False,
    records: int,
    transactional: bool = False,
) -> BatchAction:
    """`first`: nothing before it is open; `ambiguous`: an earlier attempt may have stored it.

    `appended`: the broker names an offset beside the error. It has appended the batch and then, while it waited for
    the other replicas, lost the partition: that error has the same code as one before the append.

    A broker that has forgotten the producer, or knows a later epoch of it, or has been restarted since, can no longer
    recognize a batch that it has stored already. To send such a batch under another epoch could store it twice: it
    fails instead. So does every batch of a transaction that only another epoch would help: the transaction is
    aborted, and what that means for the producer is client/transactions' to say.
    """
    if error is None or isinstance(error, DuplicateSequenceNumberError):
        return BatchAction.COMPLETE
    if isinstance(error, _AMBIGUOUS) or (appended and error.retriable):
        return BatchAction.RETRY_AMBIGUOUS
    if isinstance(error, MessageTooLargeError):
        return BatchAction.SPLIT if records > 1 and not ambiguous else BatchAction.FAIL
    if transactional and isinstance(error, _ENDS_TRANSACTION):
        if isinstance(error, OutOfOrderSequenceNumberError) and not first:
            return BatchAction.RETRY_BEHIND
        return BatchAction.FAIL_AMBIGUOUS if ambiguous else BatchAction.FAIL
    # Before its base class: "forgotten" is less than "in the wrong order".
    if idempotent and isinstance(error, UnknownProducerIdError):
        return BatchAction.FAIL_AMBIGUOUS if ambiguous else BatchAction.RETRY_NEW_EPOCH
    if idempotent and isinstance(error, OutOfOrderSequenceNumberError):
        if not first:
            return BatchAction.RETRY_BEHIND
        return BatchAction.FAIL_AMBIGUOUS if ambiguous else BatchAction.RETRY_NOT_STORED
    if idempotent and isinstance(error, InvalidProducerEpochError | InvalidProducerIdMappingError):
        return BatchAction.FAIL_AMBIGUOUS if ambiguous else BatchAction.RETRY_NEW_ID
    if appended or isinstance(error, _VAGUE):
        return BatchAction.FAIL_AMBIGUOUS
    return BatchAction.RETRY if error.retriable else BatchAction.FAIL


def error_in(
    response: ProduceResponse.PartitionProduceResponse, topic: str, broker: int
) -> BrokerError | None:
    """The error of a partition, with everything that the broker says about it (KIP-467)."""
    if response.error_code == 0:
        return None
    words = [response.error_message] if response.error_message else []
    words += [
        f"record {each.batch_index}: {each.batch_index_error_message or 'refused'}"
        for each in response.record_errors
    ]
    return from_code(
        response.error_code, "; ".join(words) or None, topic=topic, partition=response.index, broker=broker
    )
