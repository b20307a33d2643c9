"""Scenarios of groups of KIP-848, heartbeat by heartbeat: epochs, and what is given up before it moves."""

from __future__ import annotations

import uuid

from tests.interop.groups.consumer import LEAVE_STATIC
from tests.interop.groups.group import ALL, PARTITIONS, Group
from tests.interop.waiting import eventually

UNKNOWN_MEMBER = 25
FENCED_INSTANCE = 82
FENCED_EPOCH = 110
UNRELEASED_INSTANCE = 111
STALE_EPOCH = 113
STATIC = {"instance": "inst-1"}


def test_a_first_member_gets_all_partitions_at_epoch_2(new_group: Group) -> None:
    member = new_group.consumer()
    answer = member.join()
    assert (answer.error_code, answer.member_epoch, answer.member_id) == (0, 2, member.member_id)
    assert (member.partitions, answer.heartbeat_interval_ms) == (ALL, 300)
    kept = member.ack()
    assert (kept.error_code, kept.member_epoch, kept.assignment) == (0, 2, None)
    found = new_group.consumer_described()
    assert (found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name) == (
        "Stable",
        2,
        2,
        "uniform",
    )


def test_partitions_move_to_a_newcomer_after_their_owner_has_given_them_up(new_group: Group) -> None:
    owner, newcomer = new_group.consumer(), new_group.consumer()
    owner.join()
    answer = newcomer.join()
    assert (answer.member_epoch, newcomer.assigned) == (3, {})
    assert answer.assignment is not None
    told = owner.beat()
    assert (told.member_epoch, len(owner.partitions)) == (2, 2)
    kept = owner.partitions
    # A heartbeat that says nothing of partitions gives nothing up, and is told nothing new.
    again = owner.beat()
    assert (again.member_epoch, again.assignment) == (2, None)
    waiting = newcomer.beat()
    assert (waiting.member_epoch, waiting.assignment) == (3, None)
    assert new_group.state() == "Reconciling"
    # Nor does one that says that the owner still has them.
    still = owner.beat(owned={new_group.topic_id: ALL})
    assert (still.member_epoch, owner.partitions) == (2, kept)
    given_up = owner.ack()
    assert (given_up.member_epoch, given_up.assignment) == (3, None)
    got = newcomer.beat()
    assert (got.member_epoch, sorted(kept + newcomer.partitions)) == (3, ALL)
    assert new_group.state() == "Stable"


def test_a_member_that_never_gives_up_is_out_when_its_rebalance_timeout_ends(new_group: Group) -> None:
    owner, newcomer = new_group.consumer(rebalance_ms=4000), new_group.consumer()
    owner.join()
    newcomer.join()
    owner.beat()

    def is_out() -> bool:
        newcomer.ack()
        return owner.beat().error_code == UNKNOWN_MEMBER

    eventually(is_out, "the owner to be out")
    newcomer.ack()
    assert (newcomer.epoch, newcomer.partitions) == (4, ALL)


def test_a_silent_member_is_out_when_its_session_ends(new_group: Group) -> None:
    silent, other = new_group.consumer_pair()

    def has_all() -> bool:
        other.ack()
        return other.partitions == ALL

    eventually(has_all, "the silent member's session to end")
    assert (other.epoch, silent.beat().error_code, silent.commit()) == (4, UNKNOWN_MEMBER, UNKNOWN_MEMBER)


def test_a_member_that_leaves_frees_its_partitions(new_group: Group) -> None:
    stays, leaves = new_group.consumer_pair()
    answer = leaves.leave()
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, -1, None)
    got = stays.beat()
    assert (got.member_epoch, stays.partitions) == (4, ALL)


def test_a_group_that_its_last_member_leaves_is_empty_and_goes_on_counting(new_group: Group) -> None:
    member = new_group.consumer()
    member.join()
    member.leave()
    found = new_group.consumer_described()
    assert (found.group_state, found.group_epoch, found.members) == ("Empty", 3, [])
    assert new_group.consumer().join().member_epoch == 4


def test_the_epoch_before_counts_when_the_member_says_what_it_has(new_group: Group) -> None:
    member, _ = new_group.consumer_pair()
    assert member.beat(epoch=2).error_code == FENCED_EPOCH
    assert member.beat(epoch=2, owned={new_group.topic_id: ALL}).error_code == FENCED_EPOCH
    # The answer that told it the next epoch was lost: it is told again.
    again = member.beat(epoch=2, owned=member.assigned)
    assert (again.error_code, again.member_epoch, again.assignment) == (0, 3, None)
    assert member.beat(epoch=2, owned={}).member_epoch == 3
    assert member.beat(epoch=1, owned=member.assigned).error_code == FENCED_EPOCH
    assert member.beat(epoch=4, owned=member.assigned).error_code == FENCED_EPOCH


def test_a_commit_of_an_older_epoch_counts_for_partitions_that_were_held_since(new_group: Group) -> None:
    stays, leaves = new_group.consumer_pair()
    held, added = stays.partitions[0], leaves.partitions[0]
    leaves.leave()
    stays.beat()
    assert stays.epoch == 4
    assert (stays.commit(partition=held, epoch=4), stays.commit(partition=added, epoch=4)) == (0, 0)
    assert (stays.commit(partition=held, epoch=3), stays.commit(partition=held, epoch=2)) == (0, 0)
    assert stays.commit(partition=added, epoch=3) == STALE_EPOCH
    assert stays.commit(partition=held, epoch=1) == STALE_EPOCH
    assert stays.commit(partition=held, epoch=5) == STALE_EPOCH


def test_a_static_member_that_comes_back_takes_over_without_a_new_epoch(new_group: Group) -> None:
    other, static = new_group.consumer_pair(second=STATIC)
    left = static.leave(LEAVE_STATIC)
    assert (left.error_code, left.member_epoch) == (0, -2)
    back = new_group.consumer(**STATIC)
    answer = back.join()
    assert (answer.error_code, answer.member_epoch, back.partitions) == (0, 3, static.partitions)
    assert (other.beat().member_epoch, other.beat().assignment) == (3, None)
    assert static.beat().error_code == FENCED_INSTANCE


def test_a_static_member_that_comes_back_with_other_topics_makes_a_new_epoch(new_group: Group) -> None:
    _, static = new_group.consumer_pair(second=STATIC)
    static.leave(LEAVE_STATIC)
    back = new_group.consumer(**STATIC)
    assert back.join(topics=[new_group.topic, "another"]).member_epoch == 4


def test_a_static_member_that_has_not_left_keeps_its_place(new_group: Group) -> None:
    _, static = new_group.consumer_pair(second=STATIC)
    assert new_group.consumer(**STATIC).join().error_code == UNRELEASED_INSTANCE
    assert static.beat().error_code == 0


def test_a_static_member_that_stays_away_loses_its_partitions_when_its_session_ends(new_group: Group) -> None:
    other, static = new_group.consumer_pair(second=STATIC)
    static.leave(LEAVE_STATIC)
    other.ack()
    assert (other.epoch, len(other.partitions)) == (3, 2)

    def has_all() -> bool:
        other.ack()
        return other.partitions == ALL

    eventually(has_all, "the static member's session to end")
    assert other.epoch == 4


def test_a_regular_expression_is_resolved_after_the_join(new_group: Group) -> None:
    member = new_group.consumer()
    answer = member.join(regex=f"{new_group.topic[:-1]}.")
    assert (answer.error_code, answer.member_epoch, member.assigned) == (0, 1, {})

    def has_all() -> bool:
        member.ack()
        return member.partitions == ALL

    eventually(has_all, "the regular expression to be resolved")
    assert member.epoch == 2


def test_a_regular_expression_that_is_resolved_already_counts_at_once(new_group: Group) -> None:
    first, second = new_group.consumer(), new_group.consumer()
    first.join(regex=new_group.topic)

    def has_all() -> bool:
        first.ack()
        return first.partitions == ALL

    eventually(has_all, "the regular expression to be resolved")
    assert second.join(regex=new_group.topic).member_epoch == 3
    first.beat()
    assert len(first.partitions) == 2


def test_a_member_that_subscribes_to_nothing_makes_no_epoch(new_group: Group) -> None:
    answer = new_group.consumer().join(topics=[])
    assert (answer.error_code, answer.member_epoch) == (0, 1)


def test_names_and_a_regular_expression_add_up(new_group: Group) -> None:
    other = new_group.broker.create_topic(PARTITIONS)
    new_group.wait_until_known(other)
    member = new_group.consumer()
    member.join(topics=[new_group.topic], regex=other)
    assert member.partitions == ALL

    def has_both() -> bool:
        member.ack()
        return sorted(member.assigned.values()) == [ALL, ALL]

    eventually(has_both, "the regular expression to be resolved")


def test_a_topic_that_is_made_later_is_assigned_when_the_group_hears_of_it(new_group: Group) -> None:
    member = new_group.consumer()
    name = f"later-{uuid.uuid4().hex[:12]}"
    member.join(topics=[name])
    assert (member.epoch, member.assigned) == (2, {})
    new_group.create_topic(name)

    def is_assigned() -> bool:
        member.ack()
        return list(member.assigned.values()) == [ALL]

    eventually(is_assigned, "the new topic to be assigned")
    assert member.epoch == 3


def test_partitions_that_a_topic_gets_later_are_assigned(new_group: Group) -> None:
    topic = new_group.broker.create_topic(1)
    new_group.wait_until_known(topic)
    member = new_group.consumer()
    member.join(topics=[topic])
    assert (member.epoch, list(member.assigned.values())) == (2, [[0]])
    new_group.grow_topic(topic, 3)

    def has_three() -> bool:
        member.ack()
        return list(member.assigned.values()) == [[0, 1, 2]]

    eventually(has_three, "the new partitions to be assigned")
    assert member.epoch == 3


def test_a_topic_that_is_deleted_is_taken_away(new_group: Group) -> None:
    topic = new_group.broker.create_topic(1)
    new_group.wait_until_known(topic)
    member = new_group.consumer()
    member.join(topics=[topic, new_group.topic])
    assert len(member.assigned) == 2
    new_group.delete_topic(topic)

    def has_one() -> bool:
        member.ack()
        return list(member.assigned) == [new_group.topic_id]

    eventually(has_one, "the topic to be taken away")
    member.ack()
    assert member.epoch == 3


def test_a_member_with_more_to_give_up_stays_in_its_epoch(new_group: Group) -> None:
    # By range, the last of three gets one partition of four.
    owner, second, third = (new_group.consumer(member_id=name) for name in ("c", "a", "b"))
    owner.join(assignor="range")
    second.join(assignor="range")
    owner.beat()
    assert (owner.epoch, owner.partitions) == (2, [2, 3])
    third.join(assignor="range")
    # Still in the first revocation: it is told nothing of the newer target.
    assert owner.beat().assignment is None
    assert owner.ack().member_epoch == 2
    assert owner.partitions == [3]
    second.ack()
    third.ack()
    assert (second.epoch, second.partitions) == (4, [0, 1])
    assert (third.epoch, third.partitions) == (4, [])
    assert owner.ack().member_epoch == 4
    third.ack()
    assert (third.partitions, new_group.state()) == ([2], "Stable")


def test_a_member_gets_back_at_once_what_it_gives_up_for_an_older_target(new_group: Group) -> None:
    owner, other = new_group.consumer(), new_group.consumer()
    owner.join()
    other.join()
    owner.beat()
    assert len(owner.partitions) == 2
    other.leave()
    answer = owner.ack()
    assert (answer.member_epoch, owner.partitions) == (4, ALL)


def test_a_static_member_that_left_is_not_let_in_again_by_its_last_epoch(new_group: Group) -> None:
    static = new_group.consumer(**STATIC)
    static.join()
    assigned = static.assigned
    static.leave(LEAVE_STATIC)
    assert static.beat(epoch=2, owned=assigned).error_code == FENCED_EPOCH
