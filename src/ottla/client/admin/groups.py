"""Groups: list, describe, delete.

A group is of one of two types, classic or consumer (KIP-848), and calls treat both alike. Every call about a group
goes to its coordinator. What groups have committed is in group_offsets.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from ottla.assignors.protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from ottla.client.admin.base import AdminBase, known_names
from ottla.client.admin.results import (
    Errors,
    GroupDescription,
    ListedGroup,
    MemberDescription,
    Results,
    in_order,
)
from ottla.client.deadline import Deadline
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    BrokerError,
    DecodeError,
    GroupIdNotFoundError,
    KafkaError,
    UnsupportedApiError,
    from_code,
)
from ottla.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

_T = TypeVar("_T")

GROUP_STATES: Final = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "Stable",
    "Dead",
    "NotReady",
)
GROUP_TYPES: Final = ("classic", "consumer", "share", "streams")

_GROUPS_AT_ONCE: Final = 200


class GroupsAdmin(AdminBase):
    """What can be read of, and done to, groups."""

    async def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[str, ListedGroup]:
        """All groups by id, or those in some states, or of some types.

            await kafka.admin.list_groups(states=["Stable"], types=["classic", "consumer"])

        Every broker knows the groups that it coordinates. With errors="collect", a broker that could not be asked is
        in `errors`, as "broker 1".
        """
        request = ListGroupsRequest(
            states_filter=known_names("states", states, GROUP_STATES),
            types_filter=known_names("types", types, GROUP_TYPES),
        )
        found: dict[str, ListedGroup] = {}
        failed: dict[str, KafkaError] = {}
        for shard in await self._requests.fan_out(request, timeout=timeout):
            error = shard.error
            if isinstance(shard.response, ListGroupsResponse):
                error = from_code(shard.response.error_code, broker=shard.broker)
                found.update((group.group_id, _listed(group)) for group in shard.response.groups)
            if error is not None:
                failed[f"broker {shard.broker}"] = error
        return Results(dict(sorted(found.items())), failed).checked(errors)

    async def describe_group(self, group: str, *, timeout: float | None = None) -> GroupDescription:
        """A group and its members, of either type; GroupIdNotFoundError where there is none."""
        return (await self.describe_groups([group], timeout=timeout))[group]

    async def describe_groups(
        self, groups: Iterable[str], *, errors: Errors = "raise", timeout: float | None = None
    ) -> Results[str, GroupDescription]:
        """Groups and their members, by group id."""
        requested = _group_ids(groups)
        deadline = self._deadline(timeout)

        def consumer(some: Sequence[str]) -> ConsumerGroupDescribeRequest:
            return ConsumerGroupDescribeRequest(group_ids=list(some))

        def classic(some: Sequence[str]) -> DescribeGroupsRequest:
            return DescribeGroupsRequest(groups=list(some))

        results = await self._per_group(requested, consumer, "groups", _described_consumer, deadline)
        # A group of the other type, or a broker that does not know the new one.
        others = [
            group
            for group, error in results.errors.items()
            if isinstance(error, GroupIdNotFoundError | UnsupportedApiError)
        ]
        older = await self._per_group(others, classic, "groups", _described_classic, deadline)
        for group in others:
            # A broker says of a classic group that does not exist that it is dead, newer ones that there is none.
            if group in older and older[group].state == "Dead":
                older.errors[group] = of_group(GroupIdNotFoundError(), group)
                del older[group]
        missing = {group: error for group, error in results.errors.items() if group not in others}
        return in_order(requested, {**results, **older}, {**missing, **older.errors}).checked(errors)

    async def delete_group(self, group: str, *, timeout: float | None = None) -> None:
        """Deletes a group with all its offsets; it must have no members."""
        await self.delete_groups([group], timeout=timeout)

    async def delete_groups(
        self, groups: Iterable[str], *, errors: Errors = "raise", timeout: float | None = None
    ) -> Results[str, None]:
        """Deletes groups that have no members, with all their offsets; what came of each, by group id."""

        def request(some: Sequence[str]) -> DeleteGroupsRequest:
            return DeleteGroupsRequest(groups_names=list(some))

        results = await self._per_group(
            _group_ids(groups), request, "results", _nothing, self._deadline(timeout)
        )
        return results.checked(errors)

    async def _per_group(
        self,
        groups: Sequence[str],
        request: Callable[[Sequence[str]], Any],
        in_response: str,
        made: Callable[[Any, int | None], _T],
        deadline: Deadline,
    ) -> Results[str, _T]:
        """Sends a request about several groups, to the coordinator of each."""
        found: dict[str, _T] = {}
        failed: dict[str, KafkaError] = {}
        for some in in_batches(groups, _GROUPS_AT_ONCE):
            for shard in await self._requests.fan_out(request(some), timeout=deadline.left()):
                if shard.response is None:
                    assert shard.error is not None
                    failed.update((group, shard.error) for group in _groups_of(shard.request))
                    continue
                for item in getattr(shard.response, in_response):
                    message = getattr(item, "error_message", None)
                    error = from_code(item.error_code, message, broker=shard.broker)
                    if error is not None:
                        failed[item.group_id] = of_group(error, item.group_id)
                        continue
                    try:
                        found[item.group_id] = made(item, shard.broker)
                    except DecodeError as unreadable:  # what a member has sent, and not the broker
                        failed[item.group_id] = unreadable
        return in_order(groups, found, failed)


def _group_ids(groups: Iterable[str]) -> list[str]:
    if isinstance(groups, str):
        raise TypeError(f"a list of groups is meant, not {groups!r}: write [{groups!r}]")
    return list(dict.fromkeys(groups))


def in_batches(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]


def of_group(error: BrokerError, group: str) -> BrokerError:
    """The same error, saying which group it is about."""
    error.detail = f"The group is {group!r}."
    return error


def _groups_of(request: Any) -> list[str]:
    for field in ("group_ids", "groups_names", "groups"):
        if field in request.FIELDS:
            return list(getattr(request, field))
    raise TypeError(f"{request!r} names no groups")


def _nothing(item: object, broker: int | None) -> None:
    return None


def _listed(group: ListGroupsResponse.ListedGroup) -> ListedGroup:
    return ListedGroup(
        group.group_id, group.protocol_type, group.group_state or None, group.group_type.lower() or None
    )


def _described_consumer(
    group: ConsumerGroupDescribeResponse.DescribedGroup, broker: int | None
) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        group_type="consumer",
        state=group.group_state,
        protocol_type=PROTOCOL_TYPE,
        assignor=group.assignor_name,
        coordinator=broker,
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.client_host,
                topics=tuple(sorted(member.subscribed_topic_names)),
                assignment=_partitions_of(member.assignment),
                rack=member.rack_id,
                topic_regex=member.subscribed_topic_regex or None,
                member_epoch=member.member_epoch,
                target=_partitions_of(member.target_assignment),
            )
            for member in group.members
        ),
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
    )


def _partitions_of(assignment: ConsumerGroupDescribeResponse.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, number)
            for topic in assignment.topic_partitions
            for number in topic.partitions
        )
    )


def _described_classic(group: DescribeGroupsResponse.DescribedGroup, broker: int | None) -> GroupDescription:
    # Connect and others exchange bytes of their own.
    readable = group.protocol_type == PROTOCOL_TYPE
    return GroupDescription(
        group_id=group.group_id,
        group_type="classic",
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=broker,
        members=tuple(_classic_member(member, readable) for member in group.members),
    )


def _classic_member(member: DescribeGroupsResponse.DescribedGroupMember, readable: bool) -> MemberDescription:
    topics: tuple[str, ...] = ()
    rack = None
    assigned: list[tuple[str, int]] = []
    if readable and member.member_metadata:
        subscription = decode_subscription(member.member_metadata, member.member_id)
        topics, rack = subscription.topics, subscription.rack
    if readable:
        assigned, _ = decode_assignment(member.member_assignment)
    return MemberDescription(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        topics=tuple(sorted(topics)),
        assignment=tuple(sorted(TopicPartition(*partition) for partition in assigned)),
        rack=rack,
    )
