"""The groups of a shard: made by requests, found again after a load, expired by time."""

from __future__ import annotations

import pytest

from ottla.broker.coordinator.groups.classic import ClassicGroup, Sender
from ottla.broker.coordinator.groups.classic_state import ClassicState
from ottla.broker.metadata.image import Delta
from ottla.errors import NotCoordinatorError, UnknownMemberIdError
from ottla.wire import Uuid
from ottla.wire.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.broker.coordinator.groups.classic_world import joined, subscription, synced
from tests.broker.coordinator.groups.shards import LoneShard
from tests.broker.coordinator.groups.test_offset_requests import commit, fetch

DAY = 24 * 60 * 60


def request(member_id: str = "") -> JoinGroupRequest:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription("orders"))
    return JoinGroupRequest(
        group_id="g",
        member_id=member_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )


def stable(lone: LoneShard) -> str:
    join = lone.write(lambda shard: shard.join(request(), Sender("c", "/h", 3)))
    lone.timers.advance(0)
    response = joined(join)
    sync = SyncGroupRequest(
        group_id="g",
        generation_id=response.generation_id,
        member_id=response.member_id,
        assignments=[
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=response.member_id, assignment=b"all")
        ],
    )
    assert synced(lone.write(lambda shard: shard.sync(sync))).assignment == b"all"
    return response.member_id


def classic(lone: LoneShard) -> ClassicGroup:
    group = lone.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    return group


def test_a_new_group_is_there_when_its_first_record_is() -> None:
    lone = LoneShard()
    lone.refusal = NotCoordinatorError()
    with pytest.raises(NotCoordinatorError):
        lone.write(lambda shard: shard.join(request(), Sender("c", "/h", 9)))
    assert lone.shard.groups == {}
    assert lone.timers.keys == set()
    lone.refusal = None
    response = lone.write(lambda shard: shard.join(request(), Sender("c", "/h", 9)))
    assert isinstance(response, JoinGroupResponse)
    assert response.error_code == 79
    assert classic(lone).state is ClassicState.EMPTY


def test_there_are_no_members_in_a_group_that_is_not_there() -> None:
    lone = LoneShard()
    join = lone.write(lambda shard: shard.join(request("x"), Sender("c", "/h", 9)))
    assert isinstance(join, JoinGroupResponse)
    sync = lone.write(lambda shard: shard.sync(SyncGroupRequest(group_id="g", member_id="x")))
    assert isinstance(sync, SyncGroupResponse)
    assert (join.error_code, sync.error_code) == (25, 25)
    for operation in (
        lambda: lone.shard.heartbeat(HeartbeatRequest(group_id="g")),
        lambda: lone.shard.leave(LeaveGroupRequest(group_id="g")),
    ):
        with pytest.raises(UnknownMemberIdError):
            operation()


def test_the_next_coordinator_knows_members_assignments_and_offsets() -> None:
    lone = LoneShard()
    member = stable(lone)
    after = lone.loaded()
    assert classic(after).state is ClassicState.STABLE
    sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=member)
    assert synced(after.write(lambda shard: shard.sync(sync))).assignment == b"all"


def test_a_generation_that_was_not_synced_is_forgotten_with_its_coordinator() -> None:
    lone = LoneShard()
    member = stable(lone)
    join = lone.write(lambda shard: shard.join(request(member), Sender("c", "/h", 9)))
    assert joined(join).generation_id == 2
    after = lone.loaded()
    assert classic(after).generation == 1
    sync = SyncGroupRequest(group_id="g", generation_id=2, member_id=member)
    assert synced(after.write(lambda shard: shard.sync(sync))).error_code == 22


def test_members_that_stay_silent_after_a_load_are_gone_with_their_sessions() -> None:
    after = LoneShard()
    stable(after)
    after = after.loaded()
    after.timers.advance(11)
    assert classic(after).state is ClassicState.EMPTY


def test_offsets_of_an_empty_group_expire_a_week_after_it_became_empty_and_the_group_with_them() -> None:
    lone = LoneShard()
    stable(lone)
    lone.timers.advance(11)
    commit(lone)
    lone.commit()
    lone.shard.on_loaded()
    lone.timers.advance(7 * DAY - 700)
    assert fetch(lone, stable=True) == [(5, "", 0)]
    lone.timers.advance(1300)
    assert fetch(lone, stable=True) == [(-1, "", 0)]
    assert lone.shard.groups == {}
    assert lone.loaded().shard.groups == {}


def test_offsets_of_a_simple_group_expire_each_by_its_own_commit() -> None:
    lone = LoneShard(offsets_retention_minutes=10)
    lone.shard.on_loaded()
    commit(lone)
    lone.timers.advance(500)
    commit(lone, topic="others")
    lone.timers.advance(100)
    assert [key for key, _ in lone.shard.offsets.of_group("g")] == [("others", 0)]
    lone.timers.advance(600)
    assert lone.shard.groups == {}


def test_a_time_that_came_with_the_commit_wins() -> None:
    lone = LoneShard(offsets_retention_minutes=1)
    lone.shard.on_loaded()
    commit(lone, retention_ms=3_000_000)
    lone.timers.advance(2400)
    assert lone.shard.offsets.has_offsets("g")
    lone.timers.advance(1200)
    assert not lone.shard.offsets.has_offsets("g")


def test_members_keep_the_offsets_of_what_they_subscribe_to() -> None:
    lone = LoneShard(offsets_retention_minutes=1)
    commit(lone)
    commit(lone, topic="others")
    member = stable(lone)
    lone.timers.advance(8)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member)
    for _ in range(20):
        lone.write(lambda shard: shard.heartbeat(beat))
        lone.timers.advance(8)
    lone.write(lambda shard: shard._expire())
    assert [key for key, _ in lone.shard.offsets.of_group("g")] == [("orders", 0)]


def test_nothing_expires_under_an_open_transaction() -> None:
    lone = LoneShard(offsets_retention_minutes=1)
    lone.shard.on_loaded()
    commit(lone)
    lone.shard.replay_transactional(7, lone.log[0].key, lone.log[0].value, 1)
    lone.timers.advance(1300)
    assert lone.shard.offsets.has_offsets("g")
    lone.shard.end_transaction(7, is_commit=False, offset=2)
    lone.timers.advance(600)
    assert lone.shard.groups == {}


def test_a_topic_that_is_deleted_takes_its_offsets_along() -> None:
    lone = LoneShard()
    commit(lone)
    commit(lone, topic="others")
    delta = Delta()
    delta.note_removal(Uuid(b"t" * 16), "orders")
    lone.shard.on_metadata(delta)
    assert [key for key, _ in lone.shard.offsets.of_group("g")] == [("others", 0)]
    written = len(lone.log)
    lone.shard.on_metadata(delta)
    assert len(lone.log) == written


def test_records_of_a_newer_release_are_left_out() -> None:
    lone = LoneShard()
    lone.shard.replay(b"\0\x63key", b"\0\0", 0)
    lone.shard.replay_transactional(7, b"\0\x63key", b"\0\0", 0)
    assert lone.shard.groups == {}


def test_member_ids_end_with_a_random_uuid() -> None:
    ids = {LoneShard().shard.new_id(), LoneShard().shard.new_id()}
    assert ids == {"cd613e30-d8f1-4adf-91b7-584a2265b1f5"}
