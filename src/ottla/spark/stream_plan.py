"""From two offsets to the ranges of a micro-batch, and what is missing between them.

Partitions come and go while a stream runs. New ones are read from their first record; that one is gone, or that a
partition ends before where the stream had come to, is reported as lost data. A restarted query may ask for other
topics than its checkpoint has: those that it asks for no more are reported as such, and not as gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ottla.client.topic_partition import TopicPartition
from ottla.spark.data_loss import names, report, report_dropped
from ottla.spark.offsets import PartitionOffsets
from ottla.spark.options import Topics
from ottla.spark.ranges import OffsetRange

Earliest = Callable[[Collection[TopicPartition]], PartitionOffsets]
"""The first offsets of those of the given partitions that exist."""


def planned(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    earliest: Earliest,
    *,
    topics: Topics,
    fail_on_data_loss: bool,
) -> list[OffsetRange]:
    """The ranges between the two, in the order of topics and partitions; some may be empty."""
    new = end.keys() - start.keys()
    found = earliest(new)
    vanished, deleted = new - found.keys(), start.keys() - end.keys()
    dropped = frozenset(tp for tp in vanished | deleted if not topics.covers(tp))
    for loss in _losses(start, end, vanished - dropped, deleted - dropped, found):
        report(fail_on_data_loss, loss)
    if dropped:
        report_dropped(fail_on_data_loss, topics.option, dropped)
    begin = {**start, **found}
    return [OffsetRange(tp.topic, tp.partition, begin[tp], end[tp]) for tp in sorted(end) if tp in begin]


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
        " was deleted and created again, or the query was told to start behind its end"
        for tp, offset in sorted({**start, **found}.items())
        if end.get(tp, offset) < offset
    ]
    return losses
