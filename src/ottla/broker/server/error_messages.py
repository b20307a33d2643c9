"""Kafka's standard sentences about error codes, for the few answers that carry them.

Clients show them to people, and people search for them. An error that was raised with a sentence of its own keeps
it; one that Kafka has no need to explain here is explained in ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.errors import (
    BrokerError,
    CoordinatorNotAvailableError,
    InvalidRequestError,
    UnknownTopicOrPartitionError,
)

_STANDARD: Final[Mapping[int, str]] = {
    UnknownTopicOrPartitionError.code: "This server does not host this topic-partition.",
    CoordinatorNotAvailableError.code: "The coordinator is not available.",
    InvalidRequestError.code: (
        "This most likely occurs because of a request being malformed by the client library or the message was "
        "sent to an incompatible broker. See the broker logs for more details."
    ),
}


def sentence(error: BrokerError) -> str:
    """What to put into an answer's error message."""
    return error.message or _STANDARD.get(error.code) or str(error)
