"""What a broker speaks, and what of it this client does too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.client.connections.api_versions import ApiVersions, first_request, retry_version
from ottla.client.connections.purposes import Purpose
from ottla.errors import ClusterAuthorizationFailedError, UnsupportedApiError
from ottla.wire import Versions, api_named
from ottla.wire.messages import (
    ApiVersionsResponse,
    FetchRequest,
    MetadataRequest,
    ProduceRequest,
    RequestHeader,
)
from tests.client.connections.peers import UNSUPPORTED_VERSION, PlayedBroker, all_versions, answer
from tests.client.worlds import Body, World

Run = Callable[[Body], object]


def spoken(**versions: Versions) -> ApiVersions:
    keys = [
        ApiVersionsResponse.ApiVersion(
            api_key=api_named(name).key, min_version=each.low, max_version=each.high
        )
        for name, each in versions.items()
    ]
    return ApiVersions(ApiVersionsResponse(api_keys=keys), "broker 1 (kafka:9092)")


def test_the_highest_version_that_both_know_is_taken() -> None:
    versions = spoken(Fetch=Versions(4, 11), Produce=Versions(3, 99))
    assert versions.best(FetchRequest) == 11
    assert versions.best(FetchRequest, most=10) == 10
    assert versions.best(FetchRequest, most=15) == 11
    assert versions.best(ProduceRequest) == api_named("Produce").stable_versions.high


def test_what_a_broker_does_not_have_is_named_with_the_broker() -> None:
    versions = spoken(Fetch=Versions(4, 11), Produce=Versions(98, 99))
    with pytest.raises(UnsupportedApiError, match=r"broker 1 \(kafka:9092\) has no Metadata API"):
        versions.best(MetadataRequest)
    with pytest.raises(UnsupportedApiError, match="has versions 98-99 of Produce, this client 0-"):
        versions.best(ProduceRequest)
    with pytest.raises(UnsupportedApiError, match="the call needs 3 or lower"):
        versions.best(FetchRequest, most=3)


def test_an_answer_with_an_error_is_that_error() -> None:
    with pytest.raises(ClusterAuthorizationFailedError):
        ApiVersions(ApiVersionsResponse(error_code=31), "broker 1")


def test_an_older_broker_is_asked_again_at_its_own_version() -> None:
    own = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=2)
    refusal = ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_keys=[own])
    assert retry_version(refusal, tried=4) == 2
    assert retry_version(ApiVersionsResponse(error_code=UNSUPPORTED_VERSION), tried=4) == 0
    assert retry_version(ApiVersionsResponse(), tried=4) is None


def test_a_broker_that_refuses_its_own_version_is_not_asked_for_ever() -> None:
    own = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=9)
    refusal = ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_keys=[own])
    tried: list[int] = [first_request()[1]]
    while (again := retry_version(refusal, tried[-1])) is not None:
        tried.append(again)
    assert tried == [4, 3, 2, 1, 0]


def test_the_first_request_on_a_connection_says_who_asks(run: Run) -> None:
    async def body(world: World) -> None:
        broker = await PlayedBroker().listen(world)
        parts = world.parts(broker.bootstrap, client_id="tester")
        for purpose in Purpose:
            await parts.brokers.get(-1).connection(purpose)
        assert len(broker.connections) == len(broker.greetings) == len(Purpose)
        header, request = broker.greetings[0]
        assert (header.request_api_version, header.client_id) == (4, "tester")
        assert request.client_software_name == "ottla"
        assert request.client_software_version[0].isdigit()
        await broker.close()

    run(body)


def test_a_broker_of_long_ago_is_spoken_to_all_the_same(run: Run) -> None:
    def greet(header: RequestHeader) -> list[bytes]:
        if header.request_api_version > 0:
            # Before Kafka 2.4 the refusal had no keys.
            return answer(header, ApiVersionsResponse(error_code=UNSUPPORTED_VERSION), version=0)
        return answer(header, ApiVersionsResponse(api_keys=all_versions()))

    async def body(world: World) -> None:
        broker = await PlayedBroker(greet).listen(world)
        connection = await world.parts(broker.bootstrap).brokers.get(-1).connection(Purpose.GENERAL)
        assert [header.request_api_version for header, _ in broker.greetings] == [4, 0]
        assert connection.version(MetadataRequest) == api_named("Metadata").stable_versions.high
        await broker.close()

    run(body)


def test_versions_are_those_of_the_connection_and_not_of_the_broker_before(run: Run) -> None:
    async def body(world: World) -> None:
        old = [
            ApiVersionsResponse.ApiVersion(api_key=MetadataRequest.API_KEY, min_version=0, max_version=most)
            for most in (5, 9)
        ]
        broker = await PlayedBroker(
            lambda header: answer(header, ApiVersionsResponse(api_keys=[old[len(broker.connections) - 1]]))
        ).listen(world)
        asked = world.parts(broker.bootstrap, reconnect_backoff_ms=0).brokers.get(-1)
        before = await asked.connection(Purpose.GENERAL)
        assert before.version(MetadataRequest) == 5
        before.close()
        assert (await asked.connection(Purpose.GENERAL)).version(MetadataRequest) == 9
        await broker.close()

    run(body)
