"""Members of KIP-848 that do anything at any time, the same on two brokers: what both answer is to be alike.

Members have the same ids on both, and the range assignor decides by ids alone: so targets are alike, too. What a
broker has made up (ids of topics) is left out of what is compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from operator import attrgetter
from types import TracebackType
from typing import Self

from ottla.wire import Uuid
from ottla.wire.messages import ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatResponse
from tests.interop.brokers import Broker
from tests.interop.groups.consumer import LEAVE, LEAVE_STATIC, ConsumerMember
from tests.interop.groups.group import Group

MEMBERS = 5
_STATIC = {3: "inst-1", 4: "inst-1"}
"""Two members that claim the same place."""
_LONG_MS = 40_000
_PATIENCE = {"consumer.session.timeout.ms": str(_LONG_MS), "consumer.heartbeat.interval.ms": "5000"}
_Parts = ConsumerGroupDescribeResponse.TopicPartitions | ConsumerGroupHeartbeatResponse.TopicPartitions
Step = tuple[str, int, int]
"""What is done, by which member, and a number that decides how."""


class Stage:
    """A group on one broker, with members that do what the play says."""

    def __init__(self, broker: Broker, topics: list[str], play: str) -> None:
        self._group = Group(broker, topics[0])
        self._group.name = play
        self._topics = topics
        self._play = play

    def __enter__(self) -> Self:
        group = self._group.__enter__()
        group.configure(_PATIENCE)
        self._ids: list[Uuid] = [group.outside.topic_id(topic) for topic in self._topics]
        self._members = [self._member(number) for number in range(MEMBERS)]
        # What each member had before its last change: answers get lost, and requests are late.
        self._before: list[tuple[int, dict[Uuid, list[int]]]] = [(0, {})] * MEMBERS
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._group.__exit__(kind, error, trace)

    def _member(self, number: int) -> ConsumerMember:
        return self._group.consumer(
            member_id=f"{self._play}-{number}", instance=_STATIC.get(number), rebalance_ms=_LONG_MS
        )

    def do(self, step: Step) -> object:
        """What the member is told."""
        action, number, choice = step
        member = self._members[number]
        before = (member.epoch, dict(member.assigned))
        answer = ACTIONS[action](self, member, choice)
        if (member.epoch, member.assigned) != before:
            self._before[number] = before
        return answer

    def shown(self) -> object:
        """What others are told about the group."""
        found = self._group.consumer_described()
        members = [
            (
                each.member_id,
                each.instance_id,
                each.member_epoch,
                self._parts(each.assignment.topic_partitions),
                self._parts(each.target_assignment.topic_partitions),
            )
            for each in sorted(found.members, key=attrgetter("member_id"))
        ]
        return found.error_code, found.group_state, found.group_epoch, found.assignment_epoch, members

    def _parts(self, parts: Iterable[_Parts]) -> list[tuple[int, list[int]]]:
        """By the number of the topic."""
        return sorted((self._ids.index(each.topic_id), sorted(each.partitions)) for each in parts)

    def _told(self, answer: ConsumerGroupHeartbeatResponse) -> object:
        given = answer.assignment
        assigned = None if given is None else self._parts(given.topic_partitions)
        return answer.error_code, answer.member_epoch, assigned

    def _subscription(self, choice: int) -> list[str]:
        first, second = self._topics
        return [[first], [first, second], [second], ["nothing-of-that-name"]][choice % 4]

    def join(self, member: ConsumerMember, choice: int) -> object:
        return self._told(member.join(topics=self._subscription(choice), assignor="range"))

    def beat(self, member: ConsumerMember, _: int) -> object:
        return self._told(member.beat())

    def ack(self, member: ConsumerMember, _: int) -> object:
        return self._told(member.ack())

    def own_nothing(self, member: ConsumerMember, _: int) -> object:
        return self._told(member.beat(owned={}))

    def send_all(self, member: ConsumerMember, choice: int) -> object:
        """A full request, by which a member of epoch 0 joins as well."""
        answer = member.beat(
            owned=member.assigned,
            topics=self._subscription(choice),
            assignor="range",
            rebalance_ms=_LONG_MS,
        )
        return self._told(answer)

    def subscribe(self, member: ConsumerMember, choice: int) -> object:
        return self._told(member.beat(topics=self._subscription(choice)))

    def repeat_epoch(self, member: ConsumerMember, choice: int) -> object:
        """With the epoch before; and with partitions, or without."""
        epoch, _ = self._before[self._members.index(member)]
        return self._told(member.beat(epoch=epoch, owned=member.assigned if choice % 2 else None))

    def repeat_partitions(self, member: ConsumerMember, _: int) -> object:
        """With the partitions before: nothing of the last change is done yet."""
        _, assigned = self._before[self._members.index(member)]
        return self._told(member.beat(owned=assigned))

    def leave(self, member: ConsumerMember, choice: int) -> object:
        answer = member.leave(LEAVE_STATIC if choice % 2 else LEAVE)
        if answer.error_code == 0:
            member.assigned = {}
        return self._told(answer)

    def commit(self, member: ConsumerMember, choice: int) -> object:
        """In its epoch, those around it, and a partition of its own, if it has one."""
        partition = member.partitions[choice % len(member.partitions)] if member.partitions else choice
        epochs = [max(member.epoch + change, 0) for change in (0, -1, -2, 1)]
        return [member.commit(partition=partition, epoch=epoch) for epoch in epochs]


ACTIONS: dict[str, Callable[[Stage, ConsumerMember, int], object]] = {
    "join": Stage.join,
    "beat": Stage.beat,
    "ack": Stage.ack,
    "own nothing": Stage.own_nothing,
    "send all": Stage.send_all,
    "subscribe": Stage.subscribe,
    "repeat epoch": Stage.repeat_epoch,
    "repeat partitions": Stage.repeat_partitions,
    "leave": Stage.leave,
    "commit": Stage.commit,
}
_OFTEN = {"join": 3, "beat": 4, "ack": 8, "repeat epoch": 2, "leave": 2, "commit": 2}


def steps(seed: int, count: int) -> list[Step]:
    """A play: the same for the same seed."""
    chance = random.Random(seed)
    actions = [action for action in ACTIONS for _ in range(_OFTEN.get(action, 1))]
    return [
        (chance.choice(actions), chance.randrange(MEMBERS), chance.choice([0, 0, 0, 1, 2, 3, 4, 5]))
        for _ in range(count)
    ]
