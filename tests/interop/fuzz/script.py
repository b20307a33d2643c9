"""A whole script from a seed: topics, random steps, and questions that show what is left of it.

`WEIGHTS` says how often each kind of step comes. A kind with a weight of its own is there because a broker was wrong
about it once: it comes often enough to be noticed within some thousand steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.interop.fuzz import (
    cluster,
    configs,
    conversations,
    fetching,
    offsets,
    produce,
    producers,
    topics,
    transactions,
)
from tests.interop.fuzz.drawing import ODD, PLAIN, PLAIN_PARTITIONS, Draw, FuzzStep

Kind = Callable[[Draw], FuzzStep | list[FuzzStep]]

WEIGHTS: Final[tuple[tuple[Kind, float], ...]] = (
    (produce.produce, 26),
    (fetching.fetch, 14),
    (fetching.diverging, 0.7),
    (fetching.crowded, 1),
    (fetching.session, 7),
    (offsets.list_offsets, 10),
    (offsets.delete_records, 4),
    (offsets.end_of_epoch, 3),
    (producers.initialise, 1.5),
    (producers.write, 1),
    (producers.without_epoch, 0.5),
    (producers.describe, 2),
    (producers.expire, 0.25),
    (transactions.whole, 2),
    (transactions.initialise, 1),
    (transactions.add_partitions, 1.5),
    (transactions.add_offsets, 1),
    (transactions.commit_offsets, 1.5),
    (transactions.write, 2),
    (transactions.end, 1.5),
    (transactions.fetch_offsets, 1.5),
    (transactions.describe, 0.7),
    (transactions.list_all, 0.7),
    (conversations.topic_goes, 0.3),
    (conversations.records_go, 0.5),
    (topics.create, 2.5),
    (topics.delete, 1.5),
    (topics.grow, 1.5),
    (topics.elect, 1.5),
    (topics.reassign, 1.5),
    (topics.list_reassignments, 1),
    (configs.describe, 3),
    (configs.incremental, 4),
    (configs.whole, 2),
    (cluster.metadata, 3),
    (cluster.topic_partitions, 1.5),
    (cluster.coordinator, 0.7),
    (cluster.describe, 0.7),
    (cluster.acls, 0.5),
)
_STEPS: Final = 40


def script(seed: int, number: int) -> list[FuzzStep]:
    """The steps of one script; the same for the same numbers."""
    draw = Draw(f"{seed}/{number}")
    steps = [topics.first_topics(draw), *transactions.first_producers(draw)]
    kinds, weights = [kind for kind, _ in WEIGHTS], [weight for _, weight in WEIGHTS]
    while len(steps) <= _STEPS:
        (kind,) = draw.choices(kinds, weights)
        made = kind(draw)
        steps += made if isinstance(made, list) else [made]
    return steps + _left(draw)


def _left(draw: Draw) -> list[FuzzStep]:
    steps = []
    for topic, partitions in ((PLAIN, PLAIN_PARTITIONS), (ODD, 1)):
        steps += offsets.ends(draw, topic, partitions)
        steps += [fetching.whole(topic, partitions, offset) for offset in (0, 2, 5)]
    return [*steps, configs.of_topics(), topics.last_deletion()]
