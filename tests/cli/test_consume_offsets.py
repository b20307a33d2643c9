"""`--from` and `--until`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ottla.cli.consume import OffsetArgument, OffsetArgumentError, parse_start, parse_stop

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("end", "latest"),
        ("0", 0),
        ("42", 42),
        ("@1777636800000", NOW),
        ("2026-05-01T12:00:00Z", NOW),
        ("2026-05-01T14:00+02:00", NOW),
        ("-30m", NOW - timedelta(minutes=30)),
        ("-2d", NOW - timedelta(days=2)),
    ],
)
def test_a_start_is_a_name_an_offset_or_a_time(text: str, expected: OffsetArgument) -> None:
    assert parse_start(text, NOW) == expected


def test_a_time_without_a_zone_is_the_time_on_the_wall() -> None:
    assert parse_start("2026-05-01 12:00", NOW) == datetime(2026, 5, 1, 12).astimezone()


def test_the_end_of_a_stop_is_the_end_as_of_now() -> None:
    assert parse_stop("end", NOW) == "latest"
    assert parse_stop("42", NOW) == 42


@pytest.mark.parametrize(
    "text", ["", "yesterday", "-5", "@x", "-1y", "2026-13-01", f"@{10**30}", f"-{10**12}d"]
)
def test_text_that_is_neither_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(
        OffsetArgumentError, match=r"--from .*: expected earliest, latest, an offset such as 42"
    ):
        parse_start(text, NOW)
    with pytest.raises(OffsetArgumentError, match=r"--until .*: expected end, an offset"):
        parse_stop(text, NOW)


def test_reading_cannot_end_before_the_beginning() -> None:
    with pytest.raises(OffsetArgumentError, match="--until earliest"):
        parse_stop("earliest", NOW)
