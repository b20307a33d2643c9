"""The KIP-848 groups of one shard, and what every part of their coordinator works with.

Here a group comes from its records and goes with them, timers begin after a load, and topics that change are told to
the groups that read them. What members do is in heartbeat.py and classic_in_consumer.py, how a group changes to and
from the classic protocol in migration.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.broker.coordinator.groups.advance import next_epoch
from ottla.broker.coordinator.groups.consumer_configs import ConsumerGroupConfigs
from ottla.broker.coordinator.groups.consumer_group import ConsumerGroup
from ottla.broker.coordinator.groups.consumer_member import ConsumerMember, MemberState
from ottla.broker.coordinator.groups.consumer_records import (
    ConsumerGroupKey,
    member_tombstones,
    regex_tombstone,
)
from ottla.broker.coordinator.groups.migration import becomes_classic, to_classic
from ottla.broker.coordinator.groups.records import ConsumerGroupMetadataKey, RecordValue
from ottla.broker.coordinator.shard import Result
from ottla.errors import BrokerError, GroupIdNotFoundError, NotCoordinatorError
from ottla.wire import Uuid

if TYPE_CHECKING:
    from ottla.broker.coordinator.groups.classic import ClassicGroup
    from ottla.broker.coordinator.groups.classic_state import ClassicRules
    from ottla.broker.coordinator.groups.group import Group
    from ottla.broker.coordinator.shard import ShardContext
    from ottla.broker.metadata.image import Delta, MetadataImage

_R = TypeVar("_R")

SESSION: Final = "session"
REBALANCE: Final = "rebalance"
JOIN: Final = "join"
SYNC: Final = "sync"
"""The timers that a member may have; one of the first kind each, the others while something is asked of it."""


class ConsumerGroups:
    """Those of one shard. `groups` is the shard's own: groups of both protocols, by id."""

    def __init__(self, context: ShardContext, groups: dict[str, Group], rules: ClassicRules) -> None:
        self.context = context
        self.groups = groups
        self.rules = rules
        self.configs = ConsumerGroupConfigs(context.configs, context.image)
        self.topics_version = context.image.offset
        """The offset of the metadata at which topics last came; expressions resolved before may match more."""
        self.resolving: set[str] = set()
        """Groups whose regular expressions are being resolved."""

    @property
    def image(self) -> MetadataImage:
        return self.context.image

    def new_id(self) -> str:
        """An id for a member that brings none, in Kafka's spelling of random ids."""
        return str(Uuid(self.context.random.randbytes(16)))

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return (group for group in self.groups.values() if isinstance(group, ConsumerGroup))

    def known(self, group_id: str) -> ConsumerGroup:
        """A group of this protocol; GROUP_ID_NOT_FOUND for any other, and for none."""
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError(f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
        return group

    # From and to records

    def replay(self, key: ConsumerGroupKey, value: RecordValue | None) -> None:
        group = self.groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return  # the end of something that ended before, or that a compacted log no longer has
            group = self.groups[key.group_id] = ConsumerGroup(key.group_id, self.image)
        if isinstance(key, ConsumerGroupMetadataKey) and value is None:
            del self.groups[key.group_id]
            return
        group.replay(key, value)

    def on_loaded(self) -> None:
        """Every member has a whole session to be heard of by its new coordinator."""
        for group in self:
            self._start_timers(group, group.members)

    def on_metadata(self, delta: Delta) -> None:
        if delta.created_topics:
            self.topics_version = self.image.offset
        changed = {*delta.created_topics.values(), *delta.deleted_topics.values()}
        changed |= {
            change.topic
            for change in delta.partitions.values()
            if change.old is None or change.new is None or change.old.replicas != change.new.replicas
        }
        for group in self:
            if not changed.isdisjoint(group.subscribed_topics):
                group.request_metadata_refresh()

    # Timers

    def renew_session(self, group_id: str, member: ConsumerMember) -> None:
        timeout_ms = (
            self.configs.session_timeout_ms(group_id)
            if member.classic is None
            else member.classic.session_timeout_ms
        )
        self._schedule(SESSION, group_id, member.id, timeout_ms)

    def await_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """A member that stays at this epoch for its rebalance timeout is removed: others wait for what it has."""
        epoch = member.epoch

        def over(_: Any) -> Result[None]:
            group = self.groups.get(group_id)
            if not isinstance(group, ConsumerGroup):
                return Result([], None)
            known = group.members.get(member.id)
            return self.fence(group, [known], None) if known and known.epoch == epoch else Result([], None)

        self.context.timers.schedule(
            (REBALANCE, group_id, member.id), member.rebalance_timeout_ms / 1000, over
        )

    def await_join(self, group_id: str, member: ConsumerMember) -> None:
        """A classic member that was told to join again has its rebalance timeout for it, from the first time on."""
        if (JOIN, group_id, member.id) not in self.context.timers:
            self._schedule(JOIN, group_id, member.id, member.rebalance_timeout_ms)

    def await_sync(self, group_id: str, member: ConsumerMember) -> None:
        self._schedule(SYNC, group_id, member.id, member.rebalance_timeout_ms)

    def cancel(self, kind: str, group_id: str, member_id: str) -> None:
        self.context.timers.cancel((kind, group_id, member_id))

    def _schedule(self, kind: str, group_id: str, member_id: str, timeout_ms: int) -> None:
        def over(_: Any) -> Result[None]:
            group = self.groups.get(group_id)
            member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
            if not isinstance(group, ConsumerGroup) or member is None:
                return Result([], None)
            return self.fence(group, [member], None)

        self.context.timers.schedule((kind, group_id, member_id), timeout_ms / 1000, over)

    def _start_timers(self, group: ConsumerGroup, member_ids: Iterable[str]) -> None:
        """A whole session, and the time for what the member has to give up."""
        for member_id in member_ids:
            member = group.members.get(member_id)
            if member is None:
                continue
            self.renew_session(group.group_id, member)
            if member.state is MemberState.UNREVOKED and member.classic is None:
                self.await_revocation(group.group_id, member)

    def _cancel_all(self, group_id: str, member_id: str) -> None:
        for kind in (SESSION, REBALANCE, JOIN, SYNC):
            self.cancel(kind, group_id, member_id)

    # Members that go

    def fence(self, group: ConsumerGroup, gone: Iterable[ConsumerMember], response: _R) -> Result[_R]:
        """Removes members. The group gets its next epoch, or is a classic one if those it keeps are all classic."""
        leaving = {member.id: member for member in gone}
        if not leaving:
            return Result([], response)
        for member_id in leaving:
            self._cancel_all(group.group_id, member_id)
        remaining = [member for member in group.members.values() if member.id not in leaving]
        if becomes_classic(leaving.values(), remaining, self.configs):
            return self.downgrade(group, to_classic(group, remaining, self.image, self.rules), response)
        records = [record for id_ in leaving for record in member_tombstones(group.group_id, id_)]
        regexes = {member.regex for member in leaving.values() if member.regex is not None}
        kept = {member.regex for member in remaining}
        records += [regex_tombstone(group.group_id, regex) for regex in sorted(regexes - kept)]
        next_epoch(group, remaining, True, self.image, records)

        def written(error: BrokerError | None) -> None:
            # They are members still, and will be missed again; by the next coordinator, where there is one.
            if error is not None and not isinstance(error, NotCoordinatorError):
                self._start_timers(group, leaving)

        return Result(records, response, on_commit=written)

    def downgrade(
        self, group: ConsumerGroup, classic: ClassicGroup, response: _R, *, rebalance: bool = True
    ) -> Result[_R]:
        """Puts a classic group in the place of one of this protocol.

        It has parked requests and timers from its first moment on, which no record carries: so it is put there now,
        and not when its records are replayed.
        """
        records = [*group.tombstones(), classic.record()]
        for member_id in group.members:
            self._cancel_all(group.group_id, member_id)
        self.groups[group.group_id] = classic
        classic.start()
        if rebalance:
            classic.prepare_rebalance()

        def written(error: BrokerError | None) -> None:
            if error is not None and self.groups.get(group.group_id) is classic:
                classic.dispose(error)
                self.groups[group.group_id] = group
                self._start_timers(group, group.members)

        return Result(records, response, replay=False, on_commit=written)
