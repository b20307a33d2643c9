"""Routes: where each API goes."""

from __future__ import annotations

import pytest

from ottla.client.requests.sharding import Destination, route_of
from ottla.errors import (
    NotControllerError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
)
from ottla.wire import api_for_key, api_keys
from ottla.wire.messages import (
    AddPartitionsToTxnRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)


@pytest.mark.parametrize("key", api_keys())
def test_every_api_has_a_way_even_when_its_request_is_empty(key: int) -> None:
    request = api_for_key(key).request()
    route = route_of(request)
    keys = route.items.keys(request)
    assert keys
    assert route.items.request_for(request, keys) == request
    response = api_for_key(key).response()
    assert route.items.code_of(response, route.items.codes(response), keys[0]) == 0
    assert route.items.merge(request, [response, response]) is not None


def test_an_id_without_a_transaction_comes_from_anybody() -> None:
    assert route_of(InitProducerIdRequest(transactional_id=None)).destination is Destination.ANY
    assert route_of(InitProducerIdRequest(transactional_id="t")).destination is Destination.TRANSACTION
    named = AddPartitionsToTxnRequest(v3_and_below_transactional_id="t")
    assert route_of(named).destination is Destination.TRANSACTION


def test_groups_go_to_coordinators_by_their_ids() -> None:
    commit = OffsetCommitRequest(group_id="g")
    assert route_of(commit).destination is Destination.GROUP
    assert route_of(commit).items.keys(commit) == ["g"]
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    fetch = OffsetFetchRequest(groups=[group(group_id="a"), group(group_id="b")])
    assert route_of(fetch).items.keys(fetch) == ["a", "b"]


def test_an_error_that_is_an_answer_is_not_tried_again() -> None:
    topic = CreateTopicsRequest.CreatableTopic(name="a")
    creation = route_of(CreateTopicsRequest(topics=[topic]))
    assert creation.is_retried(NotControllerError.code)
    assert not creation.is_retried(UnknownTopicOrPartitionError.code)
    partitions = [ListOffsetsRequest.ListOffsetsPartition()]
    lookup = route_of(
        ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name="a", partitions=partitions)])
    )
    assert lookup.is_retried(UnknownTopicOrPartitionError.code)
    assert lookup.is_retried(NotLeaderOrFollowerError.code)
    commit = route_of(OffsetCommitRequest(group_id="g"))
    assert commit.is_retried(NotCoordinatorError.code)
    assert not commit.is_retried(NotLeaderOrFollowerError.code)
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name="a")
    configs = route_of(DescribeConfigsRequest(resources=[resource]))
    assert configs.is_retried(UnknownTopicOrPartitionError.code)
    assert not configs.is_retried(NotLeaderOrFollowerError.code)
