"""The wire layer against Apache Kafka: every request that it advertises, in every version, over a plain socket.

What a request does is not the point here; that Kafka understands our bytes and we its answer, to the last byte, is.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.wire import (
    Api,
    Message,
    Versions,
    api_for_key,
    api_named,
    decode_response,
    encode_request,
)
from ottla.wire.messages import (
    AddPartitionsToTxnRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeAclsRequest,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from tests.interop import confluent
from tests.interop.apache import ApacheKafka
from tests.interop.plain import Connection

pytestmark = pytest.mark.kafka

# Advertised and yet refused by closing the connection: Kafka keeps the number for librdkafka's sake (KIP-896).
REFUSED = {("Produce", 0), ("Produce", 1), ("Produce", 2)}

# One record, "value", as Apache Kafka's own client wrote it: no producer id, no compression.
BATCH = bytes.fromhex(
    "00000000000000000000003cffffffff026ba48e850000000000000000018bcfe568000000018bcfe56800"
    "ffffffffffffffffffffffffffff0000000114000000046b3104763100"
)


@pytest.fixture
def connection(apache: ApacheKafka) -> Iterator[Connection]:
    with Connection(apache.bootstrap) as connection:
        yield connection


def advertised(connection: Connection) -> dict[str, Versions]:
    answer = connection.ask(ApiVersionsRequest(client_software_name="o", client_software_version="1"), 4)
    assert isinstance(answer, ApiVersionsResponse)
    assert answer.error_code == 0
    return {api_for_key(a.api_key).name: Versions(a.min_version, a.max_version) for a in answer.api_keys}


def test_every_version_that_kafka_advertises_is_known_here(connection: Connection) -> None:
    ranges = advertised(connection)
    assert len(ranges) > 60
    for name, versions in ranges.items():
        known = api_named(name).versions
        assert versions.within(known) == versions, f"{name} {versions}, known {known}"


def test_kafka_understands_every_request_and_we_every_answer(apache: ApacheKafka) -> None:
    """Requests at their defaults: most are answered with an error, each with an answer of its version."""
    with Connection(apache.bootstrap) as connection:
        ranges = advertised(connection)
    closed = []
    asked = 0
    for name, versions in ranges.items():
        for version in versions:
            asked += 1
            with Connection(apache.bootstrap) as connection:
                try:
                    answer = connection.ask(harmless(api_named(name), version), version)
                except ConnectionError:
                    closed.append((name, version))
                else:
                    assert type(answer) is api_named(name).response
    assert asked > 250
    assert set(closed) == REFUSED


def harmless(api: Api, version: int) -> Message:
    """The request at its defaults, or with the least that Kafka needs to answer it."""
    request = api.request()
    match request:
        case ApiVersionsRequest():
            request.client_software_name, request.client_software_version = "ottla", "1"
        case ProduceRequest():
            request.acks = -1  # 0 would get no answer at all
        case DescribeAclsRequest():
            # The default is the code for "unknown", at which Kafka closes the connection.
            request.resource_type_filter = request.pattern_type_filter = 1
            request.operation = request.permission_type = 1
        case AddPartitionsToTxnRequest() if version >= 4:
            # Kafka never answers a list of no transactions.
            transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(transactional_id="none")
            request.transactions = [transaction]
    return request


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(connection: Connection) -> None:
    """KIP-511. Written by hand, as no encoder of ours knows the version."""
    request = bytearray(b"".join(encode_request(ApiVersionsRequest(), 4, 1, "ottla-tests")))
    request[6:8] = (99).to_bytes(2)
    answer = decode_response(api_named("ApiVersions"), 4, connection.exchange(request))
    assert isinstance(answer, ApiVersionsResponse)
    assert answer.error_code == 35
    assert [(a.api_key, a.max_version) for a in answer.api_keys] == [(18, 4)]


@pytest.mark.parametrize("version", range(14))
def test_metadata_says_the_same_in_every_version(
    apache: ApacheKafka, connection: Connection, version: int
) -> None:
    topic = confluent.create_topic(apache.bootstrap, partitions=3)
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    if version < 4:
        request.allow_auto_topic_creation = True
    answer = connection.ask(request, version)
    assert isinstance(answer, MetadataResponse)
    (found,) = answer.topics
    assert (found.name, found.error_code) == (topic, 0)
    assert sorted(p.partition_index for p in found.partitions) == [0, 1, 2]
    assert {p.leader_id for p in found.partitions} == set(apache.node_ids)
    assert f"{answer.brokers[0].host}:{answer.brokers[0].port}" == apache.bootstrap


def test_a_record_is_produced_and_fetched_in_every_version(
    apache: ApacheKafka, connection: Connection
) -> None:
    topic = confluent.create_topic(apache.bootstrap)
    topic_id = connection.topic_id(topic)
    versions = range(3, api_named("Produce").versions.high + 1)
    for offset, version in enumerate(versions):
        data = ProduceRequest.TopicProduceData(
            name=topic,
            topic_id=topic_id,
            partition_data=[ProduceRequest.PartitionProduceData(index=0, records=BATCH)],
        )
        answer = connection.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), version)
        assert isinstance(answer, ProduceResponse)
        (partition,) = answer.responses[0].partition_responses
        assert (partition.error_code, partition.base_offset) == (0, offset)
    for version in range(4, api_named("Fetch").versions.high + 1):
        wanted = FetchRequest.FetchTopic(
            topic=topic,
            topic_id=topic_id,
            partitions=[FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)],
        )
        request = FetchRequest(max_wait_ms=1000, min_bytes=1, max_bytes=1 << 20, topics=[wanted])
        fetched = connection.ask(request, version)
        assert isinstance(fetched, FetchResponse)
        (found,) = fetched.responses[0].partitions
        assert (found.error_code, found.high_watermark) == (0, len(versions))
        assert found.records is not None
        assert len(found.records) == len(versions) * len(BATCH)
    assert confluent.consume(apache.bootstrap, topic, len(versions)) == [b"v1"] * len(versions)
