"""The rules of telemetry: what is asked and pushed when, and which refusals end it."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.telemetry.subscription import DEFAULT_INTERVAL, TelemetryState
from ottla.errors import (
    InvalidRecordError,
    InvalidRequestError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
)
from ottla.wire import ZERO_UUID, Uuid
from ottla.wire.compression import Compression
from ottla.wire.messages import GetTelemetrySubscriptionsResponse

ID = Uuid(bytes(range(16)))


def answer(**changes: Any) -> GetTelemetrySubscriptionsResponse:
    fields: dict[str, Any] = {
        "client_instance_id": ID,
        "subscription_id": 7,
        "accepted_compression_types": [4, 3, 1, 2],
        "push_interval_ms": 10_000,
        "telemetry_max_bytes": 1000,
        "delta_temporality": True,
        "requested_metrics": ["*"],
    }
    return GetTelemetrySubscriptionsResponse(**{**fields, **changes})


def subscribed(**changes: Any) -> TelemetryState:
    state = TelemetryState()
    state.begin(100.0)
    state.subscribed(answer(**changes), 100.0, chance=0.5)
    return state


def test_nothing_happens_before_it_begins_and_then_a_broker_is_asked_at_once() -> None:
    assert TelemetryState().due is None
    state = TelemetryState()
    state.begin(100.0)
    assert (state.due, state.next_push, state.instance_id) == (100.0, None, ZERO_UUID)


@pytest.mark.parametrize(("chance", "due"), [(0.0, 105.0), (0.5, 110.0), (1.0, 115.0)])
def test_the_first_push_comes_after_half_to_one_and_a_half_intervals(chance: float, due: float) -> None:
    state = TelemetryState()
    state.subscribed(answer(), 100.0, chance)
    assert state.due == due
    assert state.next_push is not None
    assert state.instance_id == ID


def test_later_pushes_come_every_interval() -> None:
    state = subscribed()
    state.pushed(0, 111.0)
    assert state.due == 121.0
    assert state.next_push is not None


def test_where_nothing_is_wanted_the_broker_is_asked_again_after_the_interval() -> None:
    state = subscribed(requested_metrics=[])
    assert (state.due, state.next_push) == (110.0, None)


def test_an_interval_that_makes_no_sense_is_five_minutes() -> None:
    state = subscribed(push_interval_ms=0)
    assert state.due == 100.0 + DEFAULT_INTERVAL


@pytest.mark.parametrize("error", [UnknownSubscriptionIdError, UnsupportedCompressionTypeError])
def test_a_subscription_that_is_out_of_date_is_asked_for_anew_at_once(error: type[Any]) -> None:
    state = subscribed()
    state.pushed(error.code, 111.0)
    assert (state.due, state.next_push) == (111.0, None)
    state.subscribed(answer(subscription_id=8), 111.0, 0.5)
    assert state.due == 121.0
    assert state.next_push is not None
    assert state.next_push.id == 8


@pytest.mark.parametrize("error", [TelemetryTooLargeError, ThrottlingQuotaExceededError])
def test_a_broker_that_cannot_take_more_is_asked_again_after_the_interval(error: type[Any]) -> None:
    state = subscribed()
    state.pushed(error.code, 111.0)
    assert (state.due, state.next_push) == (121.0, None)


@pytest.mark.parametrize("error", [InvalidRequestError, InvalidRecordError, UnsupportedVersionError])
def test_a_broker_that_cannot_read_what_is_pushed_is_left_alone(error: type[Any]) -> None:
    state = subscribed()
    refusal = state.pushed(error.code, 111.0)
    assert isinstance(refusal, error)
    assert state.due is None


def test_a_question_that_is_refused_as_too_early_is_asked_again_after_five_minutes() -> None:
    state = TelemetryState()
    state.begin(100.0)
    state.subscribed(answer(error_code=ThrottlingQuotaExceededError.code), 100.0, 0.5)
    assert state.due == 100.0 + DEFAULT_INTERVAL


def test_after_a_lost_connection_the_subscription_is_asked_for_anew() -> None:
    state = subscribed()
    state.failed(111.0)
    assert (state.due, state.next_push) == (121.0, None)
    assert state.instance_id == ID


def test_the_codec_that_a_broker_prefers_is_taken_and_never_again_once_it_was_refused() -> None:
    state = subscribed(accepted_compression_types=[9, 4, 3])
    assert state.codec == Compression.ZSTD
    for expected in (Compression.LZ4, Compression.NONE):
        state.pushed(UnsupportedCompressionTypeError.code, 111.0)
        state.subscribed(answer(accepted_compression_types=[9, 4, 3]), 111.0, 0.5)
        assert state.codec == expected


def test_metrics_are_wanted_by_the_beginning_of_their_names() -> None:
    wanted = subscribed(requested_metrics=["org.apache.kafka.producer.", "ottla.con"]).next_push
    assert wanted is not None
    assert wanted.includes("org.apache.kafka.producer.record.send.total")
    assert wanted.includes("ottla.connection.open")
    assert not wanted.includes("org.apache.kafka.consumer.connection.creation.total")
    everything = subscribed(requested_metrics=["*"]).next_push
    assert everything is not None
    assert everything.includes("anything")
