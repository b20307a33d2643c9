"""What the tests of groups share: clusters whose groups are quick, members, and waiting for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.client.deadline import within
from ottla.client.group.consumer import AsyncGroupConsumer
from ottla.client.topic_partition import TopicPartition
from tests.client.worlds import World

SESSION_S = 30
"""Longer than a machine stops a process for that is busy with others."""
QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": str(SESSION_S * 1000),
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "100",
    "offsets.topic.num.partitions": "1",
}
MEMBER: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "session_timeout_ms": SESSION_S * 1000,
    "heartbeat_interval_ms": 100,
    "metadata_max_age_ms": 1000,
    "metadata_min_age_ms": 100,
}
EAGER: dict[str, Any] = {**MEMBER, "partition_assignment_strategy": "range"}
COOPERATIVE: dict[str, Any] = {**MEMBER, "partition_assignment_strategy": "cooperative-sticky"}
KIP_848: dict[str, Any] = {**MEMBER, "group_protocol": "consumer"}
PROTOCOLS = {"eager": EAGER, "cooperative": COOPERATIVE, "kip-848": KIP_848}
LONG = 60.0


def partitions(*numbers: int, topic: str = "orders") -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


async def until(world: World, condition: Callable[[], bool], what: str = "") -> None:
    """Looks again and again: in a simulation that takes no time."""

    async def look() -> None:
        while not condition():
            await world.runtime.clock.sleep(0.02)

    try:
        await within(world.runtime.clock, LONG, look())
    except TimeoutError:
        raise AssertionError(f"waited {LONG:g} s for {what or condition}") from None


async def until_shared(world: World, *members: AsyncGroupConsumer, count: int = 4) -> None:
    """Until all are stable and have all partitions among them, each once, and their programs are told so."""

    def shared() -> bool:
        owned = [tp for member in members for tp in member.assignment()]
        return (
            all(member.health().is_well and member.assignment() for member in members)
            # They are owned a little before: where they begin is fetched first.
            and all(member._partitions._placing is None for member in members)
            and len(owned) == len(set(owned)) == count
        )

    await until(world, shared, f"{len(members)} members to share {count} partitions")


class Told:
    """Remembers what callbacks were called with, in order."""

    def __init__(self) -> None:
        self.log: list[tuple[str, list[int]]] = []

    @property
    def callbacks(self) -> dict[str, Any]:
        return {
            "on_assigned": self._note("assigned"),
            "on_revoked": self._note("revoked"),
            "on_lost": self._note("lost"),
        }

    def _note(self, what: str) -> Callable[[Any, list[TopicPartition]], None]:
        return lambda consumer, given: self.log.append((what, [tp.partition for tp in given]))
