"""A cluster that is killed loses nothing that it has acknowledged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.kills import RECORDS_BETWEEN_KILLS, run

KILLS = 5


@pytest.mark.parametrize("brokers", [1, 3])
def test_what_was_acknowledged_outlives_kills(brokers: int, tmp_path: Path) -> None:
    assert run(KILLS, tmp_path, brokers) >= KILLS * RECORDS_BETWEEN_KILLS
