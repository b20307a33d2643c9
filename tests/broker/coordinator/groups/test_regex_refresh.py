"""When the regular expressions of a group are resolved."""

from __future__ import annotations

import pytest

from ottla.errors import InvalidRegularExpressionError
from tests.broker.coordinator.groups.consumer_world import ConsumerWorld, WorldMember


@pytest.fixture
def world() -> ConsumerWorld:
    return ConsumerWorld({"t": 2, "u": 2, "other": 2})


def reader(world: ConsumerWorld, member_id: str, regex: str) -> WorldMember:
    return world.member(member_id, None, subscribed_topic_regex=regex)


def test_an_expression_matches_nothing_until_it_is_resolved(world: ConsumerWorld) -> None:
    a = reader(world, "a", "t|u")
    assert (a.join().member_epoch, a.owned) == (1, set())
    assert (world.group.epoch, world.group.subscribed_topics) == (1, frozenset())
    world.run_submitted()
    assert (world.group.epoch, world.group.subscribed_topics) == (2, frozenset({"t", "u"}))
    assert (a.beat().member_epoch, len(a.owned)) == (2, 4)


def test_an_expression_of_another_member_is_known_at_once(world: ConsumerWorld) -> None:
    a, b = reader(world, "a", "t|u"), reader(world, "b", "t|u")
    a.join()
    world.run_submitted()
    a.beat()
    assert b.join().member_epoch == 3
    assert len(world.group.target("b")) == 2


def test_names_and_an_expression_add_up(world: ConsumerWorld) -> None:
    a = world.member("a", ["t"], subscribed_topic_regex="u")
    a.join()
    world.run_submitted()
    a.beat()
    assert len(a.owned) == 4


def test_a_bad_expression_is_refused_and_nothing_is_written(world: ConsumerWorld) -> None:
    with pytest.raises(InvalidRegularExpressionError):
        reader(world, "a", "(").join()
    assert world.log == []


def test_a_second_expression_waits_for_ten_seconds_since_the_first(world: ConsumerWorld) -> None:
    a, b = reader(world, "a", "t"), reader(world, "b", "u")
    a.join()
    world.run_submitted()
    a.beat()
    b.join()
    assert world.submitted == []
    world.advance(10)
    b.beat()
    assert world.submitted == []
    world.advance(0.1)
    b.beat()
    world.run_submitted()
    b.beat()
    assert len(b.owned) == 2


def test_new_topics_have_expressions_resolved_again(world: ConsumerWorld) -> None:
    a = reader(world, "a", "t.*")
    a.join()
    world.run_submitted()
    a.beat()
    world.advance(11)
    a.beat()
    assert world.submitted == []
    world.create_topic("tt", 3)
    a.beat()
    world.run_submitted()
    a.beat()
    assert len(a.owned) == 5


def test_expressions_are_resolved_again_after_the_interval(world: ConsumerWorld) -> None:
    a = reader(world, "a", "t.*")
    a.join()
    world.run_submitted()
    epoch = world.group.epoch
    for _ in range(61):
        world.advance(10)
        a.beat()
    assert len(world.submitted) == 1
    world.run_submitted()
    assert world.group.epoch == epoch, "the same topics are no reason to rebalance"


def test_an_expression_goes_with_the_last_member_that_has_it(world: ConsumerWorld) -> None:
    a, b = reader(world, "a", "t"), reader(world, "b", "t")
    a.join()
    b.join()
    world.run_submitted()
    a.beat(subscribed_topic_regex="")
    assert list(world.group.regexes) == ["t"]
    b.leave()
    assert world.group.regexes == {}


def test_a_member_without_its_expression_gives_its_topics_up(world: ConsumerWorld) -> None:
    a = reader(world, "a", "t")
    a.join()
    world.run_submitted()
    a.beat()
    assert len(a.owned) == 2
    assert (a.beat(subscribed_topic_regex="").member_epoch, a.owned) == (2, set())
    assert a.acknowledge().member_epoch == 3


def test_a_group_that_is_gone_is_not_resolved(world: ConsumerWorld) -> None:
    a = reader(world, "a", "t")
    a.join()
    a.leave()
    for record in world.group.tombstones():
        world.shard.replay(record.key, record.value)
    world.run_submitted()
    assert world.shard.groups == {}


def test_resolved_expressions_survive_a_move(world: ConsumerWorld) -> None:
    a = reader(world, "a", "t")
    a.join()
    world.run_submitted()
    a.beat()
    world.reload()
    assert world.group.subscribed_topics == {"t"}
    assert (a.beat().member_epoch, len(a.owned)) == (2, 2)
