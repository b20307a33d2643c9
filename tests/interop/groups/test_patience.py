"""Groups whose coordinator waits: for more members, until the next target, or for its offsets to be old enough."""

from __future__ import annotations

import time

from ottla.broker import Cluster
from tests.interop.brokers import EmbeddedBroker
from tests.interop.groups.conftest import DELAY_MS, PATIENT
from tests.interop.groups.group import ALL, PARTITIONS, Group
from tests.interop.waiting import eventually

INCONSISTENT_PROTOCOL = 23
UNKNOWN_MEMBER = 25
GROUP_ID_NOT_FOUND = 69
JOINING, EMPTY = "PreparingRebalance", "Empty"
DELAY_S = DELAY_MS / 1000
SOON_MS = 1
DAY_S = 24 * 60 * 60
RETENTION_DAYS = 7


def test_a_new_group_waits_for_more_members_as_long_as_they_come(patient_group: Group) -> None:
    first, second = (patient_group.classic(instance=name) for name in ("inst-1", "inst-2"))
    begun = time.monotonic()
    first.start_join()
    patient_group.wait_for(JOINING, members=1)
    second.start_join()
    patient_group.rebalance(first, second)
    assert (first.generation, time.monotonic() - begun >= 2 * DELAY_S) == (1, True)


def test_a_new_group_waits_no_longer_than_its_rebalance_timeout(patient_group: Group) -> None:
    hurried = {"rebalance_ms": DELAY_MS + 50}
    first, second = (patient_group.classic(instance=name, **hurried) for name in ("inst-1", "inst-2"))
    begun = time.monotonic()
    first.start_join()
    patient_group.wait_for(JOINING, members=1)
    second.start_join()
    patient_group.rebalance(first, second)
    assert (first.generation, time.monotonic() - begun >= DELAY_S) == (1, True)


def test_a_member_that_is_removed_from_a_group_that_waits_leaves_it_empty(patient_group: Group) -> None:
    # An offset, so that the empty group is not forgotten.
    assert patient_group.classic().commit(5) == 0
    member = patient_group.classic(instance="inst-1")
    member.start_join()
    patient_group.wait_for(JOINING, members=1)
    assert patient_group.remove(("", "inst-1")) == [0]
    assert member.joined().error_code == UNKNOWN_MEMBER
    patient_group.wait_for(EMPTY, members=0)


def test_targets_are_made_at_intervals_and_a_newcomer_waits_for_the_next(patient_group: Group) -> None:
    patient_group.wait_until_known(patient_group.topic)
    owner, newcomer = patient_group.consumer(), patient_group.consumer()
    owner.join()
    answer = newcomer.join()
    assert (answer.error_code, answer.member_epoch, newcomer.assigned) == (0, 2, {})
    found = patient_group.consumer_described()
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Assigning", 3, 2)

    def shares() -> bool:
        owner.ack()
        newcomer.ack()
        return len(owner.partitions) == len(newcomer.partitions) == PARTITIONS // 2

    eventually(shares, "the next target to be made")
    assert (owner.epoch, newcomer.epoch, sorted(owner.partitions + newcomer.partitions)) == (3, 3, ALL)


def test_protocols_do_not_mix_where_migration_is_disabled(patient_group: Group) -> None:
    classic = patient_group.stable_one(instance="inst-1")
    refused = patient_group.consumer().join()
    assert (refused.error_code, classic.heartbeat()) == (GROUP_ID_NOT_FOUND, 0)
    with Group(patient_group.broker, patient_group.topic) as other:
        assert other.consumer().join().error_code == 0
        assert other.classic().join().error_code == INCONSISTENT_PROTOCOL


def test_an_offset_expires_when_its_commit_said_so_and_the_group_goes_with_the_last(
    patient_group: Group,
) -> None:
    nobody = patient_group.classic()
    assert nobody.commit(5, partition=0, version=3, retention_ms=SOON_MS) == 0
    assert nobody.commit(6, partition=1, version=3) == 0
    eventually(lambda: patient_group.committed(0) == -1, "the offset to expire")
    assert (patient_group.committed(1), patient_group.state()) == (6, EMPTY)
    assert nobody.commit(6, partition=1, version=4, retention_ms=SOON_MS) == 0
    eventually(lambda: patient_group.state() == "", "the group to be forgotten")


def test_offsets_of_subscribed_topics_do_not_expire(patient_group: Group) -> None:
    member = patient_group.stable_one(instance="inst-1")
    assert member.commit(5, version=3, retention_ms=SOON_MS) == 0
    with Group(patient_group.broker, patient_group.topic) as swept:
        assert swept.classic().commit(6, version=3, retention_ms=SOON_MS) == 0
        # Twice: the first sweep may have begun with this group, before the commit.
        eventually(lambda: swept.state() == "", "a sweep")
        assert swept.classic().commit(6, version=3, retention_ms=SOON_MS) == 0
        eventually(lambda: swept.state() == "", "another sweep")
    assert patient_group.committed() == 5
    assert member.leave() == 0
    eventually(lambda: patient_group.state() == "", "the group to be forgotten")


def test_a_group_that_has_only_given_out_an_id_is_forgotten_with_it(patient_group: Group) -> None:
    member = patient_group.classic()

    def is_listed() -> bool:
        # A group is stored a moment after the id was given out, and the next sweep may come before anyone looks.
        if member.member_id and patient_group.state() == "":
            member.member_id = ""
        if not member.member_id:
            member.get_id()
        return patient_group.state() != ""

    eventually(is_listed, "the group to be listed")
    eventually(lambda: patient_group.state() == "", "the group to be forgotten")
    assert member.join().error_code == UNKNOWN_MEMBER


def test_offsets_are_kept_for_a_week_after_the_last_member_left() -> None:
    # Days pass between two requests on a connection.
    with Cluster(brokers=1, config={**PATIENT, "connections.max.idle.ms": str(30 * DAY_S * 1000)}) as cluster:
        broker = EmbeddedBroker(cluster)
        topic = broker.create_topic(PARTITIONS)
        with Group(broker, topic) as group, Group(broker, topic) as simple:
            member = group.stable_one(instance="inst-1", session_ms=1_800_000)
            assert (member.commit(5), simple.classic().commit(6)) == (0, 0)
            cluster.clock.advance(DAY_S)
            # Silent for a day, the member is out; offsets of a simple group age from their commit.
            group.wait_for(EMPTY, members=0)
            cluster.clock.advance(RETENTION_DAYS * DAY_S - DAY_S)
            eventually(lambda: simple.state() == "", "the simple group to be forgotten")
            assert (group.committed(), group.state()) == (5, EMPTY)
            cluster.clock.advance(DAY_S)
            eventually(lambda: group.state() == "", "the group to be forgotten")
            assert group.committed() == -1
