"""What differs from run to run is gone from a normalised answer; what matters is still there."""

from __future__ import annotations

import time

from ottla.wire import Uuid
from ottla.wire.batches import encode_batch
from ottla.wire.messages import (
    FetchResponse,
    InitProducerIdResponse,
    ListOffsetsResponse,
    MetadataResponse,
    ProduceResponse,
)
from tests.interop.comparison.normal import normalised, records
from tests.interop.comparison.world import World

ID = Uuid(b"sixteen bytes id")


def topic(name: str | None, error_code: int = 0) -> MetadataResponse.MetadataResponseTopic:
    return MetadataResponse.MetadataResponseTopic(name=name, topic_id=ID, error_code=error_code)


def test_addresses_and_ids_become_labels() -> None:
    broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="localhost", port=12345)
    answer = MetadataResponse(
        brokers=[broker], cluster_id="xyz", topics=[topic("orders")], throttle_time_ms=9
    )
    assert normalised(answer, World()) == {
        "brokers": {"1": {"host": "<host>", "port": "<port>"}},
        "cluster_id": "<cluster_id>",
        "topics": {"orders": {"topic_id": "id of orders"}},
    }


def test_a_topic_that_is_named_by_its_id_is_still_known() -> None:
    world = World()
    normalised(MetadataResponse(topics=[topic("orders")]), world)
    response = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic_id=ID)])
    assert normalised(response, world) == {"responses": {"id of orders": {}}}
    assert world.topic_id("orders") == ID


def test_error_codes_become_names() -> None:
    answer = normalised(MetadataResponse(topics=[topic("orders", 3)]), World())
    assert answer["topics"]["orders"]["error_code"] == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_producer_is_named_after_the_step_that_got_it() -> None:
    world = World()
    world.step = "first"
    first, second = (InitProducerIdResponse(producer_id=number, producer_epoch=0) for number in (4711, 12))
    assert normalised(first, world)["producer_id"] == "<producer of first>"
    world.step = "second"
    assert normalised(second, world)["producer_id"] == "<producer of second>"
    assert normalised(first, world)["producer_id"] == "<producer of first>"
    assert world.text_label("producer 12 at offset 5") == "producer <producer of second> at offset 5"


def test_a_time_of_today_is_now_and_any_other_is_itself() -> None:
    def listed(timestamp: int) -> object:
        part = ListOffsetsResponse.ListOffsetsPartitionResponse(timestamp=timestamp, offset=1)
        named = ListOffsetsResponse.ListOffsetsTopicResponse(name="orders", partitions=[part])
        answer = normalised(ListOffsetsResponse(topics=[named]), World())
        return answer["topics"]["orders"]["partitions"]["0"]["timestamp"]

    assert listed(int(time.time() * 1000)) == "<now>"
    assert listed(1_600_000_000_000) == 1_600_000_000_000


def test_the_order_of_a_list_does_not_matter_but_its_duplicates_do() -> None:
    def answer(*indexes: int) -> object:
        parts = [ProduceResponse.PartitionProduceResponse(index=index) for index in indexes]
        topics = [ProduceResponse.TopicProduceResponse(name="orders", partition_responses=parts)]
        return normalised(ProduceResponse(responses=topics), World())

    assert answer(0, 1) == answer(1, 0)
    assert answer(0, 0) != answer(0)


def test_records_are_taken_apart() -> None:
    batch = encode_batch([(5, 1000, b"k", b"v", [("h", None)])], codec=1, leader_epoch=3)
    assert records(batch + batch[:20], World()) == [
        {
            "offsets": [5, 5],
            "leader_epoch": 3,
            "codec": "gzip",
            "timestamps": ["CREATE_TIME", 1000, 1000],
            "records": [[5, 1000, "k", "v", [["h", None]]]],
        },
        "20 bytes of another batch",
    ]
    assert records(b"", World()) == []
    assert records(None, World()) is None
