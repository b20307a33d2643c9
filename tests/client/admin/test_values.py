"""What callers write, as Kafka wants it."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ottla.client.admin.values import moment_ms
from ottla.client.consume.offset_spec import Timestamp

NOW = 1_800_000_000_000


def test_a_moment_is_a_name_or_a_time_as_consume_takes_it() -> None:
    assert moment_ms("latest", NOW) == -1
    assert moment_ms("by_duration:PT1S", NOW) == NOW - 1000
    assert moment_ms(Timestamp(2**63 - 1), NOW) == 2**63 - 1
    assert moment_ms(datetime.fromtimestamp(1_700_000_000, UTC), NOW) == 1_700_000_000_000


def test_a_datetime_keeps_its_milliseconds() -> None:
    for number in range(1000):
        moment = datetime.fromtimestamp(1_700_000_000, UTC) + timedelta(milliseconds=number)
        assert moment_ms(moment, NOW) == 1_700_000_000_000 + number


# Negative ones have a meaning of their own: a millisecond before 1970 would be "latest".
@pytest.mark.parametrize(
    "at",
    [-1, 0, 2**63, math.inf, math.nan, 1.5, True, None, "newest", datetime(1969, 12, 31, 23, tzinfo=UTC)],
)
def test_what_is_no_moment_is_refused(at: Any) -> None:
    with pytest.raises(ValueError, match="Timestamp"):
        moment_ms(at, NOW)
