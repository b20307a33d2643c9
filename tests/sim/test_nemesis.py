"""A cluster under the nemesis: whatever happens to it, every rule holds, and it is well again afterwards.

`make nemesis` runs many more seeds than `make test-sim` does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from ottla.sim.fault_kinds import KINDS, LASTING
from ottla.sim.nemesis import draw_plan
from ottla.sim.trial import FEWEST_RECORDS, TrialSettings, try_seed

SEEDS = int(os.environ.get("OTTLA_NEMESIS_SEEDS", "24"))
FEWEST_FAULTS = 5
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_rule_holds(seed: int) -> None:
    report = try_seed(seed)
    assert not report.violations, report
    assert report.acknowledged >= FEWEST_RECORDS
    assert report.read >= report.acknowledged
    assert sum(report.struck.values()) >= FEWEST_FAULTS, report
    assert report.seconds >= 60


def test_a_plan_has_enough_faults_and_one_that_outlasts_every_timeout() -> None:
    kinds = set()
    for seed in range(300):
        random = Random(seed)
        longest = TrialSettings.draw(random).longest
        plan = draw_plan(random, 60.0, longest)
        kinds |= {planned.kind for planned in plan}
        assert len(plan) > FEWEST_FAULTS
        assert any(planned.seconds > longest and planned.kind in LASTING for planned in plan)
        assert all(0 < planned.at < 60 for planned in plan)
        assert plan == sorted(plan)
    assert kinds == set(KINDS)


def test_timeouts_are_kafkas_in_some_trials_and_shorter_in_others() -> None:
    drawn = [TrialSettings.draw(Random(seed)) for seed in range(100)]
    assert {(each.session_timeout, each.replica_lag) for each in drawn} >= {(9000, 30_000), (3000, 2000)}


@pytest.mark.parametrize("seed", [3])
def test_a_seed_is_the_same_run_in_any_process(seed: int, tmp_path: Path) -> None:
    outputs, traces = [], []
    for hash_seed in ("1", "2"):
        trace = tmp_path / f"trace-{hash_seed}"
        done = subprocess.run(
            [sys.executable, "-m", "tests.sim", "--seed", str(seed), "--trace", str(trace)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.append(done.stdout)
        traces.append(trace.read_text())
    assert outputs[0] == outputs[1]
    assert "digest" in outputs[0]
    assert traces[0] == traces[1]
    assert "nemesis: everything heals" in traces[0]
    assert "ottla.broker.requests: " in traces[0]


def test_many_seeds_are_counted_and_a_kind_that_never_struck_is_a_failure() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim", "--seeds", "1", "--workers", "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "1 seeds in " in done.stdout
    assert all(kind in done.stdout for kind in KINDS)
    assert "never struck: " in done.stderr
    assert "failed" not in done.stderr
