"""Damaged batches in each run of the suite; `make fuzz` takes many more."""

from __future__ import annotations

import pytest

from tests.native.record_fuzz import fuzz


@pytest.mark.parametrize("seed", range(4))
def test_damaged_batches_are_records_or_a_decode_error(seed: int) -> None:
    refused, accepted, appended = fuzz(5_000, seed)
    # Mutations that were all refused, or all harmless, would test nothing.
    assert refused > 500
    assert accepted > 500
    assert appended > 5
