"""Client telemetry: subscriptions, who has to wait, and what is forgotten."""

from __future__ import annotations

from random import Random

import pytest

from ottla.broker.server.telemetry import (
    MOST_CLIENTS_KNOWN,
    MOST_PUSHES_KEPT,
    ClusterTelemetry,
    MetricsSubscription,
    Push,
    TelemetryClient,
    check_instance_id,
    new_instance_id,
)
from ottla.errors import (
    InvalidRequestError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
)
from ottla.wire import Uuid

INSTANCE = Uuid(b"a known instance")
EVERY_SECOND = MetricsSubscription(("*",), 1000)


class ClientConnection:
    is_closed = False


def client(subscription: MetricsSubscription = EVERY_SECOND) -> TelemetryClient:
    return TelemetryClient(INSTANCE, ClientConnection(), subscription)


@pytest.mark.parametrize(
    ("instance", "number"),
    [
        ("BQsumuPBQ2id_fSfRHKOsQ", -343782398),
        ("oOjZC6SKQ0mWNwe0O1H89w", 2109946591),
        ("AAAAAAAAAAAAAAAAAAAAAQ", -725132321),
    ],
)
def test_a_subscription_has_the_id_that_apache_kafka_gives_it(instance: str, number: int) -> None:
    assert MetricsSubscription().id_for(Uuid.parse(instance)) == number


def test_a_subscription_is_for_some_prefixes_or_for_everything() -> None:
    telemetry = ClusterTelemetry()
    telemetry.subscribe("b.", "a.", "b.", interval_ms=100)
    assert telemetry.subscription == MetricsSubscription(("b.", "a."), 100)
    telemetry.subscribe("a.", "*")
    assert telemetry.subscription == MetricsSubscription(("*",), 300_000)


@pytest.mark.parametrize("interval", [99, 3_600_001])
def test_an_interval_that_kafka_does_not_take_is_refused(interval: int) -> None:
    with pytest.raises(ValueError, match="100 to 3600000"):
        ClusterTelemetry().subscribe("*", interval_ms=interval)


def test_a_client_may_request_its_subscription_once_per_interval() -> None:
    asking = client()
    asking.request_subscription(5)
    with pytest.raises(ThrottlingQuotaExceededError):
        asking.request_subscription(1004)
    asking.request_subscription(1005)


def test_the_first_push_of_a_subscription_comes_at_any_time_the_next_after_the_interval() -> None:
    pushing = client()
    pushing.request_subscription(0)
    pushing.push(pushing.subscription_id, False, 1)
    with pytest.raises(ThrottlingQuotaExceededError):
        pushing.push(pushing.subscription_id, False, 1000)
    pushing.push(pushing.subscription_id, False, 1001)


def test_requesting_a_subscription_has_to_wait_for_the_interval_after_a_push_too() -> None:
    pushing = client()
    pushing.request_subscription(0)
    pushing.push(pushing.subscription_id, False, 900)
    with pytest.raises(ThrottlingQuotaExceededError):
        pushing.request_subscription(1500)


def test_an_early_push_is_refused_as_early_before_its_subscription_is_looked_at() -> None:
    pushing = client()
    pushing.push(pushing.subscription_id, False, 0)
    with pytest.raises(ThrottlingQuotaExceededError):
        pushing.push(pushing.subscription_id + 1, False, 1)


@pytest.mark.parametrize("error", [UnknownSubscriptionIdError, UnsupportedCompressionTypeError])
def test_a_client_whose_push_was_out_of_date_may_request_its_subscription_at_once_but_only_once(
    error: type[UnknownSubscriptionIdError | UnsupportedCompressionTypeError],
) -> None:
    asking = client()
    asking.request_subscription(0)
    asking.refused(error())
    asking.request_subscription(1)
    with pytest.raises(ThrottlingQuotaExceededError):
        asking.request_subscription(2)


def test_other_refusals_do_not_shorten_the_wait() -> None:
    asking = client()
    asking.request_subscription(0)
    asking.refused(TelemetryTooLargeError())
    with pytest.raises(ThrottlingQuotaExceededError):
        asking.request_subscription(1)


def test_after_its_last_push_a_client_pushes_no_more() -> None:
    ending = client()
    ending.push(ending.subscription_id, True, 0)
    with pytest.raises(InvalidRequestError):
        ending.push(ending.subscription_id, False, 5000)


def test_a_client_is_known_to_one_node_as_long_as_its_connection_is_open() -> None:
    telemetry, peer = ClusterTelemetry(), ClientConnection()
    known = telemetry.client(1, INSTANCE, peer)
    assert telemetry.client(1, INSTANCE, ClientConnection()) is known
    assert telemetry.client(2, INSTANCE, peer) is not known
    peer.is_closed = True
    assert telemetry.client(1, INSTANCE, ClientConnection()) is not known


def test_a_changed_subscription_makes_every_client_a_new_one() -> None:
    telemetry, peer = ClusterTelemetry(), ClientConnection()
    known = telemetry.client(1, INSTANCE, peer)
    telemetry.subscribe("*")
    assert telemetry.client(1, INSTANCE, peer) is not known


def test_the_client_that_was_silent_for_longest_is_forgotten_first() -> None:
    telemetry, peer = ClusterTelemetry(), ClientConnection()
    ids = [Uuid(number.to_bytes(16)) for number in range(MOST_CLIENTS_KNOWN)]
    telemetry._clients = {(1, each): TelemetryClient(each, peer, telemetry.subscription) for each in ids}
    heard_of = telemetry.client(1, ids[0], peer)
    forgotten = telemetry._clients[1, ids[1]]
    telemetry.client(1, INSTANCE, peer)
    assert telemetry.client(1, ids[0], peer) is heard_of
    assert telemetry.client(1, ids[1], peer) is not forgotten
    assert len(telemetry._clients) == MOST_CLIENTS_KNOWN


def test_the_latest_pushes_are_kept() -> None:
    telemetry = ClusterTelemetry()
    for number in range(MOST_PUSHES_KEPT + 1):
        telemetry.keep(Push(number, INSTANCE, None, False, b""))
    assert len(telemetry.pushes) == MOST_PUSHES_KEPT
    assert telemetry.pushes[-1].node == MOST_PUSHES_KEPT


def test_a_new_instance_id_is_a_random_uuid_and_never_a_reserved_one() -> None:
    instance = new_instance_id(Random(7))
    assert (instance[6] >> 4, instance[8] >> 6) == (4, 2)
    assert instance == new_instance_id(Random(7))
    check_instance_id(instance)
