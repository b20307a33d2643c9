"""KIP-848 groups whose coordinator moves or dies: members go on with the next one as if nothing had happened."""

from __future__ import annotations

from typing import Any

from ottla.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.broker.coordinator.groups.test_moves import GROUP, NOT_COORDINATOR, TOPIC, Members, play

QUICK = {"group.consumer.assignment.interval.ms": 0}
HeartbeatRequest = ConsumerGroupHeartbeatRequest


class Reader:
    """A member that takes what it is given."""

    def __init__(self, members: Members, name: str) -> None:
        self.members = members
        self.name = name
        self.epoch = 0
        self.owned: list[int] = []

    async def beat(self, *, node: int | None = None, says: bool = False) -> int:
        """A heartbeat, of which the member says what it owns, or nothing; the error code."""
        running = next(iter(self.members.cluster.nodes.values()))
        topic = running.image.topics[TOPIC]
        fields: dict[str, Any] = {"subscribed_topic_names": None, "topic_partitions": None}
        if self.epoch == 0:
            fields = {
                "subscribed_topic_names": [TOPIC],
                "rebalance_timeout_ms": 60_000,
                "topic_partitions": [],
            }
        elif says:
            listed = HeartbeatRequest.TopicPartitions(topic_id=topic.id, partitions=self.owned)
            fields["topic_partitions"] = [listed]
        request = HeartbeatRequest(group_id=GROUP, member_id=self.name, member_epoch=self.epoch, **fields)
        client = await self.members.client(self.name, node)
        response = await client.ask(request, 1, ConsumerGroupHeartbeatResponse)
        if response.error_code == 0:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                topics = response.assignment.topic_partitions
                self.owned = sorted(index for each in topics for index in each.partitions)
        return response.error_code


def test_a_revocation_goes_on_with_the_next_coordinator() -> None:
    async def story(members: Members) -> None:
        a, b = Reader(members, "a"), Reader(members, "b")
        await a.beat()
        await b.beat()
        await a.beat()
        assert (a.epoch, a.owned, b.epoch, b.owned) == (2, [0], 3, [])
        before = members.coordinator
        await members.move()
        assert await a.beat(node=before) == NOT_COORDINATOR
        assert (await a.beat(), a.epoch) == (0, 2), "it has not said that it gave anything up"
        assert (await b.beat(), b.owned) == (0, [])
        await a.beat(says=True)
        await b.beat()
        assert (a.epoch, a.owned, b.epoch, b.owned) == (3, [0], 3, [1])

    play(story, **QUICK)


def test_members_outlive_a_coordinator_that_dies() -> None:
    async def story(members: Members) -> None:
        a, b = Reader(members, "a"), Reader(members, "b")
        await a.beat()
        await b.beat()
        await a.beat()
        await a.beat(says=True)
        await b.beat()
        before = members.coordinator
        await members.cluster.stop_node(before, clean=False)
        await members.cluster.wait_for(lambda: members.coordinator not in (before, -1), "another leader")
        await members.loaded()
        assert (await a.beat(), a.epoch, a.owned) == (0, 3, [0])
        assert (await b.beat(), b.epoch, b.owned) == (0, 3, [1])

    play(story, **QUICK)


def test_a_member_that_is_silent_is_missed_by_the_next_coordinator_too() -> None:
    async def story(members: Members) -> None:
        a, b = Reader(members, "a"), Reader(members, "b")
        await a.beat()
        await b.beat()
        await members.move()
        for _ in range(10):
            members.cluster.clock.advance(5)
            await b.beat()
        assert (b.epoch, b.owned) == (4, [0, 1])

    play(story, **QUICK)
