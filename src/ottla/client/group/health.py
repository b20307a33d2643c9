"""GroupHealth: what a member of a group is doing, for a program, its probes and its logs."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupHealth:
    """A member at one moment; times are seconds ago, None for what has not happened."""

    group: str
    member_id: str
    generation: int
    """The member epoch, by KIP-848."""
    state: str
    """"stable" is what it should be; a consumer that a rebalance holds is "joining" or "giving partitions up"."""
    reason: str
    """Why it is not stable, where that needs words: what it has stopped for, or what it joins again for."""
    assignment: list[TopicPartition]
    lag: dict[TopicPartition, int]
    """Between position and end, where both are known."""
    last_heartbeat: float | None
    """Since the coordinator has last answered that all is well."""
    last_poll: float
    """Since the program has asked for more; 0 while it waits."""

    @property
    def is_well(self) -> bool:
        """Whether it is in the group and has nothing to wait for."""
        return self.state == "stable"
