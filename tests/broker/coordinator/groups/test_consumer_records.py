"""What is written for a KIP-848 group is what a load finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.coordinator.groups.consumer_group import ConsumerGroup
from ottla.broker.coordinator.groups.consumer_member import (
    ClassicMetadata,
    ConsumerMember,
    MemberState,
    OfferedProtocol,
    ResolvedRegex,
)
from ottla.broker.coordinator.groups.consumer_records import (
    assignment_record,
    epoch_record,
    member_tombstones,
    regex_record,
    regex_tombstone,
    subscription_record,
    target_epoch_record,
    target_record,
)
from ottla.broker.coordinator.groups.records import (
    AssignedTopicPartitions,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    decode,
    encode,
)
from ottla.broker.coordinator.shard import CoordinatorRecord
from ottla.broker.metadata.image import MetadataImage
from ottla.wire import Uuid

GROUP = "readers"

names = st.text(max_size=5)
partitions = st.dictionaries(
    st.tuples(st.sampled_from([Uuid(b"t" * 16), Uuid(b"u" * 16)]), st.integers(0, 5)), st.integers(0, 9)
)
members = st.builds(
    ConsumerMember,
    id=st.just("a"),
    epoch=st.integers(-2, 9),
    previous_epoch=st.integers(-1, 9),
    state=st.sampled_from(MemberState),
    instance_id=st.none() | names,
    rack=st.none() | names,
    client_id=names,
    client_host=names,
    topics=st.frozensets(names),
    regex=st.none() | st.text(min_size=1, max_size=5),
    rebalance_timeout_ms=st.integers(0, 1 << 30),
    assignor=st.none() | names,
    classic=st.none()
    | st.builds(
        ClassicMetadata,
        session_timeout_ms=st.integers(0, 1 << 30),
        protocols=st.lists(st.builds(OfferedProtocol, names, st.binary(max_size=4))).map(tuple),
    ),
    assigned=partitions,
    pending=st.just({}),
)


def replay(group: ConsumerGroup, *records: CoordinatorRecord) -> None:
    for record in records:
        key, value = decode(record.key, record.value)
        group.replay(key, value)  # type: ignore[arg-type]


@given(members)
def test_a_member_is_loaded_as_it_was_written(member: ConsumerMember) -> None:
    group = ConsumerGroup(GROUP, MetadataImage())
    replay(group, subscription_record(GROUP, member), assignment_record(GROUP, member))
    assert group.members == {"a": member}
    assert all(group.owner(partition) == "a" for partition in member.assigned)
    replay(group, *member_tombstones(GROUP, "a"))
    assert group.is_empty
    assert not any(group.is_owned(partition) for partition in member.assigned)


def test_epochs_targets_and_expressions_are_loaded_as_they_were_written() -> None:
    group = ConsumerGroup(GROUP, MetadataImage())
    target = frozenset({(Uuid(b"t" * 16), 2), (Uuid(b"u" * 16), 0)})
    resolved = ResolvedRegex(frozenset({"t", "u"}), 7, 1234)
    replay(
        group,
        epoch_record(GROUP, 5, -42),
        target_record(GROUP, "a", target),
        target_epoch_record(GROUP, 4, 99),
        regex_record(GROUP, "t|u", resolved),
    )
    assert (group.epoch, group.metadata_hash, group.target_epoch, group.target_timestamp_ms) == (
        5,
        -42,
        4,
        99,
    )
    assert (group.targets, group.regexes) == ({"a": target}, {"t|u": resolved})
    replay(group, regex_tombstone(GROUP, "t|u"))
    assert group.regexes == {}


def test_a_partition_without_an_epoch_of_its_own_is_held_since_the_members() -> None:
    """Releases before KIP-1251 wrote none."""
    group = ConsumerGroup(GROUP, MetadataImage())
    topic = Uuid(b"t" * 16)
    replay(
        group,
        encode(
            ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a"),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=3, assigned_partitions=[AssignedTopicPartitions(topic_id=topic, partitions=[1])]
            ),
        ),
    )
    assert group.member("a").assigned == {(topic, 1): 3}


def test_a_partition_stays_with_its_new_owner_when_the_old_ones_record_comes_behind() -> None:
    """A compacted log keeps the last record of each member, in whatever order those were written."""
    group = ConsumerGroup(GROUP, MetadataImage())
    partition = (Uuid(b"t" * 16), 0)
    old = ConsumerMember("a", epoch=1, assigned={partition: 1})
    new = ConsumerMember("b", epoch=2, assigned={partition: 2})
    replay(group, assignment_record(GROUP, old), assignment_record(GROUP, new))
    replay(group, assignment_record(GROUP, ConsumerMember("a", epoch=2)))
    assert group.owner(partition) == "b"


def test_tombstones_of_what_is_not_there_change_nothing() -> None:
    group = ConsumerGroup(GROUP, MetadataImage())
    replay(group, *member_tombstones(GROUP, "nobody"), regex_tombstone(GROUP, "x"))
    assert group.is_empty
