"""failOnDataLoss: what becomes of a query when records that it was to read are gone.

Who finds that out is elsewhere; here is what the user gets to read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

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


def names(partitions: Iterable[TopicPartition]) -> str:
    """For texts: "orders-0, orders-1"."""
    return ", ".join(map(str, sorted(partitions)))
