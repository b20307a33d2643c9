"""For all tests: which target of the Makefile runs them, and what a busy machine is not to have a say in."""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tools.preflight import check_java

# Property tests have no deadline per example, and may take their time to make one.
settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")

# A shell has what it runs in the background ignore Ctrl-C: tests of it, and the programs they start, would hang.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_NEEDS_SPARK = frozenset({"spark", "java"})
"""Fixtures: whoever takes one of them starts a JVM."""
_SMOKE = "test_smoke.py"
"""The one file that starts Spark in `make test`."""
_SIMULATIONS = re.compile(r"chaos|churn|fault_rules|fuzz|growth|interleavings|nemesis|planted|soak")
"""Files whose tests try many seeds or schedules, or go on for long."""
_KAFKA_FOLDERS = frozenset({"interop", "bench"})
"""The folders in which `make test-kafka` looks."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sorts tests by target, from what they use and what their file is called, so that they may move freely."""
    for item in items:
        if _NEEDS_SPARK.intersection(getattr(item, "fixturenames", ())) and item.path.name != _SMOKE:
            item.add_marker("spark")
        if _SIMULATIONS.search(item.path.stem) or _has_seeds(item):
            item.add_marker("sim")
        if item.get_closest_marker("kafka") or item.get_closest_marker("kafka_full"):
            folder = item.path.relative_to(config.rootpath / "tests").parts[0]
            if folder not in _KAFKA_FOLDERS:
                raise pytest.UsageError(f"{item.nodeid}: make test-kafka does not look into tests/{folder}")


def _has_seeds(item: pytest.Item) -> bool:
    parameters = getattr(item, "callspec", None)
    return parameters is not None and "seed" in parameters.params


def pytest_collection_finish(session: pytest.Session) -> None:
    """Ten thousand collected tests are no garbage: a test that collects walks what came after them only."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def java() -> None:
    """For a test that starts Spark in a program of its own."""
    problem = check_java()
    if problem is not None:
        pytest.skip(problem)


_seconds: defaultdict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid.partition("::")[0]] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes what each file took behind what earlier runs took: see tools/slowest.py."""
    path = os.environ.get("OTTLA_TEST_SECONDS")
    if path and not hasattr(session.config, "workerinput"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.writelines(f"{seconds:.3f} {name}\n" for name, seconds in _seconds.items())


@pytest.fixture
def own_logging() -> Iterator[None]:
    """For tests that run a command, which sets up logging for its process: other tests of this one keep theirs."""
    logger = logging.getLogger("ottla")
    before = logger.handlers, logger.level, logger.propagate
    yield
    logger.handlers, level, logger.propagate = before
    # Not by the attribute: loggers remember what the level of their parents lets through.
    logger.setLevel(level)
