"""What a consumer does about the error codes that brokers give for a partition. A table and no more."""

from __future__ import annotations

from enum import Enum

from ottla.errors import (
    BrokerError,
    CorruptMessageError,
    KafkaError,
    OffsetOutOfRangeError,
    UnknownTopicIdError,
)


class Remedy(Enum):
    RETRY = "after a back-off"
    REFRESH = "after a back-off, with new metadata"
    RESET = "the offset is gone, or was never there"
    RAISE = "only whoever reads can do something about it"


def remedy_for(error: KafkaError) -> Remedy:
    """By Kafka's own kinds of errors; retriable in Kafka means that the same request may succeed later."""
    if isinstance(error, OffsetOutOfRangeError):
        return Remedy.RESET
    if isinstance(error, CorruptMessageError):
        # Retriable when producing. A log that a broker cannot read stays what it is.
        return Remedy.RAISE
    if not isinstance(error, BrokerError):
        return Remedy.RETRY
    if error.invalid_metadata or isinstance(error, UnknownTopicIdError):
        return Remedy.REFRESH
    return Remedy.RETRY if error.retriable else Remedy.RAISE
