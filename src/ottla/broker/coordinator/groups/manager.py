"""The groups of one partition of the offsets topic: by their ids, as their records say, with their offsets.

A group is what its members made it, a classic group or a consumer group; requests that both kinds serve come here
and go to the one that is meant. An id that only has offsets is a simple group: a classic one that never had members.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinator.groups import classic_in_consumer
from ottla.broker.coordinator.groups.classic import ClassicGroup, Sender
from ottla.broker.coordinator.groups.classic_members import UNKNOWN_MEMBER_ID, refused_join
from ottla.broker.coordinator.groups.classic_state import ClassicRules
from ottla.broker.coordinator.groups.consumer_group import ConsumerGroup
from ottla.broker.coordinator.groups.consumer_groups import ConsumerGroups
from ottla.broker.coordinator.groups.offsets import OffsetStore, tombstone
from ottla.broker.coordinator.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownRecordTypeError,
    decode,
)
from ottla.broker.coordinator.shard import CoordinatorRecord, Result
from ottla.errors import BrokerError, UnknownMemberIdError
from ottla.wire.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from ottla.broker.coordinator.groups.group import Group
    from ottla.broker.coordinator.shard import ShardContext
    from ottla.broker.metadata.image import Delta

_log = logging.getLogger("ottla.broker.coordinator.groups.manager")

_EXPIRY: Final = "offset expiry"


class GroupShard:
    """One shard. `context` is what it gets of its node: timers, image, configs, time."""

    def __init__(self, context: ShardContext) -> None:
        self.context = context
        self.timers = context.timers
        self.image = context.image
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        value = context.configs.value
        self.classic_rules = ClassicRules(
            timers=context.timers,
            now_ms=context.now_ms,
            new_id=self.new_id,
            max_size=lambda: int(value("group.max.size")),
            initial_delay_ms=lambda: int(value("group.initial.rebalance.delay.ms")),
        )
        self.consumer_groups = ConsumerGroups(context, self.groups, self.classic_rules)

    def new_id(self) -> str:
        """A random UUID, version 4, in its usual spelling: what Kafka's member ids end with."""
        number = self.context.random.getrandbits(128) & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62
        return "-".join(re.findall(r"(.{8})(.{4})(.{4})(.{4})(.{12})", f"{number:032x}")[0])

    # Records

    def replay(self, key: bytes, value: bytes | None, offset: int = 0) -> None:
        try:
            named, content = decode(key, value)
        except UnknownRecordTypeError as error:
            _log.warning("%s is left out: a newer release may have written it", error)
            return
        match named:
            case OffsetCommitKey():
                assert content is None or isinstance(content, OffsetCommitValue)
                if content is not None:
                    self.simple_group(named.group)
                self.offsets.replay((named.group, named.topic, named.partition), content, offset)
            case GroupMetadataKey():
                assert content is None or isinstance(content, GroupMetadataValue)
                self._replay_classic(named.group, content)
            case _:
                self.consumer_groups.replay(named, content)

    def replay_transactional(
        self, producer_id: int, key: bytes, value: bytes | None, offset: int = 0
    ) -> None:
        try:
            named, content = decode(key, value)
        except UnknownRecordTypeError as error:
            _log.warning("%s is left out: a newer release may have written it", error)
            return
        if isinstance(named, OffsetCommitKey) and isinstance(content, OffsetCommitValue):
            self.simple_group(named.group)
            key_ = (named.group, named.topic, named.partition)
            self.offsets.replay_pending(producer_id, key_, content, offset)

    def end_transaction(self, producer_id: int, is_commit: bool, offset: int) -> None:
        self.offsets.end_transaction(producer_id, is_commit, offset)

    def simple_group(self, group_id: str) -> None:
        """Offsets without a group are those of a consumer that no group manages."""
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id, self.classic_rules)

    def _replay_classic(self, group_id: str, value: GroupMetadataValue | None) -> None:
        known = self.groups.pop(group_id, None)
        if isinstance(known, ClassicGroup):
            known.dispose(UnknownMemberIdError())
        if value is not None:
            self.groups[group_id] = ClassicGroup.load(group_id, value, self.classic_rules)

    # What happens to the shard

    def on_loaded(self) -> None:
        for group in list(self.groups.values()):
            if isinstance(group, ClassicGroup):
                group.start()
        self.consumer_groups.on_loaded()
        self._expire_later()

    def on_unloaded(self) -> None:
        """Its timers end with the runtime, and members learn it from their next request."""

    def on_committed(self, offset: int) -> None:
        self.offsets.on_committed(offset)

    def on_metadata(self, delta: Delta) -> None:
        self.consumer_groups.on_metadata(delta)
        deleted = set(delta.deleted_topics.values())
        if deleted and self.offsets.keys_of_topics(deleted):
            self.context.submit(
                lambda shard: Result(
                    [tombstone(key) for key in self.offsets.keys_of_topics(deleted)], None, atomic=False
                )
            )

    def _expire_later(self) -> None:
        interval = self.context.configs.value("offsets.retention.check.interval.ms") / 1000
        self.timers.schedule(_EXPIRY, interval, lambda shard: self._expire())

    def _expire(self) -> Result[None]:
        self._expire_later()
        return Result(self.expired(), None, atomic=False)

    def expired(self) -> list[CoordinatorRecord]:
        """The tombstones of offsets whose retention is over, and of groups that have nothing left."""
        now = self.context.now_ms()
        retention = self.context.configs.value("offsets.retention.minutes") * 60_000
        records: list[CoordinatorRecord] = []
        for group_id, group in self.groups.items():
            keeps_some = self.offsets.has_open_transactions(group_id)
            for (topic, partition), committed in self.offsets.of_group(group_id):
                since = group.offset_expires_from(committed.commit_timestamp)
                is_over = (
                    since is not None
                    and not group.is_subscribed_to(topic)
                    and not self.offsets.is_pending(group_id, topic, partition)
                    and (
                        now >= committed.expire_timestamp
                        if committed.expire_timestamp >= 0
                        else now - since >= retention
                    )
                )
                if is_over:
                    records.append(tombstone((group_id, topic, partition)))
                keeps_some |= not is_over
            if group.is_empty and not keeps_some:
                records += group.tombstones()
        return records

    # Requests of members that use the classic protocol

    def join(self, request: JoinGroupRequest, sender: Sender) -> Result[JoinGroupResponse]:
        known = self.groups.get(request.group_id)
        if isinstance(known, ClassicGroup):
            return known.join(request, sender)
        if isinstance(known, ConsumerGroup) and not known.is_empty:
            return classic_in_consumer.join(self.consumer_groups, known, request, sender)
        if request.member_id != UNKNOWN_MEMBER_ID:
            return Result([], refused_join(request.member_id, UnknownMemberIdError))
        group = ClassicGroup(request.group_id, self.classic_rules)
        self.groups[request.group_id] = group
        result = group.join(request, sender)

        def written(error: BrokerError | None) -> None:
            # Without its first record the group is not there, and an empty consumer group that it replaces still is.
            if error is not None and self.groups.get(group.group_id) is group:
                del self.groups[group.group_id]
                if known is not None:
                    self.groups[group.group_id] = known
                group.dispose(error)

        replaced = [] if known is None else known.tombstones()
        return Result([*replaced, group.empty_record()], result.response, replay=False, on_commit=written)

    def sync(self, request: SyncGroupRequest) -> Result[SyncGroupResponse]:
        group = self.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return group.sync(request)
        if isinstance(group, ConsumerGroup):
            return classic_in_consumer.sync(self.consumer_groups, group, request)
        return Result([], SyncGroupResponse(error_code=UnknownMemberIdError.code))

    def heartbeat(self, request: HeartbeatRequest) -> Result[HeartbeatResponse]:
        group = self.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return group.heartbeat(request)
        if isinstance(group, ConsumerGroup):
            return classic_in_consumer.heartbeat(self.consumer_groups, group, request)
        raise UnknownMemberIdError

    def leave(self, request: LeaveGroupRequest) -> Result[LeaveGroupResponse]:
        group = self.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return group.leave(request)
        if isinstance(group, ConsumerGroup):
            return classic_in_consumer.leave(self.consumer_groups, group, request)
        raise UnknownMemberIdError
