"""failOnDataLoss: what becomes of a query when records that it was to read are gone, or are not covered any more.

Here is what counts as a loss between two offsets of a stream, and what the user gets to read about any loss. The JVM
connector calls both a loss, and fails or goes on alike; here they differ, since what to do about them does.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping

from ottla.client.topic_partition import TopicPartition
from ottla.errors import DataLossError
from ottla.spark.options.topics import Topics

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
    loss = f"The query's option {option} no longer covers {what} of its checkpoint: what it has not read of that yet"
    if fail:
        raise DataLossError(
            f"{loss} would be skipped. Name it in {option} again, start the query with a new checkpoint, or set the"
            " source option failOnDataLoss to false to go on without it"
        )
    _log.warning(
        "%s is skipped. The query goes on without it, as failOnDataLoss is false; named in %s again later, it is read"
        " from its first record",
        loss,
        option,
    )


def names(partitions: Iterable[TopicPartition]) -> str:
    """For texts: "orders-0, orders-1"."""
    return ", ".join(map(str, sorted(partitions)))


def check_micro_batch(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    found: Mapping[TopicPartition, int],
    *,
    topics: Topics,
    fail: bool,
) -> None:
    """Reports what is missing between two offsets of a stream; `found` has the first offsets of new partitions.

    New partitions are read from their first record: that one is gone, or that a partition ends before where the
    stream had come to, is lost data. A restarted query may name other topics than its checkpoint has: those that it
    does not cover any more are reported as such, and not as gone.
    """
    vanished, deleted = end.keys() - start.keys() - found.keys(), start.keys() - end.keys()
    dropped = frozenset(tp for tp in vanished | deleted if not topics.covers(tp))
    for loss in _losses(start, end, vanished - dropped, deleted - dropped, found):
        report(fail, loss)
    if dropped:
        report_dropped(fail, topics.option, dropped)


def _losses(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    vanished: Collection[TopicPartition],
    deleted: Collection[TopicPartition],
    found: Mapping[TopicPartition, int],
) -> list[str]:
    losses = []
    if vanished:
        losses.append(
            f"Cannot find initial offsets for partitions {names(vanished)}. They may have been deleted"
        )
    losses += [
        f"Added partition {tp} starts from {offset} instead of 0"
        for tp, offset in sorted(found.items())
        if offset
    ]
    if deleted:
        losses.append(f"Partitions {names(deleted)} have been deleted")
    losses += [
        f"Partition {tp} offset was changed from {offset} to {end[tp]}: it ends before what was read of it: it"
        " was deleted and created again, or the query starts behind its end"
        for tp, offset in sorted({**start, **found}.items())
        if end.get(tp, offset) < offset
    ]
    return losses
