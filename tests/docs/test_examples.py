"""The examples of the documents run as they stand."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker import Cluster
from tests.interop import nodes

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
        assert [record.value for record in cluster.dump("fruit")] == [b"2 apples"]


def test_the_pipeline_of_the_readme_does_what_it_says(java: None, tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    (pipeline,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (console,) = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    with Cluster(topics={"orders": 3}) as cluster:
        (tmp_path / "revenue.toml").write_text(pipeline.replace("localhost:9092", cluster.bootstrap))
        said = ""
        for line in console.splitlines():
            _, _, *arguments = shlex.split(line)
            done = subprocess.run(
                [sys.executable, "-m", "ottla", *arguments],
                cwd=tmp_path,
                env={**os.environ, "OTTLA_BOOTSTRAP": cluster.bootstrap},
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, (line, done.stderr)
            nodes.wait_until_marked(cluster.bootstrap)
            said = done.stdout
        assert said == '{"country":"Kenya","orders":1,"cents":450}\n'


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
