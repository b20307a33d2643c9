"""A minute of the soak, and what it would find: numbers that are lost or doubled, and what grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.soak.run import soak
from tests.spark.soak.watch import IDS_A_STAGE, LARGEST_MB, Sample, SoakError, check, compare


@pytest.mark.crash_matrix
def test_two_queries_in_a_row_are_exact_while_everything_fails(java: None, tmp_path: Path) -> None:
    done = soak(80, tmp_path, seed=1, fault_every=10, report=print)
    assert done.fed > 0
    assert sum(done.faults.values()) >= 3


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([0, 1, 3], r"1 of 4 numbers are lost \(such as \[2\]\)"),
        ([0, 1, 2, 3, 3], "1 are there more than once"),
        ([0, 1, 2, 3, 4], "1 were never written"),
    ],
)
def test_numbers_that_are_not_as_they_were_fed_are_told(found: list[int], said: str) -> None:
    compare("c", 4, [3, 2, 1, 0])
    with pytest.raises(SoakError, match=said):
        compare("c", 4, found)


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (Sample(worker_mb=LARGEST_MB + 1), "a Python process has"),
        (Sample(driver_mb=LARGEST_MB + 1), "a Python process has"),
        (Sample(ids=2 * IDS_A_STAGE + 1, open=0), "transactional ids"),
        (Sample(ids=2, open=2 * IDS_A_STAGE + 1), "open transactions"),
    ],
)
def test_what_grows_beyond_its_bound_is_told(sample: Sample, said: str) -> None:
    check(Sample(worker_mb=LARGEST_MB, ids=2 * IDS_A_STAGE, open=2 * IDS_A_STAGE), 2)
    check(Sample(), 2)
    with pytest.raises(SoakError, match=said):
        check(sample, 2)
