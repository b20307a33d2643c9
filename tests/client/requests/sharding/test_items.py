"""Items: found, asked for in part, merged in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.requests.sharding import route_of
from ottla.client.topic_partition import TopicPartition
from ottla.wire.messages import (
    CreateTopicsRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeProducersRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)

PARTITIONS = st.lists(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "c"]), st.integers(0, 4)), unique=True, min_size=1
)


def request_of(partitions: list[TopicPartition]) -> ListOffsetsRequest:
    """One topic entry for each partition: brokers take that as well."""
    one = ListOffsetsRequest.ListOffsetsPartition
    return ListOffsetsRequest(
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[one(partition_index=number)])
            for topic, number in partitions
        ]
    )


def response_of(partitions: list[TopicPartition], throttle: int = 0) -> ListOffsetsResponse:
    one = ListOffsetsResponse.ListOffsetsPartitionResponse
    return ListOffsetsResponse(
        throttle_time_ms=throttle,
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=topic, partitions=[one(partition_index=number, offset=number, error_code=number)]
            )
            for topic, number in partitions
        ],
    )


@given(PARTITIONS, st.data())
def test_every_item_of_a_split_request_is_asked_for_once_and_merged_in_its_place(
    partitions: list[TopicPartition], data: st.DataObject
) -> None:
    request = request_of(partitions)
    items = route_of(request).items
    assert items.keys(request) == partitions
    places = data.draw(
        st.lists(st.integers(0, 2), min_size=len(partitions), max_size=len(partitions)), label="places"
    )
    parts = [
        [key for key, where in zip(partitions, places, strict=True) if where == place] for place in range(3)
    ]
    asked = [key for part in parts if part for key in items.keys(items.request_for(request, part))]
    assert sorted(map(str, asked)) == sorted(map(str, partitions))
    merged = items.merge(request, [response_of(part, index) for index, part in enumerate(parts) if part])
    assert isinstance(merged, ListOffsetsResponse)
    names = dict.fromkeys(key.topic for key in partitions)
    assert [topic.name for topic in merged.topics] == list(names) or len(list(filter(None, parts))) == 1
    assert items.codes(merged) == {key: key.partition for key in partitions}
    for topic in merged.topics:
        if len(list(filter(None, parts))) > 1:
            numbers = [each.partition_index for each in topic.partitions]
            assert numbers == [key.partition for key in partitions if key.topic == topic.name]


@given(PARTITIONS, st.data())
def test_an_answer_is_cut_down_to_some_of_its_items(
    partitions: list[TopicPartition], data: st.DataObject
) -> None:
    kept = data.draw(st.lists(st.sampled_from(partitions), unique=True), label="kept")
    items = route_of(request_of(partitions)).items
    assert list(items.codes(items.response_for(response_of(partitions), kept))) == [
        key for key in partitions if key in kept
    ]


def test_requests_are_never_changed_by_being_split() -> None:
    request = request_of([TopicPartition("a", 0), TopicPartition("b", 1)])
    copy = request_of([TopicPartition("a", 0), TopicPartition("b", 1)])
    part = route_of(request).items.request_for(request, [TopicPartition("b", 1)])
    assert request == copy
    assert part == request_of([TopicPartition("b", 1)])


def test_numbers_alone_are_items_too() -> None:
    topic = DescribeProducersRequest.TopicRequest
    request = DescribeProducersRequest(topics=[topic(name="a", partition_indexes=[2, 0])])
    items = route_of(request).items
    assert items.keys(request) == [("a", 2), ("a", 0)]
    part = items.request_for(request, [TopicPartition("a", 0)])
    assert part == DescribeProducersRequest(topics=[topic(name="a", partition_indexes=[0])])


def test_listed_items_come_back_in_the_order_of_the_request() -> None:
    request = DescribeGroupsRequest(groups=["c", "a", "b"])
    group = DescribeGroupsResponse.DescribedGroup
    items = route_of(request).items
    merged = items.merge(
        request,
        [
            DescribeGroupsResponse(groups=[group(group_id="a"), group(group_id="b", error_code=15)]),
            DescribeGroupsResponse(groups=[group(group_id="c")], throttle_time_ms=7),
        ],
    )
    assert isinstance(merged, DescribeGroupsResponse)
    assert [each.group_id for each in merged.groups] == ["c", "a", "b"]
    assert merged.throttle_time_ms == 7
    assert items.codes(merged) == {"a": 0, "b": 15, "c": 0}


def test_answers_of_all_brokers_are_put_behind_one_another_with_the_first_error() -> None:
    request = ListGroupsRequest()
    group = ListGroupsResponse.ListedGroup
    merged = route_of(request).items.merge(
        request,
        [
            ListGroupsResponse(groups=[group(group_id="a")]),
            ListGroupsResponse(error_code=14),
            ListGroupsResponse(groups=[group(group_id="b")], error_code=15),
        ],
    )
    assert isinstance(merged, ListGroupsResponse)
    assert [each.group_id for each in merged.groups] == ["a", "b"]
    assert merged.error_code == 14


def test_an_error_of_the_whole_answer_is_one_of_every_item() -> None:
    request = CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name="a")])
    items = route_of(request).items
    refused = ListGroupsResponse(error_code=14)
    assert items.code_of(refused, {}, "a") == 14
    assert items.code_of(refused, {"a": 41}, "a") == 41
