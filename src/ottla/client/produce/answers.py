"""What a broker's answer means for one batch: the decision, without doing anything about it.

Retriable errors are Kafka's own (errors.py says which); here are those that idempotence gives a meaning of their own.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from ottla.client.produce.batch import ProducerBatch
from ottla.errors import (
    AbortedError,
    BrokerError,
    DuplicateSequenceNumberError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
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

# Appended perhaps, or certainly but not by enough replicas: only another try can tell.
_UNSURE: Final = (RequestTimedOutError, NotEnoughReplicasAfterAppendError)
# Of these a broker does not say whether it has stored anything.
_VAGUE: Final = (UnknownServerError, UnknownCodeError)


class Verdict(Enum):
    """What is to be done with a batch."""

    DELIVERED = auto()
    RETRY = auto()
    RETRY_UNSURE = auto()
    """Again, and from now on it may be stored."""
    RETRY_BEHIND = auto()
    """Again, once the batch before it is done: it was refused only because of that one."""
    REFUTED = auto()
    """Again, in a new epoch: the log has neither this batch nor those behind it."""
    NEW_EPOCH = auto()
    """Again, in a new epoch: the broker has forgotten the producer."""
    NEW_ID = auto()
    """Again, with another producer id: the broker knows a later epoch of this one, or nothing."""
    SPLIT = auto()
    FAIL = auto()
    FAIL_UNSURE = auto()
    """No further try, but it may be stored."""


def judge(
    error: BrokerError | None,
    *,
    idempotent: bool,
    first: bool,
    unsure: bool,
    appended: bool = False,
    records: int,
) -> Verdict:
    """`first`: nothing before it is open; `unsure`: an earlier try may have stored it.

    `appended`: the broker names an offset beside the error. It has appended the batch and then, while it waited for
    the other replicas, lost the partition: that error has the same code as one before the append.

    A broker that has forgotten the producer, or knows a later epoch of it, can no longer recognize a batch that it
    has stored already. To send such a batch under another epoch could store it twice: it fails instead. With
    OUT_OF_ORDER_SEQUENCE_NUMBER it is different (recbuf.py says why).
    """
    if error is None or isinstance(error, DuplicateSequenceNumberError):
        return Verdict.DELIVERED
    if isinstance(error, _UNSURE) or (appended and error.retriable):
        return Verdict.RETRY_UNSURE
    if isinstance(error, MessageTooLargeError):
        return Verdict.SPLIT if records > 1 and not unsure else Verdict.FAIL
    # Before its base class: "forgotten" is less than "in the wrong order".
    if idempotent and isinstance(error, UnknownProducerIdError):
        return Verdict.FAIL_UNSURE if unsure else Verdict.NEW_EPOCH
    if idempotent and isinstance(error, OutOfOrderSequenceNumberError):
        return Verdict.REFUTED if first else Verdict.RETRY_BEHIND
    if idempotent and isinstance(error, InvalidProducerEpochError | InvalidProducerIdMappingError):
        return Verdict.FAIL_UNSURE if unsure else Verdict.NEW_ID
    if appended or isinstance(error, _VAGUE):
        return Verdict.FAIL_UNSURE
    return Verdict.RETRY if error.retriable else Verdict.FAIL


def error_in(answer: ProduceResponse.PartitionProduceResponse, topic: str, broker: int) -> BrokerError | None:
    """The error of a partition, with everything that the broker says about it (KIP-467)."""
    if answer.error_code == 0:
        return None
    words = [answer.error_message] if answer.error_message else []
    words += [
        f"record {each.batch_index}: {each.batch_index_error_message or 'refused'}"
        for each in answer.record_errors
    ]
    return from_code(
        answer.error_code, "; ".join(words) or None, topic=topic, partition=answer.index, broker=broker
    )


def given_up_error(batch: ProducerBatch, error: BaseException) -> BaseException:
    """What the records of a batch that is given up are told: if an earlier try may have stored it, that too."""
    if not batch.is_unsure or getattr(error, "may_be_stored", False):
        return error
    # The error is about the last try only: whoever produces it again must know that.
    encoded = batch.encoded
    unsure = AbortedError(
        f"a record for {encoded.topic}-{encoded.partition} was given up and may be stored by an earlier try; "
        f"the last one ended with: {error}",
        may_be_stored=True,
    )
    unsure.__cause__ = error
    return unsure
