"""What handlers get of their node: topics by id, and the partitions that a request touches."""

from __future__ import annotations

from ottla.broker import Cluster
from ottla.broker.handlers.context import NodeContext
from ottla.wire import Uuid
from ottla.wire.messages import FetchRequest, FetchResponse, MetadataRequest, ProduceRequest
from tests.broker.handlers.requests import connect


def context(cluster: Cluster) -> NodeContext:
    return cluster._cluster.node(1).context


def test_topics_are_found_by_id(kafka: Cluster) -> None:
    kafka.seed("by-id", [b"1"])
    topic = context(kafka).image.topics["by-id"]
    assert context(kafka).topic_name(topic.id) == "by-id"
    assert context(kafka).topic_name(Uuid(b"nobody's".ljust(16))) is None


def test_a_request_touches_the_partitions_that_it_names_by_name_or_id(kafka: Cluster) -> None:
    kafka.seed("touched", [b"1"])
    topic_id = context(kafka).image.topics["touched"].id
    data = [ProduceRequest.PartitionProduceData(index=index) for index in (0, 3)]
    by_name = ProduceRequest(
        topic_data=[ProduceRequest.TopicProduceData(name="touched", partition_data=data)]
    )
    by_id = ProduceRequest(
        topic_data=[ProduceRequest.TopicProduceData(topic_id=topic_id, partition_data=data)]
    )
    for request in (by_name, by_id):
        assert context(kafka).touched(request) == [("touched", 0), ("touched", 3)]
    named = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="touched")])
    assert context(kafka).touched(named) == [("touched", -1)]
    assert context(kafka).touched(MetadataRequest(topics=None)) == []


def test_a_fetch_touches_what_its_session_remembers_as_well(kafka: Cluster) -> None:
    kafka.seed("remembered", [b"1"])
    topic = FetchRequest.FetchTopic(
        topic="remembered", partitions=[FetchRequest.FetchPartition(partition=0, partition_max_bytes=1000)]
    )
    with connect(kafka) as connection:
        response = connection.ask(FetchRequest(session_epoch=0, topics=[topic]), 12)
    assert isinstance(response, FetchResponse)
    later = FetchRequest(session_id=response.session_id, session_epoch=1)
    assert context(kafka).touched(later) == [("remembered", 0)]
    first = FetchRequest(session_id=response.session_id, session_epoch=0)
    assert context(kafka).touched(first) == []
