"""What callers write, as Kafka wants it."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ottla.client.admin.values import moment_ms


def test_a_moment_is_a_name_a_number_or_a_datetime() -> None:
    assert moment_ms("latest") == -1
    assert moment_ms(0) == 0
    assert moment_ms(2**63 - 1) == 2**63 - 1
    assert moment_ms(datetime.fromtimestamp(1_700_000_000, UTC)) == 1_700_000_000_000


def test_a_datetime_keeps_its_milliseconds() -> None:
    for number in range(1000):
        moment = datetime.fromtimestamp(1_700_000_000, UTC) + timedelta(milliseconds=number)
        assert moment_ms(moment) == 1_700_000_000_000 + number


# Negative ones have a meaning of their own: a millisecond before 1970 would be "latest".
@pytest.mark.parametrize(
    "at", [-1, 2**63, math.inf, -math.inf, math.nan, 1.5, True, None, datetime(1969, 12, 31, 23, tzinfo=UTC)]
)
def test_what_is_no_moment_is_refused(at: Any) -> None:
    with pytest.raises(ValueError, match="milliseconds since 1970"):
        moment_ms(at)
