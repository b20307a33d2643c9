"""KIP-848: the coordinator assigns, and everything goes through heartbeats.

    join       a heartbeat with epoch 0, which says everything
    assigned   a response has a target: what is not in it is given up and committed, and only then the member says
               what it owns; what was free comes at once, the rest with a later response
    leave      a heartbeat with epoch -1, or -2 for a static member that comes back

`OwnershipReport` decides what a heartbeat says of the partitions; it does no I/O. The coordinator ends a revocation
when a member says that it owns the partitions no more, so nothing is said while some are being given up.

A member chooses its id itself, and keeps it: as another one it would wait for its own session to end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ottla.client.deadline import within
from ottla.client.group.member import CLOSING_S, MemberLoop
from ottla.client.group.membership import MembershipState
from ottla.client.group.reactions import Reaction, after_consumer_heartbeat
from ottla.client.topic_partition import TopicPartition
from ottla.errors import (
    ApiTimeoutError,
    BrokerError,
    ConnectionFailedError,
    ConnectionLostError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    EncodeError,
    KafkaError,
    NoBrokersError,
    NotCoordinatorError,
    RequestTimeoutError,
    UnknownBrokerError,
    UnreleasedInstanceIdError,
    UnsupportedApiError,
    from_code,
)
from ottla.wire import Uuid
from ottla.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from ottla.client.metadata import ClusterView

_logger = logging.getLogger("ottla.client.group")

_JOIN: Final = 0
_LEAVE: Final = -1
_LEAVE_FOR_NOW: Final = -2
_UNRELEASED_TRIES: Final = 3
"""After a fence the coordinator may still hold the static member that this one was."""
_FIRST_INTERVAL_S: Final = 5.0
"""Until a response names one; Kafka's default."""

_ON_THE_WAY: Final = (
    ApiTimeoutError,
    ConnectionFailedError,
    ConnectionLostError,
    NoBrokersError,
    RequestTimeoutError,
    UnknownBrokerError,
)

_SOON_THERE: Final = (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError)

OwnedId = tuple[Uuid, int]
"""A partition as the protocol has it, by topic id."""


class OwnershipReport:
    """What the member tells the coordinator of its partitions, and what it has been told."""

    def __init__(self) -> None:
        self.accepted: dict[OwnedId, None] = {}
        """What it owns, as far as the coordinator is concerned: also of topics that metadata does not know yet."""
        self.target: dict[OwnedId, None] = {}
        self.is_revoking = False
        self._sent: dict[OwnedId, None] | None = None

    def reset(self) -> None:
        """The member begins anew, and owns nothing. A join with anything else is refused, again and again."""
        self.accepted, self.target, self._sent = {}, {}, None
        self.is_revoking = False

    def to_say(self, epoch: int, *, full: bool) -> list[OwnedId] | None:
        """What the next heartbeat says; None says nothing: as before."""
        if epoch == _JOIN:
            return []
        if self.is_revoking:
            return None
        if not self.accepted:
            # Always: a response that got lost may have had partitions, and no list would count as owning them.
            return []
        return list(self.accepted) if full or self.accepted != self._sent else None

    def said(self, owned: list[OwnedId] | None) -> None:
        """It got there."""
        if owned is not None:
            self._sent = dict.fromkeys(owned)

    def was_told(self, assignment: ConsumerGroupHeartbeatResponse.Assignment | None) -> None:
        """No assignment means no change; an empty one means nothing."""
        if assignment is not None:
            self.target = {
                (topic.topic_id, number): None
                for topic in assignment.topic_partitions
                for number in topic.partitions
            }

    @property
    def is_settled(self) -> bool:
        return self.target == self.accepted and not self.is_revoking


class ConsumerGroupLoop(MemberLoop):
    """The loop of a member of a KIP-848 group."""

    _interval = _FIRST_INTERVAL_S
    _sent_at = 0.0
    """When the last heartbeat was."""
    _failures = 0
    _unreleased = 0
    _is_full = True

    def start(self) -> None:
        self._report = OwnershipReport()
        self._reconciling: asyncio.Task[None] | None = None
        self._unresolved: list[OwnedId] = []
        self._unconfirmed: list[asyncio.Future[Reaction]] = []
        self._well_at = self._clock.monotonic()
        self._metadata.add_listener(self)
        super().start()

    async def leave(self) -> None:
        if self._task is not None:
            self._metadata.remove_listener(self)
        await super().leave()

    # The loop

    async def _run(self) -> None:
        self._begin_anew()
        while not self._is_leaving:
            self._check_poll()
            reaction, reason, error = self._take_interruption()
            if reaction in (Reaction.GO_ON, Reaction.RETRY, Reaction.REJOIN):
                self._is_full = self._is_full or reaction is not Reaction.GO_ON
                if self._partitions.purged:
                    self._reconcile_soon()
                reaction, reason, error = await self._beat()
            if reaction is Reaction.GO_ON:
                # From one to the next, as in classic groups, and not from a response.
                await self._pause(max(0.0, self._sent_at + self._interval - self._clock.monotonic()))
            else:
                await self._failed(reaction, reason, error)
        await self._leave()

    def _begin_anew(self) -> None:
        membership = self._membership
        if not membership.member_id:
            membership.member_id = str(Uuid(bytes(self._random.randrange(256) for _ in range(16))))
        membership.joined(membership.member_id, _JOIN)
        membership.move(MembershipState.JOINING, membership.reason)
        self._report.reset()
        self._unresolved = []
        self._is_full = True

    async def _pause(self, seconds: float) -> None:
        """Until the next heartbeat is due, or something has happened that the coordinator should know."""
        try:
            await within(self._clock, seconds, self._interrupted.wait())
        except TimeoutError:
            return

    # Heartbeats

    async def confirm(self, seconds: float) -> Reaction:
        # By the loop: a response may have an assignment, which only it may take.
        confirmed: asyncio.Future[Reaction] = asyncio.get_running_loop().create_future()
        self._unconfirmed.append(confirmed)
        self._interrupted.set()
        try:
            return await within(self._clock, seconds, confirmed)
        except TimeoutError:
            return Reaction.RETRY

    async def _beat(self) -> tuple[Reaction, str, KafkaError | None]:
        # A heartbeat that was sent before it was asked for says nothing.
        asked, self._unconfirmed = self._unconfirmed, []
        outcome = await self._send_heartbeat()
        for confirmed in asked:
            if not confirmed.done():
                confirmed.set_result(outcome[0])
        return outcome

    async def _send_heartbeat(self) -> tuple[Reaction, str, KafkaError | None]:
        membership, report = self._membership, self._report
        try:
            request = await self._request()
            owned = _owned_ids(request)
            self._sent_at = self._clock.monotonic()
            # Once: a response that got lost may have had the assignment, which the coordinator gives again only to a
            # heartbeat that says everything. The loop sends that one.
            response = await self._requests.send(
                request, timeout=self._config.session_timeout_ms / 1000, once=True
            )
        except UnsupportedApiError as error:
            error.add_note("group_protocol='classic' is what older brokers know")
            return Reaction.FAIL, "the brokers do not know KIP-848", error
        except EncodeError as error:
            error.add_note("a ServerPattern needs Kafka 4.0 or later; re.compile() is resolved by the client")
            return Reaction.FAIL, "the brokers do not know regular expressions", error
        except KafkaError as error:
            if not _may_pass(error):
                return Reaction.FAIL, "the coordinator cannot be reached", error
            self._log_failed_heartbeat(error)
            return Reaction.RETRY, "a heartbeat did not get through", error
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        code = response.error_code
        reaction = after_consumer_heartbeat(code)
        if reaction is not Reaction.GO_ON:
            refused = from_code(code, response.error_message)
            if code == UnreleasedInstanceIdError.code and 0 < self._unreleased <= _UNRELEASED_TRIES:
                self._unreleased += 1
                reaction = Reaction.RETRY
            return reaction, f"a heartbeat was answered with {refused}", refused
        self._failures = self._unreleased = 0
        self._is_full = False
        self.last_heartbeat = self._well_at = self._clock.monotonic()
        report.said(owned)
        # The assignment first: whoever sees the epoch has to see what it is the epoch of.
        report.was_told(response.assignment)
        if response.heartbeat_interval_ms > 0:
            self._interval = response.heartbeat_interval_ms / 1000
        # What is older than the request, or no epoch at all, would make the member leave.
        if response.member_epoch > 0:
            self._advance(response.member_id or membership.member_id, response.member_epoch)
        self._reconcile_soon()
        return Reaction.GO_ON, "", None

    def _log_failed_heartbeat(self, error: KafkaError) -> None:
        """A coordinator that is about to be there is no trouble, unless that lasts: a fresh cluster has none yet."""
        silent = self._clock.monotonic() - self._well_at
        is_soon = isinstance(error, _SOON_THERE) and silent < self._config.session_timeout_ms / 1000
        level = logging.INFO if is_soon else logging.WARNING
        _logger.log(level, "%s: a heartbeat did not get through: %s", self._membership, error)

    def _advance(self, member_id: str, epoch: int) -> None:
        membership = self._membership
        was_joining = membership.state is MembershipState.JOINING
        if was_joining or membership.generation != epoch:
            membership.joined(member_id, epoch)
            membership.move(MembershipState.STABLE if was_joining else membership.state)

    async def _request(self) -> ConsumerGroupHeartbeatRequest:
        membership, config = self._membership, self._config
        full = self._is_full or membership.generation == _JOIN
        request = ConsumerGroupHeartbeatRequest(
            group_id=membership.group_id,
            member_id=membership.member_id,
            member_epoch=membership.generation,
            instance_id=membership.instance_id,
        )
        if full:
            request.subscribed_topic_names = list(await self._topics.names())
            request.subscribed_topic_regex = self._topics.server_pattern
            request.rebalance_timeout_ms = config.max_poll_interval_ms
            request.rack_id = config.client_rack or None
            request.server_assignor = config.group_remote_assignor or None
        # Behind the wait: what is owned may have changed meanwhile.
        owned = self._report.to_say(membership.generation, full=full)
        request.topic_partitions = None if owned is None else _by_topic(owned)
        return request

    # From one assignment to the next

    def _reconcile_soon(self) -> None:
        is_due = not self._report.is_settled or self._unresolved or self._partitions.purged
        if self._reconciling is None and is_due:
            self._reconciling = self._tasks.spawn(self._reconcile(), "reconcile a group's partitions")
            self._reconciling.add_done_callback(self._reconciled)

    def _reconciled(self, _: asyncio.Task[None]) -> None:
        self._reconciling = None

    async def _reconcile(self) -> None:
        """Gives up what is not in the target, while heartbeats go on; then says so, and takes what is new."""
        report, membership = self._report, self._membership
        while True:
            target = dict(report.target)
            removed = [each for each in report.accepted if each not in target]
            # What the program has purged goes before the coordinator takes it away.
            purged = list(self._partitions.purged)
            if removed or purged:
                report.is_revoking = True
                membership.move(MembershipState.REVOKING)
                await self._partitions.take(dict.fromkeys([*self._resolve(removed)[0], *purged]), lost=False)
                report.is_revoking = False
            has_changed = target != report.accepted
            report.accepted = target
            if membership.state is not MembershipState.JOINING:
                membership.move(MembershipState.STABLE)
            resolved, self._unresolved = self._resolve(target)
            self._partitions.give(tp for tp in resolved if tp not in self._partitions.owned)
            if self._unresolved:
                self._metadata.refresh_now("a group has assigned partitions of a topic that is not known")
            if has_changed:
                self._interrupted.set()
            if report.target == target and not self._partitions.purged:
                return

    def _resolve(self, owned: Iterable[OwnedId]) -> tuple[list[TopicPartition], list[OwnedId]]:
        """By name; and those whose topic metadata does not know."""
        view = self._metadata.view
        resolved: list[TopicPartition] = []
        unknown: list[OwnedId] = []
        for topic_id, number in owned:
            name = view.topic_name(topic_id)
            if name is None:
                unknown.append((topic_id, number))
            else:
                resolved.append(TopicPartition(name, number))
        return resolved, unknown

    def on_metadata(self, view: ClusterView) -> Iterable[str]:
        if not self._unresolved:
            return ()
        if any(view.topic_name(topic_id) is not None for topic_id, _ in self._unresolved):
            self._reconcile_soon()
        return ["a group has assigned partitions of a topic that is not known"]

    async def _stop_reconciling(self) -> None:
        while (reconciling := self._reconciling) is not None:
            # What it has begun to give up is given up.
            await asyncio.gather(reconciling, return_exceptions=True)

    # Trouble, and the end

    async def _failed(self, reaction: Reaction, reason: str, error: KafkaError | None) -> None:
        membership = self._membership
        if reaction in (Reaction.RETRY, Reaction.REJOIN):
            if membership.state is MembershipState.JOINING:
                membership.move(MembershipState.JOINING, str(error or reason))
            self._is_full = True
            await self._back_off()
            return
        self._log_trouble(reaction, reason, error)
        if reaction is Reaction.FAIL and membership.generation > 0:
            await self._send_leave()
        self._polling.allow()
        await self._stop_reconciling()
        membership.move(MembershipState.JOINING, reason)
        await self._partitions.take(list(self._partitions.owned), lost=True)
        self._unreleased = 1
        if reaction in (Reaction.FAIL, Reaction.FENCED) and error is not None:
            await self._stop_until_raised(error, for_good=reaction is Reaction.FENCED)
        self._begin_anew()
        if self._failures:
            await self._back_off()
        self._failures += 1

    async def _back_off(self) -> None:
        if not self._is_leaving:
            await self._pause(self._backoff.delay(self._failures))
        self._failures += 1

    async def _leave(self) -> None:
        await self._stop_reconciling()
        if self._membership.may_commit:
            self._membership.move(MembershipState.REVOKING)
        await self._partitions.take(
            list(self._partitions.owned), lost=not self._membership.may_commit, seconds=CLOSING_S
        )
        if self._membership.generation > 0:
            await self._send_leave()

    async def _send_leave(self) -> None:
        membership = self._membership
        request = ConsumerGroupHeartbeatRequest(
            group_id=membership.group_id,
            member_id=membership.member_id,
            member_epoch=_LEAVE_FOR_NOW if membership.instance_id else _LEAVE,
            instance_id=membership.instance_id,
        )
        try:
            # What it says does not matter: a member that is not known has left.
            await self._requests.send(request, timeout=CLOSING_S)
        except KafkaError as error:
            _logger.info("%s could not say that it leaves: %s", membership, error)


def _may_pass(error: KafkaError) -> bool:
    """Whether it is the way to the coordinator that failed: the next heartbeat looks for another one."""
    return error.retriable if isinstance(error, BrokerError) else isinstance(error, _ON_THE_WAY)


def _by_topic(owned: Iterable[OwnedId]) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    topics: dict[Uuid, ConsumerGroupHeartbeatRequest.TopicPartitions] = {}
    for topic_id, number in owned:
        if topic_id not in topics:
            topics[topic_id] = ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=[])
        topics[topic_id].partitions.append(number)
    return list(topics.values())


def _owned_ids(request: ConsumerGroupHeartbeatRequest) -> list[OwnedId] | None:
    if request.topic_partitions is None:
        return None
    return [(topic.topic_id, number) for topic in request.topic_partitions for number in topic.partitions]
