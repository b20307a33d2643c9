"""Random groups for assignors, and what must hold of any assignment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from ottla.assignors import Assignment, MemberSubscription, TopicLayout

_RACKS = ("x", "y", "z")
_TOPICS = ("t0", "t1", "t2", "t3")

layouts = st.dictionaries(
    st.sampled_from(_TOPICS),
    st.one_of(
        st.integers(1, 9).map(TopicLayout),
        st.lists(st.frozensets(st.sampled_from(_RACKS), min_size=1), min_size=1, max_size=9).map(
            lambda racks: TopicLayout(len(racks), tuple(racks))
        ),
    ),
    min_size=1,
)
racks = st.sampled_from((None, *_RACKS))
subscriptions = st.lists(st.sampled_from((*_TOPICS, "missing")), unique=True, max_size=5).map(tuple)


@st.composite
def groups(draw: st.DrawFn, *, equal: bool = False) -> list[MemberSubscription]:
    """Members that own nothing; with `equal` all read the same topics."""
    common = draw(subscriptions) if equal else None
    ids = draw(st.lists(st.text("abcdef", min_size=1, max_size=4), unique=True, min_size=1, max_size=8))
    return [
        MemberSubscription(
            member_id,
            draw(subscriptions) if common is None else common,
            instance_id=draw(st.sampled_from((None, f"instance of {member_id}"))),
            rack=draw(racks),
        )
        for member_id in ids
    ]


def check_each_partition_has_one_reader(
    members: Sequence[MemberSubscription], topics: Mapping[str, TopicLayout], assignment: Assignment
) -> None:
    """Every partition that a member reads is assigned once, to a member that reads it, and no other partition is."""
    reads = {member.member_id: set(member.topics) for member in members}
    assert assignment.keys() == reads.keys()
    for member_id, partitions in assignment.items():
        assert {topic for topic, _ in partitions} <= reads[member_id]
    wanted = set().union(*reads.values())
    expected = [
        (topic, number)
        for topic, layout in topics.items()
        if topic in wanted
        for number in range(layout.partitions)
    ]
    assert sorted(partition for assigned in assignment.values() for partition in assigned) == sorted(expected)


def spread(assignment: Mapping[str, Sequence[object]]) -> int:
    sizes = [len(partitions) for partitions in assignment.values()]
    return max(sizes) - min(sizes)
