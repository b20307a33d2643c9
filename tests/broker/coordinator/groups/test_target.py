"""The target of a group, and the hash of what it depends on."""

from __future__ import annotations

from ottla.broker.coordinator.groups.consumer_member import ConsumerMember
from ottla.broker.coordinator.groups.target import compute_target, metadata_hash
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.records import PartitionRecord, RemoveTopicRecord, TopicRecord
from ottla.wire import Uuid

T, U = Uuid(b"t" * 16), Uuid(b"u" * 16)


def image(**widths: int) -> MetadataImage:
    made = MetadataImage()
    for name, width in widths.items():
        topic_id = Uuid(name.encode() * 16)
        made.apply(TopicRecord(name, topic_id))
        for index in range(width):
            made.apply(PartitionRecord(topic_id, index, (1,), (1,), 1))
    return made


def numbers(target: frozenset[tuple[Uuid, int]]) -> list[int]:
    return sorted(index for _, index in target)


def test_members_share_what_they_are_subscribed_to() -> None:
    members = [ConsumerMember("a"), ConsumerMember("b")]
    subscriptions = {"a": frozenset({"t"}), "b": frozenset({"t", "u"})}
    target = compute_target("uniform", members, subscriptions, {}, image(t=2, u=2))
    assert sorted(target["a"] | target["b"]) == [(T, 0), (T, 1), (U, 0), (U, 1)]
    assert {topic for topic, _ in target["a"]} == {T}
    assert len(target["a"]) == len(target["b"]) == 2


def test_the_previous_target_is_kept_where_it_is_even() -> None:
    members = [ConsumerMember(name) for name in "ab"]
    subscriptions = dict.fromkeys("ab", frozenset({"t"}))
    previous = {"a": frozenset({(T, 1), (T, 3)}), "b": frozenset({(T, 0), (T, 2)})}
    assert compute_target("uniform", members, subscriptions, previous, image(t=4)) == previous


def test_range_cuts_each_topic_into_runs_in_the_order_of_instances_and_ids() -> None:
    members = [ConsumerMember("a"), ConsumerMember("z", instance_id="i")]
    subscriptions = dict.fromkeys("az", frozenset({"t"}))
    target = compute_target("range", members, subscriptions, {}, image(t=3))
    assert (numbers(target["z"]), numbers(target["a"])) == ([0, 1], [2])


def test_a_topic_that_does_not_exist_has_no_partitions() -> None:
    target = compute_target("uniform", [ConsumerMember("a")], {"a": frozenset({"gone"})}, {}, image(t=1))
    assert target == {"a": frozenset()}


def test_the_hash_changes_with_topics_and_partitions_and_nothing_else() -> None:
    known = image(t=2, u=1)
    first = metadata_hash(known, ["t"])
    assert first == metadata_hash(image(t=2), ["t", "gone"])
    assert len({first, metadata_hash(image(t=3), ["t"]), metadata_hash(known, ["t", "u"]), 0}) == 4
    known.apply(RemoveTopicRecord(T))
    assert metadata_hash(known, ["t"]) == 0
