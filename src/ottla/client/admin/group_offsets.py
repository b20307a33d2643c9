"""Offsets of groups: read, change, delete, reset them; how far a group is behind.

Offsets of a group that has members belong to these: from outside they are changed only when all are gone. What a
response says of its coordinator is handled where requests are sent (client/requests), the rest here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.client.admin.base import grouped
from ottla.client.admin.groups import GroupsAdmin, in_batches, of_group
from ottla.client.admin.offsets import OffsetsAdmin, OffsetSpecLike, Partitions
from ottla.client.admin.results import (
    Errors,
    GroupOffset,
    GroupReset,
    ListedOffset,
    PartitionLag,
    Results,
    in_order,
)
from ottla.client.deadline import Deadline
from ottla.client.topic_partition import TopicPartition, check_partition
from ottla.errors import (
    ConfigurationError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    KafkaError,
    NonEmptyGroupError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnstableOffsetCommitError,
    from_code,
)
from ottla.wire.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

_PARTITIONS_AT_ONCE: Final = 1000
"""A commit becomes one batch of the coordinator's log, which is bounded (max.message.bytes)."""
_NOT_COMMITTED: Final = -1
_NO_MEMBER: Final = ""
_NO_GENERATION: Final = -1
_INACTIVE: Final = ("Empty", "Dead")
# What a coordinator says to a commit that comes from no member of a group that has some.
_MEMBERS_ONLY: Final = (
    UnknownMemberIdError,
    IllegalGenerationError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    FencedMemberEpochError,
)


class GroupOffsetsAdmin(GroupsAdmin, OffsetsAdmin):
    """What can be read of, and done to, the offsets of groups."""

    async def group_offsets(
        self,
        group: str,
        partitions: Partitions | None = None,
        *,
        require_stable: bool = False,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, GroupOffset | None]:
        """What a group has committed: for all partitions that it has, or for these, None where it has nothing.

            committed = await kafka.admin.group_offsets("billing")
            committed[ottla.TopicPartition("orders", 0)].offset

        With `require_stable` it waits for transactions that are about to commit other offsets. A group that does not
        exist has committed nothing.
        """
        deadline = self._deadline(timeout)
        requested = None if partitions is None else await self._partitions(partitions, deadline)
        results = await self._fetched(group, requested, require_stable, deadline)
        return results.checked(errors)

    async def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | GroupOffset],
        *,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Commits offsets for a group, which must have no members; a group that does not exist comes to be.

        await kafka.admin.alter_group_offsets("billing", {ottla.TopicPartition("orders", 0): 42})
        """
        deadline = self._deadline(timeout)
        commits = {
            check_partition(partition): offset if isinstance(offset, GroupOffset) else GroupOffset(offset)
            for partition, offset in offsets.items()
        }
        for partition, commit in commits.items():
            if commit.offset < 0:
                raise ValueError(f"the offset of {partition} is {commit.offset}: it is 0 or more")
        return (await self._committed(group, commits, deadline)).checked(errors)

    async def delete_group_offsets(
        self,
        group: str,
        partitions: Partitions,
        *,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Forgets what a group has committed for these partitions, of topics that no member is subscribed to."""
        deadline = self._deadline(timeout)
        requested = await self._partitions(partitions, deadline)
        topic_of, partition_of = (
            OffsetDeleteRequest.OffsetDeleteRequestTopic,
            OffsetDeleteRequest.OffsetDeleteRequestPartition,
        )
        found: dict[TopicPartition, None] = {}
        failed: dict[TopicPartition, KafkaError] = {}
        for some in in_batches(requested, _PARTITIONS_AT_ONCE):
            request = OffsetDeleteRequest(
                group_id=group,
                topics=[
                    topic_of(name=topic, partitions=[partition_of(partition_index=each) for each in numbers])
                    for topic, numbers in grouped(some).items()
                ],
            )
            response = await self._send(request, OffsetDeleteResponse, deadline.left())
            whole = from_code(response.error_code)
            if whole is not None:
                raise of_group(whole, group)
            _split(group, response.topics, found, failed)
        return in_order(requested, found, failed).checked(errors)

    async def reset_group_offsets(
        self,
        group: str,
        partitions: Partitions | None = None,
        *,
        to: OffsetSpecLike | int | None = None,
        shift: int | None = None,
        dry_run: bool = False,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, GroupReset]:
        """Moves a group that has no members to another place: in these partitions, or in all that it has offsets of.

            await kafka.admin.reset_group_offsets("billing", to="earliest")
            await kafka.admin.reset_group_offsets("billing", "orders", to=datetime(2026, 1, 1, tzinfo=UTC))
            await kafka.admin.reset_group_offsets("billing", "orders", shift=-100, dry_run=True)

        `to` is "earliest", "latest", an offset, or a time as `list_offsets` takes it, also "by_duration:PT1H": the
        first record that is not older, or the end. `shift` counts from what is committed. Offsets outside of a
        partition become its beginning or its end. With `dry_run` nothing is changed.
        """
        if (to is None) == (shift is None):
            raise ConfigurationError(
                "say where to: with to= or with shift=, not with both", option="to", value=to
            )
        if isinstance(to, int) and to < 0:
            raise ConfigurationError(f"to={to}: an offset is 0 or more", option="to", value=to)
        deadline = self._deadline(timeout)
        await self._check_inactive(group, deadline)
        committed = await self._fetched(group, None, False, deadline)
        requested = list(committed) if partitions is None else await self._partitions(partitions, deadline)
        if not requested:
            raise KafkaError(f"group {group!r} has committed nothing: name the topics or partitions to reset")
        planned = await self._planned(requested, committed, to, shift, deadline)
        if dry_run:
            return planned.checked(errors)
        commits = {partition: GroupOffset(reset.after) for partition, reset in planned.items()}
        done = await self._committed(group, commits, deadline)
        return in_order(
            requested,
            {partition: planned[partition] for partition in done},
            {**planned.errors, **done.errors},
        ).checked(errors)

    async def group_lag(
        self, group: str, *, errors: Errors = "raise", timeout: float | None = None
    ) -> Results[TopicPartition, PartitionLag]:
        """How far a group is behind, in each partition that it has committed or that a member has.

        lag = await kafka.admin.group_lag("billing")
        print(sum(each.lag or 0 for each in lag.values()))
        """
        deadline = self._deadline(timeout)
        described = await self.describe_group(group, timeout=deadline.left())
        committed = await self._fetched(group, None, False, deadline)
        assigned = (partition for member in described.members for partition in member.assignment)
        every = sorted(dict.fromkeys([*committed, *assigned]))
        if not every:
            return Results(dict[TopicPartition, PartitionLag](), {})
        ends = await self.list_offsets(every, "latest", errors="collect", timeout=deadline.left())
        lags = {
            partition: _lag(committed.get(partition), end.offset)
            for partition, end in ends.items()
            if end.offset is not None
        }
        return in_order(every, lags, ends.errors).checked(errors)

    async def _check_inactive(self, group: str, deadline: Deadline) -> None:
        """An error for a group with members; one that does not exist has none."""
        described = await self.describe_groups([group], errors="collect", timeout=deadline.left())
        failed = described.errors.get(group)
        if failed is not None and not isinstance(failed, GroupIdNotFoundError):
            raise failed
        if group in described and described[group].state not in _INACTIVE:
            raise _active(
                group, f"it is {described[group].state} with {len(described[group].members)} members"
            )

    async def _fetched(
        self,
        group: str,
        partitions: Sequence[TopicPartition] | None,
        require_stable: bool,
        deadline: Deadline,
    ) -> Results[TopicPartition, GroupOffset | None]:
        found: dict[TopicPartition, GroupOffset | None] = {}
        failed: dict[TopicPartition, KafkaError] = {}
        batches = [None] if partitions is None else list(in_batches(partitions, _PARTITIONS_AT_ONCE))
        attempt = 0
        while batches:
            for some in batches:
                self._read_offsets(
                    group, await self._fetch(group, some, require_stable, deadline), found, failed
                )
            # A transaction is about to commit other offsets, and soon will have.
            unstable = [key for key, error in failed.items() if isinstance(error, UnstableOffsetCommitError)]
            delay = self._backoff.delay(attempt)
            attempt += 1
            if not unstable or delay >= deadline.left():
                break
            await self._runtime.clock.sleep(delay)
            for key in unstable:
                del failed[key]
            batches = list(in_batches(unstable, _PARTITIONS_AT_ONCE))
        return in_order(sorted(found) if partitions is None else partitions, found, failed)

    async def _fetch(
        self,
        group: str,
        partitions: Sequence[TopicPartition] | None,
        require_stable: bool,
        deadline: Deadline,
    ) -> OffsetFetchResponse:
        request_group, topic_of = (
            OffsetFetchRequest.OffsetFetchRequestGroup,
            OffsetFetchRequest.OffsetFetchRequestTopics,
        )
        topics = None
        if partitions is not None:
            topics = [
                topic_of(name=topic, partition_indexes=numbers)
                for topic, numbers in grouped(partitions).items()
            ]
        request = OffsetFetchRequest(
            groups=[request_group(group_id=group, topics=topics)], require_stable=require_stable
        )
        return await self._send(request, OffsetFetchResponse, deadline.left())

    def _read_offsets(
        self,
        group: str,
        response: OffsetFetchResponse,
        found: dict[TopicPartition, GroupOffset | None],
        failed: dict[TopicPartition, KafkaError],
    ) -> None:
        for fetched in response.groups:
            whole = from_code(fetched.error_code)
            if whole is not None:
                raise of_group(whole, group)
            for topic in fetched.topics:
                for item in topic.partitions:
                    key = TopicPartition(topic.name, item.partition_index)
                    error = from_code(item.error_code, topic=key.topic, partition=key.partition)
                    if error is not None:
                        failed[key] = of_group(error, group)
                    else:
                        found[key] = _group_offset(item)

    async def _committed(
        self, group: str, commits: Mapping[TopicPartition, GroupOffset], deadline: Deadline
    ) -> Results[TopicPartition, None]:
        topic_of, partition_of = (
            OffsetCommitRequest.OffsetCommitRequestTopic,
            OffsetCommitRequest.OffsetCommitRequestPartition,
        )
        found: dict[TopicPartition, None] = {}
        failed: dict[TopicPartition, KafkaError] = {}
        for some in in_batches(list(commits), _PARTITIONS_AT_ONCE):
            topics = []
            for topic, numbers in grouped(some).items():
                offsets = [(number, commits[TopicPartition(topic, number)]) for number in numbers]
                topics.append(
                    topic_of(
                        name=topic,
                        partitions=[
                            partition_of(
                                partition_index=number,
                                committed_offset=commit.offset,
                                committed_leader_epoch=-1
                                if commit.leader_epoch is None
                                else commit.leader_epoch,
                                committed_metadata=commit.metadata,
                            )
                            for number, commit in offsets
                        ],
                    )
                )
            request = OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=_NO_GENERATION,
                member_id=_NO_MEMBER,
                topics=topics,
            )
            response = await self._send(request, OffsetCommitResponse, deadline.left())
            _split(group, response.topics, found, failed)
        return in_order(commits, found, failed)

    async def _planned(
        self,
        partitions: Sequence[TopicPartition],
        committed: Mapping[TopicPartition, GroupOffset | None],
        to: OffsetSpecLike | int | None,
        shift: int | None,
        deadline: Deadline,
    ) -> Results[TopicPartition, GroupReset]:
        """Where each partition goes; those without a beginning or an end that is known fail."""
        first = await self.list_offsets(partitions, "earliest", errors="collect", timeout=deadline.left())
        end = await self.list_offsets(partitions, "latest", errors="collect", timeout=deadline.left())
        chosen: Mapping[TopicPartition, ListedOffset] = {}
        failed = {**first.errors, **end.errors}
        if to is not None and not isinstance(to, int):
            listed = await self.list_offsets(partitions, to, errors="collect", timeout=deadline.left())
            chosen, failed = listed, {**failed, **listed.errors}
        found: dict[TopicPartition, GroupReset] = {}
        for partition in partitions:
            if partition in failed:
                continue
            before = committed.get(partition)
            if isinstance(to, int):
                after: int | None = to
            elif shift is None:
                after = chosen[partition].offset
            elif before is None:
                failed[partition] = KafkaError(
                    f"{partition} has no committed offset to shift: give it one with to="
                )
                continue
            else:
                after = before.offset + shift
            lowest, highest = first[partition].offset or 0, end[partition].offset or 0
            found[partition] = GroupReset(
                None if before is None else before.offset,
                highest if after is None else min(max(after, lowest), highest),
            )
        return in_order(partitions, found, failed)


def _active(group: str, why: str) -> NonEmptyGroupError:
    return NonEmptyGroupError(
        detail=f"The offsets of group {group!r} belong to its members ({why}): they can be changed when all are gone."
    )


def _split(
    group: str,
    topics: Iterable[Any],
    found: dict[TopicPartition, None],
    failed: dict[TopicPartition, KafkaError],
) -> None:
    """What a response says of each partition."""
    for topic in topics:
        for item in topic.partitions:
            key = TopicPartition(topic.name, item.partition_index)
            error = from_code(item.error_code, topic=key.topic, partition=key.partition)
            if error is None:
                found[key] = None
            elif isinstance(error, _MEMBERS_ONLY):
                failed[key] = _active(group, error.name)
            else:
                failed[key] = of_group(error, group)


def _group_offset(item: OffsetFetchResponse.OffsetFetchResponsePartitions) -> GroupOffset | None:
    if item.committed_offset == _NOT_COMMITTED:
        return None
    epoch = item.committed_leader_epoch
    return GroupOffset(item.committed_offset, item.metadata or "", None if epoch < 0 else epoch)


def _lag(committed: GroupOffset | None, end: int) -> PartitionLag:
    if committed is None:
        return PartitionLag(None, end, None)
    return PartitionLag(committed.offset, end, max(0, end - committed.offset))
