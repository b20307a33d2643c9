"""The classic protocol: JoinGroup, SyncGroup, heartbeats; one of the members, the leader, assigns the partitions.

    join       with what is owned, where the protocol is cooperative; the coordinator answers when all members have
    sync       the leader sends the assignments, everyone gets its own
    heartbeat  from here on, before the offsets of new partitions are fetched
    rebalance  a heartbeat says that it begins: eager members give everything up, then all join again

Whether it is eager or cooperative (KIP-429) is decided by the assignor that the coordinator has chosen, each time: a
group that falls back to an eager one makes its members give everything up.

What an error code means is reactions.py's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from ottla.assignors import ASSIGNORS, MemberSubscription
from ottla.assignors.protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.client.deadline import within
from ottla.client.group.member import CLOSING_S, MemberLoop
from ottla.client.group.membership import MembershipState
from ottla.client.group.reactions import Reaction, after_heartbeat, after_join, after_sync
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ApiTimeoutError, KafkaError, MemberIdRequiredError, from_code
from ottla.wire.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)

_logger = logging.getLogger("ottla.client.group")

_STABLE: Final = "Stable"
"""The state of a group whose members have their assignments."""
_JOIN_MARGIN_S: Final = 5.0
"""As in Java: the coordinator waits for members up to the rebalance timeout, and then has to respond."""


class _Refused(NamedTuple):
    reaction: Reaction
    reason: str
    error: KafkaError | None


_JoinOutcome: TypeAlias = list[TopicPartition] | _Refused | None


class ClassicLoop(MemberLoop):
    """The loop of a member of a classic group."""

    _chosen = ""
    """The assignor of the last generation."""
    _last_assigned: tuple[TopicPartition, ...] = ()
    """What sticky assignors are told, also after an eager member has given it up."""
    _to_cover: Sequence[tuple[str, int]] = ()
    """All partitions that the members of the group should have among them, as its leader saw it last."""
    _join_reason = ""
    _failures = 0

    async def _run(self) -> None:
        while not self._is_leaving:
            trouble = self._take_interruption()
            outcome = (
                _Refused(*trouble) if trouble[0] > Reaction.REJOIN else await self._join_unless_leaving()
            )
            if isinstance(outcome, _Refused):
                await self._failed(*outcome)
            elif outcome is not None:
                await self._stable(outcome)
        await self._leave()

    # Joining

    async def _join_unless_leaving(self) -> _JoinOutcome:
        """The assignment; None where the member leaves instead."""
        self._membership.move(MembershipState.JOINING, self._join_reason)
        joining = self._tasks.spawn(self._join(), "join a group")
        joining.add_done_callback(lambda _: self._stirred.set())
        await self._until(joining.done)
        if not joining.done():
            # What is owned is committed when the join has ended: while the group waits for its leader it takes none.
            if self._partitions.owned:
                await self._briefly(joining)
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)
        return None if joining.cancelled() else joining.result()

    async def _briefly(self, joining: asyncio.Task[_JoinOutcome]) -> None:
        try:
            await within(self._clock, CLOSING_S, asyncio.shield(joining))
        except TimeoutError:
            _logger.info("%s leaves before the group has its assignment", self._membership)

    async def _join(self) -> _JoinOutcome:
        try:
            return await self._join_and_sync()
        except KafkaError as error:
            return _Refused(Reaction.FAIL, "the coordinator cannot be reached", error)

    async def _join_and_sync(self) -> _JoinOutcome:
        membership = self._membership
        topics = await self._topics.names()
        response = await self._requests.send(
            self._join_request(topics), timeout=self._join_timeout(), lane=self._lane
        )
        assert isinstance(response, JoinGroupResponse)
        code = response.error_code
        reaction = after_join(code)
        if code == MemberIdRequiredError.code:
            # KIP-394: the coordinator has given it one, and it joins by that.
            membership.joined(response.member_id, membership.generation)
            return await self._join_and_sync()
        if reaction is not Reaction.GO_ON:
            return _Refused(reaction, "JoinGroup was refused", from_code(code))
        membership.joined(response.member_id, response.generation_id)
        assignments = await self._assignments(response)
        synced = await self._requests.send(
            SyncGroupRequest(
                group_id=membership.group_id,
                generation_id=response.generation_id,
                member_id=response.member_id,
                group_instance_id=membership.instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=response.protocol_name,
                assignments=assignments,
            ),
            timeout=self._join_timeout(),
            lane=self._lane,
        )
        assert isinstance(synced, SyncGroupResponse)
        reaction = after_sync(synced.error_code)
        if reaction is not Reaction.GO_ON:
            return _Refused(reaction, "SyncGroup was refused", from_code(synced.error_code))
        self._failures = 0
        self._chosen = response.protocol_name or ""
        if response.skip_assignment:
            await self._check_coverage()
        assigned, _ = decode_assignment(bytes(synced.assignment))
        return [TopicPartition(*each) for each in assigned]

    def _join_timeout(self) -> float:
        config = self._config
        return max(config.request_timeout_ms, config.max_poll_interval_ms) / 1000 + _JOIN_MARGIN_S

    def _join_request(self, topics: tuple[str, ...]) -> JoinGroupRequest:
        membership, config = self._membership, self._config
        protocols = []
        for name in config.partition_assignment_strategy:
            subscription = MemberSubscription(
                membership.member_id,
                topics,
                rack=config.client_rack or None,
                owned=tuple(self._partitions.owned),
                generation=membership.generation,
                user_data=ASSIGNORS[name].user_data(self._last_assigned, membership.generation),
            )
            protocols.append(
                JoinGroupRequest.JoinGroupRequestProtocol(
                    name=name, metadata=encode_subscription(subscription)
                )
            )
        return JoinGroupRequest(
            group_id=membership.group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=membership.member_id,
            group_instance_id=membership.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
            reason=self._join_reason[:255] or None,
        )

    async def _assignments(
        self, response: JoinGroupResponse
    ) -> list[SyncGroupRequest.SyncGroupRequestAssignment]:
        """Everyone's, of the leader; the others send none."""
        if response.leader != response.member_id:
            self._topics.stop_leading()
            return []
        members = [
            decode_subscription(bytes(each.metadata), each.member_id, each.group_instance_id)
            for each in response.members
        ]
        topics = dict.fromkeys(topic for member in members for topic in member.topics)
        layouts = await self._topics.layouts(topics)
        if response.skip_assignment:
            # KIP-814: this is a static leader that has come back, and the group keeps what it has.
            self._to_cover = [
                (name, number) for name, each in layouts.items() for number in range(each.partitions)
            ]
            return []
        assignment = ASSIGNORS[response.protocol_name or ""].assign(members, layouts)
        return [
            SyncGroupRequest.SyncGroupRequestAssignment(
                member_id=member_id, assignment=encode_assignment(partitions)
            )
            for member_id, partitions in assignment.items()
        ]

    async def _check_coverage(self) -> None:
        """Has the group rebalance, as its leader, if its topics have changed while it had none to notice that."""
        group_id = self._membership.group_id
        try:
            described = await self._requests.send(
                DescribeGroupsRequest(groups=[group_id]), timeout=CLOSING_S, lane=self._lane
            )
            assert isinstance(described, DescribeGroupsResponse)
            (group,) = described.groups
            if (refused := from_code(group.error_code)) is not None:
                raise refused
        except KafkaError as error:
            # A rebalance too many costs less than partitions that no member reads.
            self.interrupt(Reaction.REJOIN, f"a static leader does not know what its group has: {error}")
            return
        if group.group_state != _STABLE:
            return  # it rebalances, and heartbeats say so
        has = [
            each for member in group.members for each in decode_assignment(bytes(member.member_assignment))[0]
        ]
        if sorted(has) != sorted(self._to_cover):
            self.interrupt(Reaction.REJOIN, "topics of the group have changed while its leader was away")

    # In the group

    async def _stable(self, assigned: list[TopicPartition]) -> None:
        """From an assignment to the next rebalance."""
        self._last_assigned = tuple(assigned)
        heartbeats = self._tasks.spawn(self._heartbeats(), "heartbeats")
        try:
            reaction, reason, error = await self._in_group(assigned)
        finally:
            heartbeats.cancel()
            await asyncio.gather(heartbeats, return_exceptions=True)
        # Behind the last heartbeat: one that comes when the member has left would be held against the next one.
        if reaction > Reaction.REJOIN:
            await self._failed(reaction, reason, error)

    async def _in_group(self, assigned: list[TopicPartition]) -> tuple[Reaction, str, KafkaError | None]:
        """Takes the assignment over, and in the end gives up what a rebalance, or leaving, asks for."""
        partitions = self._partitions
        is_cooperative = ASSIGNORS[self._chosen].cooperative
        revoked = [tp for tp in partitions.owned if not (is_cooperative and tp in assigned)]
        if revoked:
            self._membership.move(MembershipState.REVOKING)
            await partitions.take(revoked, lost=False)
            if is_cooperative:
                # KIP-429: what was given up can be assigned now, to others.
                self.interrupt(Reaction.REJOIN, "partitions were given up")
        self._membership.move(MembershipState.STABLE)
        partitions.give(tp for tp in assigned if tp not in partitions.owned)
        if not self._is_leaving:
            await self._interrupted.wait()
        reaction, reason, error = self._take_interruption()
        if not reaction > Reaction.REJOIN:
            self._join_reason = reason
            await self._prepare_join(is_cooperative)
        return reaction, reason, error

    async def _prepare_join(self, is_cooperative: bool) -> None:
        if self._is_leaving or not is_cooperative:
            await self._give_up()
        elif self._partitions.purged:
            # As in Java: what is not subscribed to any more goes before the member joins again without it.
            self._membership.move(MembershipState.REVOKING, self._join_reason)
            await self._partitions.take(list(self._partitions.purged), lost=False)

    async def _give_up(self) -> None:
        self._membership.move(MembershipState.REVOKING, self._join_reason)
        seconds = CLOSING_S if self._is_leaving else None
        await self._partitions.take(list(self._partitions.owned), lost=False, seconds=seconds)

    async def confirm(self, seconds: float) -> Reaction:
        try:
            response = await self._requests.send(self._heartbeat(), timeout=seconds)
        except KafkaError as error:
            _logger.info("%s: no heartbeat got through: %s", self._membership, error)
            return Reaction.RETRY
        assert isinstance(response, HeartbeatResponse)
        reaction = after_heartbeat(response.error_code)
        if reaction is Reaction.GO_ON:
            self.last_heartbeat = self._clock.monotonic()
        return reaction

    def _heartbeat(self) -> HeartbeatRequest:
        membership = self._membership
        return HeartbeatRequest(
            group_id=membership.group_id,
            generation_id=membership.generation,
            member_id=membership.member_id,
            group_instance_id=membership.instance_id,
        )

    async def _heartbeats(self) -> None:
        membership, config = self._membership, self._config
        interval = config.heartbeat_interval_ms / 1000
        due = self._clock.monotonic() + interval
        while True:
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
            # From one to the next, not from a response: a coordinator that is slow is not asked less often.
            due = self._clock.monotonic() + interval
            self._check_poll()
            try:
                response = await self._requests.send(
                    self._heartbeat(), timeout=config.session_timeout_ms / 1000
                )
            except ApiTimeoutError as error:
                _logger.warning("%s: no heartbeat got through: %s", membership, error)
                continue
            except KafkaError as error:
                self.interrupt(Reaction.FAIL, "the coordinator cannot be reached", error)
                return
            assert isinstance(response, HeartbeatResponse)
            reaction = after_heartbeat(response.error_code)
            if reaction is Reaction.GO_ON:
                self.last_heartbeat = self._clock.monotonic()
            elif reaction is not Reaction.RETRY:
                refused = from_code(response.error_code)
                self.interrupt(reaction, f"a heartbeat was answered with {refused}", refused)
                if reaction is not Reaction.REJOIN:
                    return

    # Trouble

    async def _failed(self, reaction: Reaction, reason: str, error: KafkaError | None) -> None:
        membership = self._membership
        self._join_reason = reason
        if reaction in (Reaction.RETRY, Reaction.REJOIN):
            if reaction is Reaction.RETRY or membership.state is MembershipState.JOINING:
                await self._back_off()
            return
        self._log_trouble(reaction, reason, error)
        # From here on nothing is committed: what this member knows may be older than what others have committed.
        membership.move(MembershipState.JOINING, reason)
        await self._partitions.take(list(self._partitions.owned), lost=True)
        if reaction is Reaction.FAIL and not membership.instance_id:
            # The others need not wait for its session to end.
            await self._send_leave("the member has stopped: " + reason)
        if reaction is Reaction.LOSE:
            membership.fenced()
        else:
            membership.forgotten()
        if reaction in (Reaction.FAIL, Reaction.FENCED) and error is not None:
            await self._stop_until_raised(error, for_good=reaction is Reaction.FENCED)
        await self._back_off()

    async def _back_off(self) -> None:
        if self._failures and not self._is_leaving:
            await self._clock.sleep(self._backoff.delay(self._failures - 1))
        self._failures += 1

    # The end

    async def _leave(self) -> None:
        if self._partitions.owned:
            await self._give_up()
        self._topics.stop_leading()
        # As in Java: a static member comes back, and its partitions wait for it.
        if not self._membership.instance_id:
            await self._send_leave("the consumer is being closed")

    async def _send_leave(self, reason: str) -> None:
        membership = self._membership
        if not membership.member_id:
            return
        member = LeaveGroupRequest.MemberIdentity(
            member_id=membership.member_id, group_instance_id=membership.instance_id, reason=reason[:255]
        )
        request = LeaveGroupRequest(group_id=membership.group_id, members=[member])
        try:
            # What it says does not matter: a member that is not known has left.
            await self._requests.send(request, timeout=CLOSING_S)
        except KafkaError as error:
            _logger.info("%s could not say that it leaves: %s", membership, error)
