"""failOnDataLoss: what becomes of a query when records that it was to read are gone, or are not asked for any more.

Who finds that out is elsewhere; here is what the user gets to read. The JVM connector calls both a loss, and fails or
goes on alike; they are told apart here, since what to do about them is not the same.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from ottla.client.topic_partition import TopicPartition
from ottla.errors import DataLossError

_log = logging.getLogger(__name__)

_WHAT = "Some data may have been lost because they are not available in Kafka any more"
_WHY = "Either they were deleted, by retention or by hand, or their topic was, before all of it was read"


def report(fail: bool, reason: str) -> None:
    """Raises, or with failOnDataLoss=false logs a warning and returns."""
    if fail:
        raise DataLossError(
            f"{_WHAT}: {reason}. {_WHY}. If the query is to go on in such cases, set the source option failOnDataLoss"
            " to false"
        )
    _log.warning("%s: %s. %s. The query goes on, as failOnDataLoss is false", _WHAT, reason, _WHY)


def report_dropped(fail: bool, option: str, partitions: Collection[TopicPartition]) -> None:
    """As `report`, for partitions that the checkpoint has and the query's option does not cover any more."""
    topics = sorted({topic for topic, _ in partitions})
    what = f"topic{'s' * (len(topics) > 1)} {', '.join(topics)} ({names(partitions)})"
    told = f"The query's option {option} no longer covers {what} of its checkpoint: what it has not read of that yet"
    if fail:
        raise DataLossError(
            f"{told} would be skipped. Name it in {option} again, start the query with a new checkpoint, or set the"
            " source option failOnDataLoss to false to go on without it"
        )
    _log.warning(
        "%s is skipped. The query goes on without it, as failOnDataLoss is false; named in %s again later, it is read"
        " from its first record",
        told,
        option,
    )


def names(partitions: Iterable[TopicPartition]) -> str:
    """For texts: "orders-0, orders-1"."""
    return ", ".join(map(str, sorted(partitions)))
