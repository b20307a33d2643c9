"""Outages for the chaos tests: times without a single success, often longer than the delivery timeout."""

from __future__ import annotations

from random import Random
from typing import Final

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.server import faults
from tests.client.worlds import World

LONGEST: Final = 6.0
"""Seconds; the time of a simulation costs little, but what happens in it does."""

# What brokers answer for as long as an outage lasts, and when: some of it is stored all the same.
_KINDS: Final = (
    ("before_append", faults.error("NOT_ENOUGH_REPLICAS")),
    ("after_append", faults.error("NOT_ENOUGH_REPLICAS_AFTER_APPEND")),
    ("after_append", faults.error("NOT_LEADER_OR_FOLLOWER")),
    ("before_append", faults.drop),
    ("after_append", faults.drop),
    ("after_append", faults.error("REQUEST_TIMED_OUT")),
)
# These end a batch without telling what became of it.
_VAGUE: Final = (
    ("before_append", faults.error("UNKNOWN_SERVER_ERROR")),
    ("after_append", faults.error("UNKNOWN_SERVER_ERROR")),
)
# A request that meets this rule meets no other one before the append.
_SPARED: Final = ("before_append", faults.delay(0.0))


async def outage(
    world: World, cluster: AsyncCluster, random: Random, partitions: int, delivery_timeout: float
) -> None:
    """For one of the partitions, or all.

    It begins with rules for some requests only, so that what is in flight together gets different answers.
    """
    partition = random.choice((None, *range(partitions)))
    rules = []
    for _ in range(random.randint(0, 3)):
        when, action = random.choice((_SPARED, *_KINDS, *_VAGUE))
        count = random.randint(1, 3)
        rules.append(
            cluster.faults.add("Produce", partition=partition, when=when, action=action, count=count)
        )
        await world.runtime.clock.sleep(random.choice((0.0, 0.001, 0.01, 0.1)))
    when, action = random.choice(_KINDS)
    rules.append(cluster.faults.add("Produce", partition=partition, when=when, action=action))
    await world.runtime.clock.sleep(random.uniform(0.3, 2.0) * min(delivery_timeout, LONGEST / 2))
    for rule in rules:
        cluster.faults.remove(rule)
