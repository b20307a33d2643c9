"""One step of a member towards its target."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ottla.broker.coordinator.groups.consumer_member import ConsumerMember, MemberState, TopicPartition
from ottla.broker.coordinator.groups.reconciliation import reconcile
from ottla.wire import Uuid

T = Uuid(b"t" * 16)
STABLE, UNREVOKED, UNRELEASED = MemberState


def parts(*indexes: int) -> set[TopicPartition]:
    return {(T, index) for index in indexes}


def held(epoch: int, *indexes: int) -> dict[TopicPartition, int]:
    return {(T, index): epoch for index in indexes}


def step(
    member: ConsumerMember,
    target_epoch: int,
    target: Collection[int],
    *,
    owned: Collection[int] | None = None,
    others: Collection[int] = (),
    subscribed: Collection[int] | None = None,
) -> ConsumerMember:
    """`subscribed` are the partitions of topics that the member still reads, if that has changed."""
    return reconcile(
        member,
        target_epoch=target_epoch,
        target=parts(*target),
        is_owned=lambda partition: partition[1] in others,
        is_subscribed=lambda partition: subscribed is None or partition[1] in subscribed,
        subscription_changed=subscribed is not None,
        owned=None if owned is None else parts(*owned),
    )


OWNER = ConsumerMember("a", epoch=1, assigned=held(1, 0, 1, 2, 3))


def test_a_member_that_is_where_it_should_be_stays_as_it_is() -> None:
    assert step(OWNER, 1, range(4)) is OWNER


def test_a_new_member_gets_what_is_free_and_waits_for_the_rest() -> None:
    some = step(ConsumerMember("b"), 2, [2, 3], others=[3])
    assert (some.epoch, some.state, some.assigned) == (2, UNRELEASED, held(2, 2))
    none = step(ConsumerMember("b"), 2, [2, 3], others=[2, 3])
    assert (none.epoch, none.state, none.assigned) == (2, UNRELEASED, {})


def test_an_awaited_partition_comes_with_the_heartbeat_after_its_release() -> None:
    waits = step(ConsumerMember("b"), 2, [2, 3], others=[3])
    assert step(waits, 2, [2, 3], others=[3]).assigned == held(2, 2)
    has = step(waits, 2, [2, 3])
    assert (has.epoch, has.state, has.assigned) == (2, STABLE, held(2, 2, 3))


def test_a_member_stays_in_its_epoch_until_it_has_given_up_what_it_must() -> None:
    told = step(OWNER, 2, [0, 1])
    assert (told.epoch, told.state) == (1, UNREVOKED)
    assert (told.assigned, told.pending) == (held(1, 0, 1), held(1, 2, 3))


def test_no_list_is_no_acknowledgement() -> None:
    told = step(OWNER, 2, [0, 1])
    assert step(told, 2, [0, 1], owned=None) is told
    assert step(told, 2, [0, 1], owned=[0, 1, 3]) is told


def test_a_list_without_what_was_to_be_given_up_ends_the_revocation() -> None:
    told = step(OWNER, 2, [0, 1])
    for owned in ([0, 1], [0], []):
        done = step(told, 2, [0, 1], owned=owned, others=[0, 1, 2, 3])
        assert (done.epoch, done.previous_epoch, done.state) == (2, 1, STABLE)
        assert (done.assigned, done.pending) == (held(1, 0, 1), {}), "they are held since the first epoch"


def test_a_member_that_owns_nothing_of_it_has_nothing_to_acknowledge() -> None:
    done = step(OWNER, 2, [0, 1], owned=[0, 1])
    assert (done.epoch, done.state, done.assigned) == (2, STABLE, held(1, 0, 1))


def test_after_a_revocation_the_newest_target_counts() -> None:
    told = step(OWNER, 2, [0, 1])
    again = step(told, 5, [0], owned=[0, 1])
    assert (again.epoch, again.state) == (1, UNREVOKED), "there is more to give up"
    assert (again.assigned, again.pending) == (held(1, 0), held(1, 1))
    done = step(again, 5, [0], owned=[0])
    assert (done.epoch, done.state) == (5, STABLE)


def test_a_partition_that_a_newer_target_gives_back_is_there_at_once() -> None:
    told = step(OWNER, 2, [0, 1])
    back = step(told, 3, range(4), owned=[0, 1], others=[0, 1, 2, 3])
    assert (back.epoch, back.state, back.assigned) == (3, STABLE, held(1, 0, 1) | held(3, 2, 3))


def test_what_is_no_longer_subscribed_goes_at_once() -> None:
    told = step(OWNER, 1, range(4), subscribed=[0, 1])
    assert (told.epoch, told.state) == (1, UNREVOKED)
    assert (told.assigned, told.pending) == (held(1, 0, 1), held(1, 2, 3))
    more = step(told, 1, range(4), owned=range(4), subscribed=[0])
    assert (more.state, more.assigned, more.pending) == (UNREVOKED, held(1, 0), held(1, 1, 2, 3))
    gone = step(OWNER, 1, range(4), owned=[0, 1], subscribed=[0, 1])
    assert (gone.state, gone.assigned) == (STABLE, held(1, 0, 1)), "it has given them up already"
    assert step(OWNER, 1, range(4), subscribed=range(4)) is OWNER


def test_a_revocation_for_a_subscription_ends_in_the_epoch_of_the_target() -> None:
    told = step(OWNER, 1, range(4), subscribed=[0, 1])
    done = step(told, 1, range(4), owned=[0, 1], subscribed=[0, 1])
    assert (done.epoch, done.state, done.assigned) == (1, STABLE, held(1, 0, 1))


def test_a_member_knows_since_when_it_has_a_partition() -> None:
    member = replace(OWNER, assigned=held(1, 0), pending=held(2, 1))
    assert [member.assigned_at((T, index)) for index in range(3)] == [1, 2, None]
