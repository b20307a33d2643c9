"""Options that contradict each other are refused, at the border and not before it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from ottla.config import ClientConfig
from ottla.errors import ConfigurationError

LONG = 2**63 - 1


def made(**options: Any) -> ClientConfig:
    return ClientConfig(**{"bootstrap_servers": "localhost:9092", **options})


@pytest.mark.parametrize(
    ("agreeing", "disagreeing", "option", "why"),
    [
        ({"acks": "all"}, {"acks": 1}, "acks", "enable_idempotence=False does without"),
        ({"acks": -1}, {"acks": 0}, "acks", "enable_idempotence=False does without"),
        ({"retries": 1}, {"retries": 0}, "retries", "enable_idempotence=False does without"),
        (
            {"max_in_flight_requests_per_connection": 5},
            {"max_in_flight_requests_per_connection": 6},
            "max_in_flight_requests_per_connection",
            "it takes at most 5",
        ),
        (
            {"delivery_timeout_ms": 30_010},
            {"delivery_timeout_ms": 30_009},
            "delivery_timeout_ms",
            "it has to hold linger_ms=10 and request_timeout_ms=30000; it takes at least 30010",
        ),
        (
            {"default_api_timeout_ms": 30_000, "request_timeout_ms": 30_000},
            {"default_api_timeout_ms": 29_999, "request_timeout_ms": 30_000},
            "default_api_timeout_ms",
            "it has to hold request_timeout_ms=30000",
        ),
        (
            {"fetch_max_wait_ms": 29_999},
            {"fetch_max_wait_ms": 30_000},
            "fetch_max_wait_ms",
            "it takes less than 30000",
        ),
        ({"retry_backoff_ms": 1_000}, {"retry_backoff_ms": 1_001}, "retry_backoff_ms", "change both"),
        (
            {"reconnect_backoff_ms": 1_000},
            {"reconnect_backoff_ms": 1_001},
            "reconnect_backoff_ms",
            "change both",
        ),
        (
            {"socket_connection_setup_timeout_max_ms": 10_000},
            {"socket_connection_setup_timeout_max_ms": 9_999},
            "socket_connection_setup_timeout_ms",
            "socket_connection_setup_timeout_max_ms=9999 is the most",
        ),
        (
            {"metadata_max_age_ms": 5_000},
            {"metadata_max_age_ms": 4_999},
            "metadata_min_age_ms",
            "metadata_max_age_ms=4999 is the most",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    agreeing: dict[str, Any], disagreeing: dict[str, Any], option: str, why: str
) -> None:
    made(**agreeing)
    with pytest.raises(ConfigurationError) as caught:
        made(**disagreeing)
    assert caught.value.option == option
    assert str(caught.value).startswith(f"{option} cannot be {caught.value.value!r}: ")
    assert why in str(caught.value)


@pytest.mark.parametrize(
    "options", [{"acks": 1}, {"acks": 0}, {"retries": 0}, {"max_in_flight_requests_per_connection": 100}]
)
def test_without_idempotence_its_rules_do_not_count(options: dict[str, Any]) -> None:
    made(enable_idempotence=False, **options)


@pytest.mark.parametrize(
    ("named", "following"),
    [
        ({"default_api_timeout_ms": 5_000}, {"request_timeout_ms": 5_000, "max_block_ms": 5_000}),
        ({"default_api_timeout_ms": 400}, {"request_timeout_ms": 400, "fetch_max_wait_ms": 200}),
        ({"default_api_timeout_ms": 90_000}, {"request_timeout_ms": 30_000, "max_block_ms": 60_000}),
        ({"default_api_timeout_ms": 5_000, "request_timeout_ms": 1_000}, {"max_block_ms": 5_000}),
        ({"default_api_timeout_ms": 5_000, "max_block_ms": 7_000}, {"request_timeout_ms": 5_000}),
        ({"request_timeout_ms": 70_000}, {"default_api_timeout_ms": 70_000}),
        (
            {"request_timeout_ms": 200_000},
            {"default_api_timeout_ms": 200_000, "delivery_timeout_ms": 200_010},
        ),
        ({"request_timeout_ms": 100}, {"fetch_max_wait_ms": 50, "default_api_timeout_ms": 60_000}),
    ],
)
def test_timeouts_that_are_not_named_follow_those_that_are(
    named: dict[str, Any], following: dict[str, int]
) -> None:
    config = made(**named)
    assert {name: getattr(config, name) for name in following} == following
    assert {name: getattr(config, name) for name in named} == named


def test_a_config_that_is_changed_follows_what_is_named_by_then() -> None:
    hasty = made(default_api_timeout_ms=5_000)
    assert hasty.replace(default_api_timeout_ms=50_000).request_timeout_ms == 30_000
    assert made().replace(default_api_timeout_ms=5_000) == hasty
    with pytest.raises(ConfigurationError, match="request_timeout_ms=30000"):
        made(request_timeout_ms=30_000).replace(default_api_timeout_ms=5_000)
    assert pickle.loads(pickle.dumps(hasty)).replace(default_api_timeout_ms=50_000).max_block_ms == 50_000


def test_lingering_without_end_asks_no_more_of_the_delivery_timeout_than_it_can_be() -> None:
    assert made(linger_ms=LONG, delivery_timeout_ms=2**31 - 1).linger_ms == LONG


def test_an_option_of_ours_claims_no_name_of_kafkas() -> None:
    with pytest.raises(ConfigurationError) as caught:
        made(metadata_min_age_ms=400_000)
    assert caught.value.kafka_name is None
    assert "Kafka" not in str(caught.value)
