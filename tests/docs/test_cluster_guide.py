"""Every example of the guide to the cluster runs as it is written: tests under pytest, the others as programs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_examples import ROOT, blocks, run

BLOCKS = blocks("docs/cluster.md")
_TEST = re.compile(r"^ *def test_", re.MULTILINE)
TESTS = [block for block in BLOCKS if _TEST.search(block)]
PROGRAMS = [block for block in BLOCKS if not _TEST.search(block)]


def test_the_tests_of_the_guide_pass(tmp_path: Path) -> None:
    """A file for each, as a reader would paste it; what it does not import or define is missing."""
    for number, block in enumerate(TESTS):
        (tmp_path / f"test_{number}.py").write_text(block)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    count = sum(len(_TEST.findall(block)) for block in TESTS)
    assert count >= 5
    assert f"{count} passed" in done.stdout, done.stdout


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_the_programs_of_the_guide_run(number: int) -> None:
    run(PROGRAMS[number])


def test_the_guide_has_no_example_in_another_form() -> None:
    """An example that is not in a block of Python would not be run."""
    text = (ROOT / "docs/cluster.md").read_text()
    assert text.count("```") == 2 * len(BLOCKS)
    assert len(PROGRAMS) >= 2


def test_the_calls_of_the_guide_are_there() -> None:
    """Its tables name methods; each is one of a cluster, of its clock or of its faults."""
    from ottla.broker import Cluster

    text = (ROOT / "docs/cluster.md").read_text()
    rows = [cell for row in re.findall(r"^\| (`[^|]+`) \|", text, re.MULTILINE) for cell in row.split("`, `")]
    calls = [cell.strip("`").partition("(")[0] for cell in rows if "(" in cell]
    assert "seed" in calls
    cluster = Cluster()
    for call in calls:
        target: object = cluster
        for name in call.split("."):
            target = getattr(target, name)
        assert callable(target), call
