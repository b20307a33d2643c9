"""What may be written for `start` and `stop`."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from ottla.client.consume.offset_spec import (
    EARLIEST,
    LATEST,
    OffsetSpec,
    Timestamp,
    reset_spec,
    start_spec,
    stop_spec,
)
from ottla.config import ClientConfig
from ottla.errors import ConfigurationError

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("start", "place"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        (7, OffsetSpec(offset=7)),
        (Timestamp(5), OffsetSpec(timestamp=5)),
        (datetime.fromtimestamp(1.5, UTC), OffsetSpec(timestamp=1500)),
        ("by_duration:PT1H", OffsetSpec(timestamp=NOW - 3_600_000)),
    ],
)
def test_a_start_is_an_end_an_offset_or_a_time(start: Any, place: OffsetSpec) -> None:
    assert start_spec(start, NOW) == place


@pytest.mark.parametrize("start", ["none", "soon", -1, True, 1.5, None])
def test_other_starts_are_refused_with_what_to_write(start: Any) -> None:
    with pytest.raises(ConfigurationError, match="'earliest'"):
        start_spec(start, NOW)


def test_a_stop_is_the_end_an_offset_or_a_time() -> None:
    assert stop_spec("latest") == LATEST
    assert stop_spec(9) == OffsetSpec(offset=9)
    with pytest.raises(ConfigurationError, match="as of the start"):
        stop_spec("earliest")


@pytest.mark.parametrize(("policy", "place"), [("earliest", EARLIEST), ("latest", LATEST), ("none", None)])
def test_the_reset_policy_is_a_place_or_none(policy: str, place: OffsetSpec | None) -> None:
    assert reset_spec(ClientConfig(bootstrap_servers="a:1", auto_offset_reset=policy), NOW) == place


@pytest.mark.parametrize("ms", [-1, 2**63, math.inf, math.nan, 1.5, "5"])
def test_what_is_no_timestamp_is_refused(ms: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="1970"):
        Timestamp(ms)


def test_a_place_reads_as_what_it_is() -> None:
    assert [str(place) for place in (EARLIEST, LATEST, OffsetSpec(offset=3), OffsetSpec(timestamp=9))] == [
        "the beginning",
        "the end",
        "offset 3",
        "timestamp 9",
    ]
