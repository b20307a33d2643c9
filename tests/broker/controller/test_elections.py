import pytest

from ottla.broker.controller.elections import Acceptable, Election, PartitionTarget, change
from ottla.broker.metadata.image import PartitionImage
from ottla.broker.metadata.records import NO_LEADER, PartitionChangeRecord
from ottla.wire import Uuid

TOPIC = Uuid(b"t" * 16)
PARTITION = PartitionImage((1, 2, 3), (1, 2, 3), leader=1, leader_epoch=4, partition_epoch=9)


def alive(*brokers: int) -> Acceptable:
    return lambda broker: broker in brokers


def changed(
    partition: PartitionImage,
    target: PartitionTarget,
    acceptable: Acceptable,
    election: Election = Election.ONLINE,
) -> PartitionImage:
    made = change(TOPIC, 0, partition, target, acceptable, election)
    return partition if made is None else partition.merge(made)


def test_nothing_to_change_makes_no_record() -> None:
    assert change(TOPIC, 0, PARTITION, PartitionTarget.of(PARTITION), alive(1, 2, 3)) is None


def test_the_leader_stays_while_it_can() -> None:
    partition = PartitionImage((1, 2, 3), (1, 2, 3), leader=3, leader_epoch=4, partition_epoch=9)
    assert change(TOPIC, 0, partition, PartitionTarget.of(partition), alive(1, 2, 3)) is None


def test_the_next_leader_is_the_first_live_in_sync_replica_in_replica_order() -> None:
    partition = PartitionImage((3, 1, 2), (1, 2, 3), leader=1, leader_epoch=0, partition_epoch=0)
    after = changed(partition, PartitionTarget.of(partition, isr=[2, 3]), alive(2, 3))
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (3, 1, 1)
    assert changed(partition, PartitionTarget.of(partition, isr=[2, 3]), alive(2)).leader == 2


def test_a_replica_that_is_not_in_sync_does_not_lead() -> None:
    after = changed(PARTITION, PartitionTarget.of(PARTITION, isr=[3]), alive(2, 3))
    assert (after.leader, after.isr) == (3, (3,))


def test_a_smaller_isr_does_not_raise_the_leader_epoch() -> None:
    after = changed(PARTITION, PartitionTarget.of(PARTITION, isr=[1, 2]), alive(1, 2))
    assert (after.leader_epoch, after.partition_epoch) == (4, 10)


def test_the_last_in_sync_replica_stays_in_the_isr_without_leading() -> None:
    partition = PartitionImage((1, 2), (1,), leader=1, leader_epoch=0, partition_epoch=0)
    after = changed(partition, PartitionTarget.of(partition, isr=[]), alive(2))
    assert (after.leader, after.isr, after.leader_epoch) == (NO_LEADER, (1,), 1)


def test_a_preferred_election_goes_back_to_the_first_replica() -> None:
    partition = PartitionImage((1, 2, 3), (1, 2, 3), leader=3, leader_epoch=0, partition_epoch=0)
    assert changed(partition, PartitionTarget.of(partition), alive(1, 2, 3), Election.PREFERRED).leader == 1
    assert change(TOPIC, 0, partition, PartitionTarget.of(partition), alive(2, 3), Election.PREFERRED) is None


def test_an_unclean_election_takes_who_is_there_and_only_them() -> None:
    partition = PartitionImage((1, 2, 3), (1,), leader=NO_LEADER, leader_epoch=2, partition_epoch=2)
    made = change(TOPIC, 0, partition, PartitionTarget.of(partition), alive(2, 3), Election.UNCLEAN)
    assert made == PartitionChangeRecord(TOPIC, 0, isr=(2,), leader=2, recovering=True)
    assert change(TOPIC, 0, partition, PartitionTarget.of(partition), alive(2, 3)) is None
    assert change(TOPIC, 0, partition, PartitionTarget.of(partition), alive(), Election.UNCLEAN) is None


def test_an_unclean_election_is_clean_if_it_can_be() -> None:
    partition = PartitionImage((1, 2, 3), (3,), leader=NO_LEADER, leader_epoch=2, partition_epoch=2)
    after = changed(partition, PartitionTarget.of(partition), alive(1, 2, 3), Election.UNCLEAN)
    assert (after.leader, after.isr, after.recovering) == (3, (3,), False)


def test_a_reassignment_waits_for_its_new_replicas() -> None:
    target = PartitionTarget.of(PARTITION, replicas=[4, 5, 1, 2, 3], adding=[4, 5], removing=[1, 2, 3])
    after = changed(PARTITION, target, alive(1, 2, 3, 4, 5))
    assert after.replicas == (4, 5, 1, 2, 3)
    assert after.is_reassigning
    assert (after.leader, after.leader_epoch) == (1, 4)

    halfway = changed(after, PartitionTarget.of(after, isr=[1, 2, 3, 4]), alive(1, 2, 3, 4, 5))
    assert halfway.is_reassigning

    done = changed(halfway, PartitionTarget.of(halfway, isr=[1, 2, 3, 4, 5]), alive(1, 2, 3, 4, 5))
    assert done == PartitionImage((4, 5), (4, 5), leader=4, leader_epoch=5, partition_epoch=12)


def test_a_replica_that_leaves_raises_the_leader_epoch_of_the_same_leader() -> None:
    target = PartitionTarget.of(PARTITION, replicas=[1, 2, 3], removing=[3])
    after = changed(PARTITION, target, alive(1, 2, 3))
    assert after == PartitionImage((1, 2), (1, 2), leader=1, leader_epoch=5, partition_epoch=10)


def test_a_new_order_of_replicas_is_no_reason_for_a_new_epoch() -> None:
    after = changed(PARTITION, PartitionTarget.of(PARTITION, replicas=[3, 2, 1]), alive(1, 2, 3))
    assert after == PartitionImage((3, 2, 1), (1, 2, 3), leader=1, leader_epoch=4, partition_epoch=10)


@pytest.mark.parametrize(
    ("elr", "old_isr", "isr", "min_isr", "unclean_shutdown", "expected"),
    [
        ((), (1, 2, 3), (1, 2), 2, (), ()),
        ((), (1, 2), (1,), 2, (), (2,)),
        ((), (1, 2, 3), (1,), 2, (), (2, 3)),
        ((3,), (1, 2), (1,), 2, (), (2, 3)),
        ((2, 3), (1,), (1, 2), 3, (), (3,)),
        ((2, 3), (1,), (1, 2), 2, (), ()),
        ((2, 3), (1,), (1,), 2, (2,), (3,)),
        ((), (1, 2), (1,), 9, (), (2,)),
        ((2, 3), (1,), (1, 2, 3), 9, (), ()),
    ],
)
def test_who_leaves_an_isr_that_is_too_small_is_eligible(
    elr: tuple[int, ...],
    old_isr: tuple[int, ...],
    isr: tuple[int, ...],
    min_isr: int,
    unclean_shutdown: tuple[int, ...],
    expected: tuple[int, ...],
) -> None:
    partition = PartitionImage((1, 2, 3), old_isr, 1, 0, 0, elr=elr)
    target = PartitionTarget.of(partition, isr=isr, unclean_shutdown=unclean_shutdown)
    made = change(TOPIC, 0, partition, target, alive(1, 2, 3), min_isr=min_isr)
    after = partition if made is None else partition.merge(made)
    assert (after.isr, after.elr, after.leader_epoch) == (isr, expected, 0)


@pytest.mark.parametrize(
    ("isr", "elr", "last_known", "live", "election", "expected"),
    [
        ((), (2, 3), (1,), (2, 3), Election.ONLINE, (2, (2,), (3,), (), False)),
        ((), (2, 3), (1,), (1,), Election.UNCLEAN, (1, (1,), (), (), True)),
        ((), (2, 3), (1,), (1,), Election.ONLINE, (NO_LEADER, (), (2, 3), (1,), False)),
        ((), (1, 3), (1,), (1, 3), Election.PREFERRED, (1, (1,), (3,), (), False)),
        ((), (), (2,), (1, 2), Election.ONLINE, (2, (2,), (), (), True)),
        ((), (), (2,), (1, 2), Election.PREFERRED, (2, (2,), (), (), True)),
        ((), (), (2,), (1, 2), Election.UNCLEAN, (2, (2,), (), (), True)),
        ((), (), (2,), (1, 3), Election.ONLINE, (NO_LEADER, (), (), (2,), False)),
        ((), (), (2,), (1, 3), Election.UNCLEAN, (1, (1,), (), (), True)),
        ((), (), (2, 3), (1, 2), Election.ONLINE, (NO_LEADER, (), (), (2, 3), False)),
        ((), (), (9,), (1, 9), Election.ONLINE, (NO_LEADER, (), (), (9,), False)),
        ((2,), (3,), (2,), (3,), Election.ONLINE, (NO_LEADER, (2,), (3,), (2,), False)),
    ],
)
def test_a_leader_comes_from_the_isr_or_else_the_eligible_or_else_is_the_last_that_was_known(
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    last_known: tuple[int, ...],
    live: tuple[int, ...],
    election: Election,
    expected: tuple[object, ...],
) -> None:
    partition = PartitionImage((1, 2, 3), isr, NO_LEADER, 4, 9, elr=elr, last_known_elr=last_known)
    made = change(TOPIC, 0, partition, PartitionTarget.of(partition), alive(*live), election, min_isr=3)
    after = partition if made is None else partition.merge(made)
    assert (after.leader, after.isr, after.elr, after.last_known_elr, after.recovering) == expected
    assert after.leader_epoch == 4 + (after.leader != NO_LEADER)
