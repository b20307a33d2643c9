import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.controller.placement import place
from ottla.broker.metadata.image import BrokerImage
from ottla.errors import InvalidReplicationFactorError
from ottla.wire import Uuid


def broker(id_: int, rack: str | None = None, fenced: bool = False, leaving: bool = False) -> BrokerImage:
    return BrokerImage(id_, 0, Uuid(16), (), rack, fenced, leaving, ())


def test_leaders_are_spread_over_all_brokers() -> None:
    placed = place(9, 2, [broker(id_) for id_ in range(3)], random.Random(1))
    assert Counter(replicas[0] for replicas in placed) == {0: 3, 1: 3, 2: 3}
    assert Counter(replicas[1] for replicas in placed) == {0: 3, 1: 3, 2: 3}


def test_replicas_are_on_different_racks_while_there_are_any() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    for replicas in place(30, 3, [broker(id_, rack) for id_, rack in racks.items()], random.Random(2)):
        assert sorted(racks[replica] for replica in replicas) == ["a", "b", "c"]


def test_two_replicas_share_a_rack_when_there_is_no_other() -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    for replicas in place(10, 3, [broker(id_, rack) for id_, rack in racks.items()], random.Random(3)):
        assert sorted(replicas) == [1, 2, 3]


def test_a_fenced_broker_is_used_only_when_needed_and_never_first() -> None:
    brokers = [broker(1), broker(2), broker(3, fenced=True)]
    assert {replica for replicas in place(20, 2, brokers, random.Random(4)) for replica in replicas} == {1, 2}
    for replicas in place(20, 3, brokers, random.Random(4)):
        assert replicas[2] == 3


def test_a_broker_that_is_leaving_gets_nothing() -> None:
    assert place(3, 1, [broker(1), broker(2, leaving=True)], random.Random(5)) == [(1,), (1,), (1,)]


def test_one_broker_takes_everything() -> None:
    assert place(5, 1, [broker(7)], random.Random(6)) == [(7,)] * 5


def test_the_start_is_random_and_follows_from_the_seed() -> None:
    brokers = [broker(id_) for id_ in range(5)]
    starts = {place(1, 1, brokers, random.Random(seed))[0][0] for seed in range(40)}
    assert starts == {0, 1, 2, 3, 4}
    assert place(50, 3, brokers, random.Random(7)) == place(50, 3, brokers, random.Random(7))


@pytest.mark.parametrize(
    ("replication_factor", "brokers", "sentence"),
    [
        (0, [broker(1)], "Invalid replication factor 0: the replication factor must be positive."),
        (
            1,
            [broker(1, fenced=True)],
            "All brokers are currently fenced, or have all their log directories cordoned.",
        ),
        (1, [], "All brokers are currently fenced, or have all their log directories cordoned."),
        (
            3,
            [broker(1), broker(2, fenced=True)],
            "The target replication factor of 3 cannot be reached because only 2 broker(s) are registered or "
            "some brokers have all their log directories cordoned.",
        ),
    ],
)
def test_too_few_brokers_are_refused_with_kafkas_sentence(
    replication_factor: int, brokers: list[BrokerImage], sentence: str
) -> None:
    with pytest.raises(InvalidReplicationFactorError) as caught:
        place(1, replication_factor, brokers, random.Random(0))
    assert caught.value.message == sentence


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.booleans()), min_size=1, max_size=8),
    st.integers(1, 20),
    st.integers(0, 2**32),
    st.data(),
)
def test_every_placement_is_on_different_brokers_with_a_live_leader(
    kinds: list[tuple[str | None, bool]], partitions: int, seed: int, data: st.DataObject
) -> None:
    brokers = [broker(0)] + [broker(id_ + 1, rack, fenced) for id_, (rack, fenced) in enumerate(kinds)]
    replication_factor = data.draw(st.integers(1, len(brokers)))
    placed = place(partitions, replication_factor, brokers, random.Random(seed))
    assert len(placed) == partitions
    fenced = {broker.id for broker in brokers if broker.fenced}
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == replication_factor
        assert replicas[0] not in fenced
