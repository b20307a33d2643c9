"""Some hundred connections full of damage in each run of the suite; `make fuzz` takes many more."""

from __future__ import annotations

import pytest

from tests.broker.connection_fuzz import fuzz


@pytest.mark.parametrize("seed", range(3))
def test_damaged_connections_harm_no_other(seed: int) -> None:
    assert fuzz(120, seed) > 10_000
