"""`df.write`, whose program is killed and run again: each run has written all of its rows, or none.

There is no checkpoint that would know of the first run, so the second writes everything again. What the first had
decided is finished by the second, which finds it under the name that it leases.
"""

from __future__ import annotations

import uuid

import pytest

from tests.interop.crashes.runs import Runs
from tests.interop.crashes.scenarios import BATCH_WRITES

pytestmark = pytest.mark.crash_matrix
_UNDECIDED = ("batch-write-3-prepared", "batch-write-4-checked")


@pytest.mark.parametrize("runs", BATCH_WRITES, indirect=True, ids=lambda each: each.name)
def test_a_batch_write_that_was_killed_is_written_as_a_whole_or_not_at_all(runs: Runs) -> None:
    (kill,) = runs.scenario.kills
    pool = f"pool-{uuid.uuid4().hex[:8]}"
    leased = f"ottla.sink.id={pool}"
    assert not runs.until_carried_out(kill, leased)
    runs.until_done(leased)
    times = 1 if runs.scenario.name in _UNDECIDED else 2
    # What was not decided holds readers back until its timeout.
    runs.wait_until_nothing_is_open(pool)
    assert runs.written == sorted(runs.scenario.output * times)
