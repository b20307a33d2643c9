"""One group with a name and a topic of its own, and what can be asked about it by somebody who is not in it."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from ottla.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.interop.brokers import Broker
from tests.interop.groups.classic import ClassicMember, assigned_parts
from tests.interop.groups.consumer import ConsumerMember
from tests.interop.groups.link import Link
from tests.interop.waiting import eventually

OFFSETS = "__consumer_offsets"
PARTITIONS = 4
ALL = list(range(PARTITIONS))
_GROUP_RESOURCE = 32


class Group:
    """A group on a broker, which starts with no member; leaving the `with` block closes every connection."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.broker = broker
        self.topic = topic
        self.name = f"group-{uuid.uuid4().hex[:12]}"
        self._links = ExitStack()

    def __enter__(self) -> Self:
        self._bootstrap = self._links.enter_context(Link(self.broker.bootstrap))
        self.topic_id = self._bootstrap.topic_id(self.topic)
        eventually(lambda: self._coordinator().error_code == 0, "the coordinator to be found", every=0.02)
        self.reconnect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._links.close()

    def _coordinator(self) -> FindCoordinatorResponse.Coordinator:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.name])
        (found,) = self._bootstrap.get(request, 4, FindCoordinatorResponse).coordinators
        return found

    def coordinator_id(self) -> int:
        return self._coordinator().node_id

    def offsets_partition(self) -> int:
        """The partition of __consumer_offsets whose leader is the group's coordinator."""
        wanted = [MetadataRequest.MetadataRequestTopic(name=OFFSETS)]
        (found,) = self._bootstrap.get(MetadataRequest(topics=wanted), 12, MetadataResponse).topics
        return abs(_java_hash(self.name)) % len(found.partitions)

    def reconnect(self) -> None:
        """Asks the coordinator of now from now on, when it has loaded."""
        self.outside = self.link()
        eventually(lambda: self.described().error_code == 0, "the coordinator to have loaded", every=0.02)

    def link(self) -> Link:
        """A connection to the group's coordinator."""
        found = self._coordinator()
        return self._links.enter_context(Link(f"{found.host}:{found.port}"))

    def classic(self, **options: Any) -> ClassicMember:
        """A classic member that has sent nothing yet."""
        return ClassicMember(self.link(), self.name, **{"topics": [self.topic], **options})

    def consumer(self, **options: Any) -> ConsumerMember:
        """A member of KIP-848 that has sent nothing yet."""
        return ConsumerMember(self.link(), self.name, self.topic, self.topic_id, **options)

    # What others ask

    def configure(self, configs: dict[str, str]) -> None:
        """Sets the group's own configs."""
        wanted = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=_GROUP_RESOURCE,
            resource_name=self.name,
            configs=[
                IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=0, value=value)
                for name, value in configs.items()
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[wanted])
        (changed,) = self._bootstrap.get(request, 1, IncrementalAlterConfigsResponse).responses
        assert changed.error_code == 0, changed

    def create_topic(self, name: str) -> None:
        """Makes a topic, of which the coordinator hears later."""
        wanted = CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=PARTITIONS, replication_factor=1
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
        (made,) = self._bootstrap.get(request, 7, CreateTopicsResponse).topics
        assert made.error_code == 0, made

    def grow_topic(self, name: str, partitions: int) -> None:
        wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=partitions, assignments=None)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=30_000)
        (grown,) = self._bootstrap.get(request, 3, CreatePartitionsResponse).results
        assert grown.error_code == 0, grown

    def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000)
        (gone,) = self._bootstrap.get(request, 5, DeleteTopicsResponse).responses
        assert gone.error_code == 0, gone

    def wait_until_known(self, topic: str) -> None:
        """Until coordinators know a topic: they hear of it after the brokers do that serve metadata."""
        with Group(self.broker, topic) as probe:
            member = probe.consumer()
            member.join()
            eventually(lambda: member.ack().error_code == 0 and member.assigned, f"{topic} to be known")
            member.leave()

    def described(self, version: int = 5) -> DescribeGroupsResponse.DescribedGroup:
        request = DescribeGroupsRequest(groups=[self.name])
        (found,) = self.outside.get(request, version, DescribeGroupsResponse).groups
        return found

    def consumer_described(self) -> ConsumerGroupDescribeResponse.DescribedGroup:
        request = ConsumerGroupDescribeRequest(group_ids=[self.name])
        (found,) = self.outside.get(request, 1, ConsumerGroupDescribeResponse).groups
        return found

    def state(self) -> str:
        """The state that ListGroups gives, of a group of either protocol; "" for none."""
        listed = self.outside.get(ListGroupsRequest(), 5, ListGroupsResponse)
        assert listed.error_code == 0
        return next((each.group_state for each in listed.groups if each.group_id == self.name), "")

    def wait_for(self, state: str, members: int | None = None) -> None:
        """Until a classic group is in a state, with so many members."""

        def is_there() -> bool:
            found = self.described()
            return found.group_state == state and members in (None, len(found.members))

        eventually(is_there, f"{self.name} to be {state} with {members} members", within=60, every=0.01)

    def committed(self, partition: int = 0, version: int = 9, require_stable: bool = False) -> int:
        """The committed offset of a partition, -1 for none."""
        topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name=self.topic, partition_indexes=[partition])]
        wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=self.name, topics=topics)
        request = OffsetFetchRequest(groups=[wanted], require_stable=require_stable)
        (found,) = self.outside.get(request, version, OffsetFetchResponse).groups
        assert found.error_code == 0
        (part,) = found.topics[0].partitions
        assert part.error_code == 0
        return part.committed_offset

    def remove(self, *members: tuple[str, str | None]) -> list[int]:
        """LeaveGroup for several members, each an id and an instance id: their codes."""
        identities = [
            LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance)
            for member_id, instance in members
        ]
        answer = self.outside.get(
            LeaveGroupRequest(group_id=self.name, members=identities), 5, LeaveGroupResponse
        )
        assert answer.error_code == 0
        return [each.error_code for each in answer.members]

    def delete(self) -> int:
        (result,) = self.outside.get(
            DeleteGroupsRequest(groups_names=[self.name]), 2, DeleteGroupsResponse
        ).results
        return result.error_code

    def delete_offsets(self, partitions: list[int], topic: str | None = None) -> tuple[int, dict[int, int]]:
        """OffsetDelete: the code of the request, and those of the partitions."""
        parts = [
            OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=each) for each in partitions
        ]
        wanted = OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic or self.topic, partitions=parts)
        request = OffsetDeleteRequest(group_id=self.name, topics=[wanted])
        answer = self.outside.get(request, 0, OffsetDeleteResponse)
        codes = {part.partition_index: part.error_code for each in answer.topics for part in each.partitions}
        return answer.error_code, codes

    # Groups with members

    def stable_one(self, **options: Any) -> ClassicMember:
        """A classic member with all partitions: Stable, generation 1."""
        member = self.classic(**options)
        assert member.enter().error_code == 0
        assert member.sync({member.member_id: {self.topic: ALL}}).error_code == 0
        return member

    def rebalance(self, *members: ClassicMember) -> None:
        """All members send JoinGroup, whether or not some are parked already, and get the same generation."""
        for member in members:
            if not member.link.is_waiting:
                member.start_join()
        answers = [member.joined() for member in members]
        assert {(each.error_code, each.generation_id) for each in answers} == {(0, members[0].generation)}, (
            answers
        )

    def assign(self, leader: ClassicMember, *others: ClassicMember) -> None:
        """All sync: two partitions for each, in the order in which they are given."""
        for member in others:
            member.start_sync()
        members = [leader, *others]
        share = PARTITIONS // len(members)
        given = {
            member.member_id: {self.topic: ALL[number * share : (number + 1) * share]}
            for number, member in enumerate(members)
        }
        leader.start_sync(given)
        for member in members:
            answer = member.synced()
            assert (answer.error_code, assigned_parts(answer.assignment)) == (0, given[member.member_id])

    def stable_pair(
        self, first: dict[str, Any] | None = None, second: dict[str, Any] | None = None
    ) -> tuple[ClassicMember, ClassicMember]:
        """Two classic members, Stable in generation 2: the leader with 0 and 1, the other with 2 and 3."""
        leader, other = self.completing_pair(first, second)
        self.assign(leader, other)
        return leader, other

    def completing_pair(
        self, first: dict[str, Any] | None = None, second: dict[str, Any] | None = None
    ) -> tuple[ClassicMember, ClassicMember]:
        """Two classic members, CompletingRebalance in generation 2: nobody has synced. The first is the leader."""
        leader, other = self.stable_one(**(first or {})), self.classic(**(second or {}))
        other.start_entering()
        self.wait_for("PreparingRebalance", members=2)
        self.rebalance(leader, other)
        assert leader.leader == other.leader == leader.member_id
        return leader, other

    def consumer_pair(
        self, first: dict[str, Any] | None = None, second: dict[str, Any] | None = None
    ) -> tuple[ConsumerMember, ConsumerMember]:
        """Two members of KIP-848 with two partitions each, both at epoch 3, which is the group's."""
        one, other = self.consumer(**(first or {})), self.consumer(**(second or {}))
        assert one.join().member_epoch == 2
        assert other.join().member_epoch == 3
        one.beat()
        one.ack()
        other.ack()
        assert (one.epoch, other.epoch, sorted(one.partitions + other.partitions)) == (3, 3, ALL)
        return one, other


def _java_hash(text: str) -> int:
    """String.hashCode of ASCII text."""
    found = 0
    for letter in text.encode("ascii"):
        found = (31 * found + letter) & 0xFFFFFFFF
    return found - (1 << 32) if found >= 1 << 31 else found
