"""The examples of the documents run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker import Cluster

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def blocks(document: str) -> list[str]:
    return _BLOCK.findall((ROOT / document).read_text())


def run(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_first_example_of_the_readme_does_what_it_says() -> None:
    example = blocks("README.md")[0]
    assert "localhost:9092" in example
    with Cluster() as cluster:
        run(example.replace("localhost:9092", cluster.bootstrap))
        assert [record.value for record in cluster.dump("orders")] == [b"2 apples"]


def test_the_readmes_example_of_the_cluster_does_what_it_says() -> None:
    (example,) = [block for block in blocks("README.md") if "ottla.broker" in block]
    run(example)


def test_the_fixture_is_used_as_the_readme_shows(tmp_path: Path) -> None:
    (example,) = [block for block in blocks("README.md") if "def test_orders(kafka)" in block]
    (tmp_path / "test_readme.py").write_text(example)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "examples/README.md",
        *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
    ],
)
def test_links_lead_somewhere(document: str) -> None:
    folder = (ROOT / document).parent
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / document).read_text())
    missing = [link for link in links if not link.startswith("http") and not (folder / link).exists()]
    assert missing == []
