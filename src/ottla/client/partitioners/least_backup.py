"""Where the fewest bytes wait: for producers whose brokers fail or stall often, at the price of uneven partitions."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.partitioners.base import ColumnsMode, Load, Partitioner, TopicPartitioner
from ottla.client.partitioners.sticky import Sticky, StickyTopic, candidates
from ottla.runtime import Random

__all__ = ["LeastBackupPartitioner"]


@dataclass(frozen=True)
class LeastBackupPartitioner(Partitioner):
    """Batch by batch to the partition with the fewest bytes that wait; keys do not matter.

    A partition that stops taking records gets a little more than the others have, and then nothing, long before
    metadata says that its leader is gone. Among equals chance decides.
    """

    def for_topic(self, topic: str, *, batch_size: int, random: Random) -> TopicPartitioner:
        def pick(load: Load, last: int) -> int:
            return _least_backed_up(load, random)

        return StickyTopic(Sticky(pick, enough=0, most=batch_size))

    def columns_mode(self) -> ColumnsMode:
        return ColumnsMode.ONE


def _least_backed_up(load: Load, random: Random) -> int:
    waiting = load.buffered()
    options = candidates(load)
    least = min(waiting[partition] for partition in options)
    equals = [partition for partition in options if waiting[partition] == least]
    return equals[random.randrange(len(equals))]
