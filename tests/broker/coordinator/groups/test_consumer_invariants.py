"""Random histories of a KIP-848 group: members join, leave, die and lose responses, topics change, coordinators too.

The coordinator is the real one, over a log that is a list. Members obey the protocol: one that loses partitions stops
reading them before it says so, sends no list until then, and all it knows after a response that was lost. After each
step:

- no partition is read by two members, as the members themselves see it; those that are away as static members count
- epochs only grow; a member whose epoch grows reads nothing that the target of that epoch has not
- what the coordinator thinks of a partition is one owner, and another coordinator makes the same group of the log

At the end of each history all members go on for a while, and then everyone is Stable at the epoch of the group, and
every partition of the topics that are read is read once. Each planted bug has to be found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from ottla.broker.coordinator.groups import advance, consumer_records, heartbeat, reconciliation
from ottla.broker.coordinator.groups.consumer_group import ConsumerGroup, ConsumerGroupState
from ottla.broker.coordinator.groups.consumer_member import ConsumerMember
from ottla.errors import (
    BrokerError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)
from ottla.wire import Uuid
from ottla.wire.messages import ConsumerGroupHeartbeatResponse
from tests.broker.coordinator.groups.consumer_world import GROUP, ConsumerWorld, Heartbeat

SESSION_S = 45.0
INTERVAL_S = 5.0
MOST_MEMBERS = 5
SUBSCRIPTIONS: tuple[dict[str, Any], ...] = (
    {"subscribed_topic_names": ["t"], "subscribed_topic_regex": ""},
    {"subscribed_topic_names": ["t", "u"], "subscribed_topic_regex": ""},
    {"subscribed_topic_names": ["u", "later"], "subscribed_topic_regex": ""},
    {"subscribed_topic_names": [], "subscribed_topic_regex": "t|l.*"},
)

Step = tuple[str, tuple[Any, ...]]
Partition = tuple[Uuid, int]


class SimulatedMember:
    """A consumer, as it sees itself."""

    def __init__(self, member_id: str, instance_id: str | None, subscription: dict[str, Any]) -> None:
        self.id = member_id
        self.instance_id = instance_id
        self.subscription = subscription
        self.epoch = 0
        self.assigned: set[Partition] = set()
        self.reads: set[Partition] = set()
        """What it has, which is more than it is assigned while it gives something up."""
        self.is_certain = False
        """Whether it knows what the coordinator knows of it: not before it joined, nor after a lost response."""

    @property
    def loses(self) -> set[Partition]:
        return self.reads - self.assigned

    def forget(self) -> None:
        """Fenced, or about to join again: it reads nothing."""
        self.epoch, self.assigned, self.reads, self.is_certain = 0, set(), set(), False

    def request(self, world: ConsumerWorld, *, full: bool, lists: bool) -> Heartbeat:
        fields: dict[str, Any] = {"subscribed_topic_names": None, "topic_partitions": None}
        if full or not self.is_certain:
            fields |= {"rebalance_timeout_ms": 10_000_000, **self.subscription}
        if full or lists or not self.is_certain:
            fields["topic_partitions"] = world.owned(self.reads)
        return Heartbeat(
            group_id=GROUP,
            member_id=self.id,
            instance_id=self.instance_id,
            member_epoch=self.epoch,
            **fields,
        )

    def take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.is_certain = True
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.assigned = {
                (topic.topic_id, index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            }
            self.reads |= self.assigned


class GroupHistory:
    """One group and its members."""

    def __init__(self, assignor_interval_ms: int) -> None:
        self.world = ConsumerWorld({"t": 4, "u": 2})
        self.world.configure("consumer.assignment.interval.ms", str(assignor_interval_ms))
        self.members: dict[str, SimulatedMember] = {}
        self.away: dict[str, SimulatedMember] = {}
        """Static members that will be back, by instance: what they had is theirs until their session ends."""
        self.past: list[Heartbeat] = []
        """What members have sent: a network that is late may deliver it again."""
        self.epoch = 0
        self.ids = 0

    # Steps of members

    def join(self, subscription: int, instance: str | None = None) -> None:
        self.ids += 1
        member = SimulatedMember(f"m{self.ids:02}", instance, SUBSCRIPTIONS[subscription])
        if instance is not None:
            # Its partitions are its own again; the coordinator refuses it while the instance is in use.
            self.away.pop(instance, None)
        self.members[member.id] = member
        self.beat(member.id, "full")

    def beat(self, member_id: str, kind: str) -> None:
        """Of any kind: "keep", "acknowledge", "full"; one that is "lost" is full, and its response does not come."""
        member = self.members[member_id]
        if kind == "acknowledge":
            member.reads -= member.loses
        request = member.request(self.world, full=kind in ("full", "lost"), lists=kind == "acknowledge")
        if member.epoch:
            self.past = [*self.past[-7:], request]
        try:
            response = self.world.beat(request)
        except (FencedMemberEpochError, UnknownMemberIdError):
            assert not member.is_certain, "a member that has heard of every step is not fenced"
            member.forget()
            return
        except UnreleasedInstanceIdError:
            # It has no way back before the session of its instance ends, not even under its own id.
            self.crash(member_id)
            return
        if kind == "lost":
            member.is_certain = False
            return
        grown = response.member_epoch > member.epoch
        member.take(response)
        if grown and member.epoch == self.world.group.target_epoch:
            target = self.world.group.target(member.id)
            assert member.reads <= target, "a member is at an epoch in which it has more than is its own"

    def rejoin(self, member_id: str) -> None:
        """It lost its way, and begins anew under its id."""
        self.members[member_id].forget()
        self.beat(member_id, "full")

    def resubscribe(self, member_id: str, subscription: int) -> None:
        self.members[member_id].subscription = SUBSCRIPTIONS[subscription]
        self.beat(member_id, "full")

    def leave(self, member_id: str) -> None:
        self._say(self.members.pop(member_id), -1)

    def leave_for_a_while(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        known = self.world.group.members.get(member_id)
        if known is not None and member.instance_id is not None:
            member.reads = set(known.assigned)
            self.away[member.instance_id] = member
        self._say(member, -2)

    def _say(self, member: SimulatedMember, epoch: int) -> None:
        request = Heartbeat(
            group_id=GROUP,
            member_id=member.id,
            instance_id=member.instance_id,
            member_epoch=epoch,
            subscribed_topic_names=None,
            topic_partitions=None,
        )
        try:
            self.world.beat(request)
        except BrokerError:
            assert not member.is_certain, "a member may leave"

    def crash(self, member_id: str) -> None:
        """It reads nothing from now on, and the coordinator does not know."""
        del self.members[member_id]

    def late(self, number: int) -> None:
        """A heartbeat of the past comes in again, from an epoch that the member is no longer in."""
        request = self.past[number]
        member = self.world.group.members.get(request.member_id)
        if member is None or request.member_epoch < member.previous_epoch:
            with pytest.raises((FencedMemberEpochError, UnknownMemberIdError, FencedInstanceIdError)):
                self.world.beat(request)

    # Steps of time and of the cluster

    def wait(self, seconds: float) -> None:
        """Members that live send heartbeats all the while."""
        end = self.world.now + seconds
        while self.world.now < end:
            self.world.advance(INTERVAL_S)
            self.world.run_submitted()
            for member_id in list(self.members):
                if member_id in self.members:
                    self.beat(member_id, "keep")
            self._forget_expired()

    def _forget_expired(self) -> None:
        known = self.world.shard.groups.get(GROUP)
        ids = known.members if isinstance(known, ConsumerGroup) else {}
        self.away = {instance: each for instance, each in self.away.items() if each.id in ids}

    def resolve(self) -> None:
        self.world.run_submitted()

    def widen(self) -> None:
        self.world.widen_topic("t", len(self.world.image.topics["t"].partitions) + 1)

    def create(self) -> None:
        self.world.create_topic("later", 2)

    def delete(self) -> None:
        gone = self.world.topic_id("later")
        self.world.delete_topic("later")
        assert gone not in self.world.image.topics_by_id

    def move(self) -> None:
        """Another coordinator takes over."""
        before = self._seen()
        self.world.reload()
        assert self._seen() == before, "the log does not say what the group was"

    def _seen(self) -> Any:
        known = self.world.shard.groups.get(GROUP)
        if not isinstance(known, ConsumerGroup):
            return None
        return (
            known.epoch,
            known.target_epoch,
            known.members,
            known.targets,
            known.regexes,
            known.metadata_hash,
        )

    # What must hold

    def check(self) -> None:
        readers: dict[Partition, str] = {}
        for member in [*self.members.values(), *self.away.values()]:
            for partition in sorted(member.reads):
                assert partition not in readers, f"{member.id} reads what {readers[partition]} reads"
                readers[partition] = member.id
        group = self.world.shard.groups.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            return
        assert group.epoch >= self.epoch, "the epoch of the group went back"
        self.epoch = group.epoch
        assert group.target_epoch <= group.epoch
        owners: dict[Partition, str] = {}
        for known in group.members.values():
            assert known.epoch <= group.target_epoch, "a member is ahead of the target"
            for partition in [*known.assigned, *known.pending]:
                assert partition not in owners, "a partition has two owners"
                owners[partition] = known.id
        for partition, owner in owners.items():
            assert group.owner(partition) == owner

    def finish(self) -> None:
        """All go on for a while, with what they are told; and once more, after nothing but a topic has changed."""
        self.wait(2 * SESSION_S)
        self._settle()
        self.widen()
        self._settle()

    def _settle(self) -> None:
        for _ in range(12):
            self.wait(INTERVAL_S)
            for member_id in list(self.members):
                self.beat(member_id, "acknowledge")
            self.check()
        if not self.members:
            return
        group = self.world.group
        assert group.members.keys() == self.members.keys()
        assert group.state is ConsumerGroupState.STABLE
        expected = set()
        for known in group.members.values():
            mine = self.members[known.id]
            assert (mine.epoch, mine.reads) == (group.epoch, set(known.assigned))
            for name in group.topics_of(known):
                topic = self.world.image.topics.get(name)
                if topic is not None:
                    expected |= {(topic.id, index) for index in topic.partitions}
            names = {self.world.image.topics_by_id[topic].name for topic, _ in mine.reads}
            assert names <= group.topics_of(known)
        assert set().union(*(member.reads for member in self.members.values())) == expected

    # What may come next

    def possible(self) -> list[Step]:
        steps: list[Step] = [("wait", (INTERVAL_S,)), ("wait", (SESSION_S,)), ("move", ()), ("resolve", ())]
        if len(self.members) < MOST_MEMBERS:
            steps += [("join", (subscription,)) for subscription in range(len(SUBSCRIPTIONS))] * 2
            steps += [("join", (0, instance)) for instance in ("i", "j")] * 2
        for member_id, member in self.members.items():
            steps += [
                ("beat", (member_id, kind)) for kind in ("keep", "acknowledge", "acknowledge", "full")
            ] * 2
            steps += [("beat", (member_id, "lost")), ("leave", (member_id,)), ("crash", (member_id,))]
            steps += [("resubscribe", (member_id, number)) for number in range(len(SUBSCRIPTIONS))]
            if member.instance_id is None:
                steps.append(("rejoin", (member_id,)))
            elif member.epoch:
                steps += [("leave_for_a_while", (member_id,))] * 4
        steps += [("late", (number,)) for number in range(len(self.past))]
        if len(self.world.image.topics["t"].partitions) < 7:
            steps.append(("widen", ()))
        steps.append(("delete" if "later" in self.world.image.topics else "create", ()))
        return steps

    def take(self, step: Step) -> None:
        name, arguments = step
        getattr(self, name)(*arguments)
        self.check()


class GroupHistories(RuleBasedStateMachine):
    """Chooses the steps."""

    history: GroupHistory

    @initialize(interval_ms=st.sampled_from([0, 1000]))
    def begin(self, interval_ms: int) -> None:
        self.history = GroupHistory(interval_ms)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        self.history.take(data.draw(st.sampled_from(self.history.possible())))

    def teardown(self) -> None:
        if hasattr(self, "history"):
            self.history.finish()


def test_no_partition_is_read_twice_and_all_are_read_in_the_end() -> None:
    run_state_machine_as_test(
        GroupHistories,
        settings=settings(
            max_examples=30,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def wander(seeds: range, steps: int = 60) -> None:
    """The same by a generator of random numbers: many more steps in the same time, and none of them simplified."""
    for seed in seeds:
        random = Random(seed)
        history = GroupHistory(assignor_interval_ms=1000 * (seed % 2))
        for _ in range(steps):
            history.take(random.choice(history.possible()))
        history.finish()


def test_long_histories_of_groups_hold() -> None:
    wander(range(60))


# Planted bugs


def revocation_not_awaited(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconciliation, "_keeps", lambda owned, revoked: False)


def no_list_owns_nothing(patch: pytest.MonkeyPatch) -> None:
    keeps = reconciliation._keeps
    patch.setattr(
        reconciliation, "_keeps", lambda owned, revoked: owned is not None and keeps(owned, revoked)
    )


def epoch_too_early(patch: pytest.MonkeyPatch) -> None:
    """A member is at the target's epoch while it still has something to give up."""
    taken = reconciliation.reconcile

    def early(member: ConsumerMember, **about: Any) -> ConsumerMember:
        return replace(taken(member, **about), epoch=about["target_epoch"])

    patch.setattr(advance, "reconcile", early)


def stale_epoch_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(heartbeat, "_check_epoch", lambda member, request: None)


def freed_by_a_static_member_that_is_away(patch: pytest.MonkeyPatch) -> None:
    written = consumer_records.assignment_record

    def freed(group_id: str, member: ConsumerMember) -> Any:
        return written(group_id, replace(member, assigned={}) if member.has_left else member)

    patch.setattr(heartbeat, "assignment_record", freed)


def pending_revocations_are_free(patch: pytest.MonkeyPatch) -> None:
    def is_owned(self: ConsumerGroup, partition: Partition) -> bool:
        return any(partition in member.assigned for member in self.members.values())

    patch.setattr(ConsumerGroup, "is_owned", is_owned)


def partitions_of_the_gone_stay_owned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "_release", lambda self, member: None)


def what_others_give_up_is_never_taken(patch: pytest.MonkeyPatch) -> None:
    """A member that waits for partitions passes for one that has all."""
    patch.setattr(ConsumerMember, "is_reconciled_to", lambda self, epoch: self.epoch == epoch)


def new_partitions_go_unnoticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "request_metadata_refresh", lambda self: None)


BUGS = [
    revocation_not_awaited,
    no_list_owns_nothing,
    epoch_too_early,
    stale_epoch_accepted,
    freed_by_a_static_member_that_is_away,
    pending_revocations_are_free,
    partitions_of_the_gone_stay_owned,
    what_others_give_up_is_never_taken,
    new_partitions_go_unnoticed,
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        wander(range(60))
