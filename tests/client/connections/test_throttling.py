"""Which responses ask the client to pause."""

from __future__ import annotations

import pytest

from ottla.client.connections.connection import throttle_seconds
from ottla.wire.messages import ElectLeadersResponse, MetadataResponse, ProduceResponse, SaslHandshakeResponse


@pytest.mark.parametrize(("version", "pause"), [(5, 0.0), (6, 1.5), (13, 1.5)])
def test_only_versions_that_are_answered_before_the_pause_ask_for_one(version: int, pause: float) -> None:
    assert throttle_seconds(ProduceResponse(throttle_time_ms=1500), version) == pause
    assert throttle_seconds(MetadataResponse(throttle_time_ms=1500), version) == pause


def test_younger_apis_ask_in_every_version() -> None:
    assert throttle_seconds(ElectLeadersResponse(throttle_time_ms=20), 0) == 0.02


def test_most_responses_ask_for_none() -> None:
    assert throttle_seconds(ProduceResponse(), 13) == 0.0
    assert throttle_seconds(SaslHandshakeResponse(), 1) == 0.0
