"""Merging: what answers and hints make of a view."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.client.metadata.merge import GONE, hinted, merged, refresh_reasons, restricted
from ottla.client.metadata.view import BrokerView, ClusterView, PartitionView, TopicView
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.messages import MetadataResponse

FIRST = Uuid(b"the first topic.")
SECOND = Uuid(b"the second topic")
LEADER_NOT_AVAILABLE = 5
NEWEST = 13

Partition = MetadataResponse.MetadataResponsePartition


def partition(index: int, leader: int = 1, epoch: int = 0, error: int = 0) -> Partition:
    return Partition(
        partition_index=index,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[1],
        offline_replicas=[2],
        error_code=error,
    )


def response(
    partitions: Sequence[Partition] = (),
    topic_id: Uuid = FIRST,
    error: int = 0,
    nodes: Sequence[int] = (1, 2),
) -> MetadataResponse:
    topic = MetadataResponse.MetadataResponseTopic(
        name="orders", topic_id=topic_id, partitions=list(partitions), error_code=error
    )
    return answer([topic], nodes)


def answer(
    topics: list[MetadataResponse.MetadataResponseTopic], nodes: Sequence[int] = (1, 2)
) -> MetadataResponse:
    brokers = [
        MetadataResponse.MetadataResponseBroker(node_id=node, host=f"node-{node}", port=9092, rack="r")
        for node in nodes
    ]
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=topics)


def taken(*responses: MetadataResponse, version: int = NEWEST) -> ClusterView:
    view = ClusterView()
    for each in responses:
        view = merged(view, each, version, ["orders"])
    return view


def leaders(view: ClusterView) -> list[tuple[int, int]]:
    return [(part.leader, part.leader_epoch) for part in view.topics["orders"].partitions]


def test_an_answer_becomes_a_view() -> None:
    view = taken(response([partition(1, leader=2, epoch=7), partition(0)]))
    assert view.cluster_id == "c"
    assert view.controller_id == 1
    assert view.brokers[2] == BrokerView(2, "node-2", 9092, "r")
    first = PartitionView(0, 1, 0, (1, 2), (1,), (2,), 0)
    second = PartitionView(1, 2, 7, (1, 2), (1,), (2,), 0)
    assert view.topics["orders"] == TopicView("orders", FIRST, False, 0, (first, second))
    assert view.topic_name(FIRST) == "orders"
    assert view.topic_name(SECOND) is None
    assert view.topic_name(ZERO_UUID) is None


def test_an_older_answer_does_not_overwrite_a_newer_leader() -> None:
    newer = response([partition(0, leader=2, epoch=4), partition(1, epoch=1)])
    older = response([partition(0, leader=1, epoch=3), partition(1, leader=2, epoch=2)])
    assert leaders(taken(newer, older)) == [(2, 4), (2, 2)]


def test_the_same_epoch_brings_the_latest_replicas_and_errors() -> None:
    view = taken(
        response([partition(0, epoch=4)]),
        response([partition(0, leader=-1, epoch=4, error=LEADER_NOT_AVAILABLE)]),
    )
    assert leaders(view) == [(-1, 4)]
    assert view.topics["orders"].partitions[0].error_code == LEADER_NOT_AVAILABLE


def test_another_topic_id_is_another_topic_and_epochs_begin_anew() -> None:
    view = taken(
        response([partition(0, epoch=9), partition(1, epoch=9)]), response([partition(0)], topic_id=SECOND)
    )
    assert leaders(view) == [(1, 0)]
    assert view.topics["orders"].topic_id == SECOND
    assert view.topic_name(FIRST) is None


def test_a_topic_id_never_comes_back_in_the_same_cluster() -> None:
    old, new = response([partition(0, leader=1)]), response([partition(0, leader=2)], topic_id=SECOND)
    # The last answer is of a broker that has not heard of it yet.
    assert taken(old, new, old).topics["orders"].topic_id == SECOND
    assert leaders(taken(old, new, old)) == [(2, 0)]


def test_in_another_cluster_topic_ids_begin_anew() -> None:
    here, there = response([partition(0)]), response([partition(0)], topic_id=SECOND)
    there.cluster_id = "another"
    assert taken(here, there, here).topics["orders"].topic_id == FIRST
    assert taken(here, there, here, there).topics["orders"].topic_id == SECOND


@pytest.mark.parametrize("version", [1, 7, 8])
def test_brokers_without_reliable_epochs_are_believed_as_they_are(version: int) -> None:
    view = taken(
        response([partition(0, epoch=4)]), response([partition(0, leader=2, epoch=3)]), version=version
    )
    assert leaders(view) == [(2, -1)]


def test_a_partition_without_leader_and_epoch_keeps_the_epoch_that_was_known() -> None:
    view = taken(response([partition(0, epoch=4)]), response([partition(0, leader=-1, epoch=-1)]))
    assert leaders(view) == [(-1, 4)]


def test_an_answer_without_topic_id_leaves_the_one_that_is_known() -> None:
    view = taken(response([partition(0)]), response([partition(0)], topic_id=ZERO_UUID))
    assert view.topics["orders"].topic_id == FIRST


def test_partitions_are_added() -> None:
    view = taken(response([partition(0)]), response([partition(0), partition(1, leader=2)]))
    assert leaders(view) == [(1, 0), (2, 0)]


def test_a_partition_that_an_answer_leaves_out_stays_with_an_error() -> None:
    view = taken(response([partition(0), partition(1, leader=2)]), response([partition(0)]))
    assert leaders(view) == [(1, 0), (2, 0)]
    assert [part.error_code for part in view.topics["orders"].partitions] == [0, GONE]
    assert [part.index for part in taken(response([partition(2)])).topics["orders"].partitions] == [0, 1, 2]


@pytest.mark.parametrize("index", [-1, 2**31 - 1])
def test_absurd_indexes_are_ignored(index: int) -> None:
    assert leaders(taken(response([partition(0), partition(index)]))) == [(1, 0)]


@pytest.mark.parametrize("later", [response(error=GONE, topic_id=ZERO_UUID), answer([])])
def test_a_topic_that_is_gone_keeps_its_last_id_and_partitions(later: MetadataResponse) -> None:
    view = taken(response([partition(0)]), later)
    assert view.topics["orders"].error_code == GONE
    assert view.topics["orders"].topic_id == FIRST
    assert leaders(view) == [(1, 0)]


def test_a_topic_that_comes_back_with_its_id_goes_on_with_its_epochs() -> None:
    view = taken(response([partition(0, epoch=4)]), answer([]), response([partition(0, leader=2, epoch=3)]))
    assert view.topics["orders"].error_code == 0
    assert leaders(view) == [(1, 4)]


def test_topics_that_were_not_asked_for_stay_as_they_are() -> None:
    view = merged(taken(response([partition(0)])), answer([], nodes=[3]), NEWEST, [])
    assert leaders(view) == [(1, 0)]
    assert list(view.brokers) == [3]


def test_a_topic_missing_from_an_answer_about_all_is_gone() -> None:
    assert (
        merged(taken(response([partition(0)])), answer([]), NEWEST, None).topics["orders"].error_code == GONE
    )


@pytest.mark.parametrize("topic", ["orders", FIRST])
def test_a_hint_with_a_newer_epoch_moves_the_leader_and_names_its_address(topic: str | Uuid) -> None:
    view = taken(response([partition(0), partition(1)]))
    moved = hinted(view, topic, 1, 3, 1, [BrokerView(3, "node-3", 9092)])
    assert moved is not None
    assert leaders(moved) == [(1, 0), (3, 1)]
    assert list(moved.brokers) == [1, 2, 3]
    assert leaders(view) == [(1, 0), (1, 0)]


@pytest.mark.parametrize(
    ("topic", "index", "leader", "epoch"),
    [
        ("orders", 0, 2, 4),  # the same epoch
        ("orders", 0, 2, 3),  # an older one
        ("orders", 0, 2, -1),  # none
        ("orders", 1, 2, 9),  # no such partition
        ("orders", -1, 2, 9),
        ("orders", 0, 3, 9),  # nobody knows where broker 3 is
        ("others", 0, 2, 9),
        (SECOND, 0, 2, 9),
    ],
)
def test_a_hint_that_is_no_news_changes_nothing(
    topic: str | Uuid, index: int, leader: int, epoch: int
) -> None:
    assert hinted(taken(response([partition(0, epoch=4)])), topic, index, leader, epoch, []) is None


def test_topics_that_nobody_wants_are_left_out() -> None:
    view = taken(response([partition(0)]))
    assert restricted(view, lambda name: True) is view
    assert not restricted(view, lambda name: False).topics
    assert list(restricted(view, lambda name: False).brokers) == [1, 2]


def test_reasons_to_refresh_are_what_may_pass() -> None:
    def of(*responses: MetadataResponse) -> list[str]:
        return list(refresh_reasons(taken(*responses), ["orders"]))

    assert of(response([partition(0)])) == []
    assert of() == ["topic orders has not been requested"]
    assert of(response(error=GONE)) == ["topic orders: UNKNOWN_TOPIC_OR_PARTITION"]
    topic_authorization_failed = 29
    assert of(response(error=topic_authorization_failed)) == []
    leaderless = partition(0, leader=-1, error=LEADER_NOT_AVAILABLE)
    assert of(response([leaderless])) == ["partition 0 of orders, leader -1: LEADER_NOT_AVAILABLE"]
    assert len(of(response([partition(0), partition(1)]), response([partition(0)]))) == 1
    assert of(response([partition(0, error=9)])) == [], "a replica is down, the leader is there"
