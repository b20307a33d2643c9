"""What Ottla's client asks, and in which order, as its hooks see it on both brokers."""

from __future__ import annotations

from collections.abc import Mapping

import ottla
from ottla.hooks import Hook
from ottla.wire import Message
from ottla.wire.messages import (
    ApiVersionsRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from tests.interop.brokers import Broker
from tests.interop.own import take, with_client

API_VERSIONS, FETCH, INIT, LIST_OFFSETS, METADATA, PRODUCE = (
    request.API_KEY
    for request in (
        ApiVersionsRequest,
        FetchRequest,
        InitProducerIdRequest,
        ListOffsetsRequest,
        MetadataRequest,
        ProduceRequest,
    )
)
PLAIN = {"enable_metrics_push": False}


class Written(Hook):
    """The requests in the order in which they were written, and how many connections there were."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, int]] = []
        self.connections = 0

    def on_broker_connect(
        self, node_id: int, host: str, port: int, seconds: float, error: BaseException | None
    ) -> None:
        assert error is None
        self.connections += 1

    def on_broker_write(self, node_id: int, api_key: int, size: int, error: BaseException | None) -> None:
        assert error is None
        self.requests.append((node_id, api_key))

    def by_node(self) -> Mapping[int, list[int]]:
        found: dict[int, list[int]] = {}
        for node, api in self.requests:
            found.setdefault(node, []).append(api)
        return found

    def without_versions(self) -> list[int]:
        return [api for _, api in self.requests if api != API_VERSIONS]


def test_a_fresh_consumer_asks_for_metadata_then_offsets_then_records(broker: Broker) -> None:
    topic = broker.create_topic()
    with ottla.Client(broker.bootstrap) as kafka:
        kafka.produce(topic, b"x").result(30)
    written = Written()

    async def body(kafka: ottla.AsyncClient) -> None:
        async with kafka.consume(topic, start="earliest") as consumer:
            assert await take(consumer, 1) == [b"x"]
            asked = written.without_versions()
            assert asked[:3] == [METADATA, LIST_OFFSETS, FETCH]
            assert asked.count(METADATA) == asked.count(LIST_OFFSETS) == 1

    with_client(broker, body, hooks=[written], **PLAIN)
    for node, asked in written.by_node().items():
        assert asked[0] == API_VERSIONS, node
    # Each connection begins with it, and none asks again.
    assert [api for _, api in written.requests].count(API_VERSIONS) == written.connections


def test_a_fresh_producer_asks_for_metadata_then_an_id_then_writes(broker: Broker) -> None:
    topic = broker.create_topic()
    written = Written()

    async def body(kafka: ottla.AsyncClient) -> None:
        await (await kafka.produce(topic, b"x"))
        await (await kafka.produce(topic, b"y"))

    with_client(broker, body, hooks=[written], **PLAIN)
    asked = written.without_versions()
    # A broker that has no ids left asks the controller for some, and has the client ask again.
    others = [api for api in asked if api != INIT]
    assert others == [METADATA, PRODUCE, PRODUCE]
    assert INIT in asked
    assert asked[-2:] == [PRODUCE, PRODUCE]
    for node, of_node in written.by_node().items():
        assert of_node[0] == API_VERSIONS, node


def test_every_leader_is_asked_on_a_connection_that_began_with_versions(broker3: Broker) -> None:
    topic = broker3.create_topic(partitions=6)
    written = Written()

    async def body(kafka: ottla.AsyncClient) -> None:
        for number in range(60):
            await kafka.produce(topic, b"x", partition=number % 6)
        await kafka.flush()
        async with kafka.consume(topic, start="earliest") as consumer:
            await take(consumer, 60)

    with_client(broker3, body, hooks=[written], **PLAIN)
    by_node = written.by_node()
    for node in broker3.node_ids:
        assert by_node[node][0] == API_VERSIONS
        for api in (PRODUCE, LIST_OFFSETS, FETCH):
            assert api in by_node[node]
            assert by_node[node].index(LIST_OFFSETS) < by_node[node].index(FETCH)


def test_a_raw_request_goes_to_the_broker_that_is_named(broker3: Broker) -> None:
    written = Written()

    async def body(kafka: ottla.AsyncClient) -> None:
        for node in broker3.node_ids:
            answer = await kafka.request(MetadataRequest(topics=[]), broker=node)
            assert isinstance(answer, Message)
            assert (node, METADATA) in written.requests

    with_client(broker3, body, hooks=[written], **PLAIN)
