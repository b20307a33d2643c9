"""The steps of examples/README.md, typed into a shell in their order, write what it shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker import Cluster
from tests.docs.test_examples import ROOT
from tests.interop import nodes, supervise
from tests.interop.pipelines.runs import SHORT_LIVED
from tests.spark.deployment.processes import environment

_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def steps() -> Iterator[tuple[str, list[str]]]:
    """Commands, and what each is said to write."""
    for block in _BLOCK.findall((ROOT / "examples/README.md").read_text()):
        for step in block.removeprefix("$ ").split("\n$ "):
            command, *lines = step.splitlines()
            yield command, lines


@pytest.fixture
def shell(kafka: Cluster, tmp_path: Path) -> dict[str, str]:
    """One in which `ottla` is the command of this checkout and finds the cluster, in a folder with the examples."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("checkpoint"))
    script = tmp_path / "ottla"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ottla "$@"\n')
    script.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    return environment(PATH=path, KAFKA=kafka.bootstrap, OTTLA_BOOTSTRAP=kafka.bootstrap, **SHORT_LIVED)


def test_the_steps_of_the_examples_write_what_is_shown(
    kafka: Cluster, shell: dict[str, str], java: None, tmp_path: Path
) -> None:
    broker, *following = steps()
    assert broker == ("ottla broker --port 9092", [])
    shown = 0
    for command, lines in following:
        in_folder = f"cd {shlex.quote(str(tmp_path))} && {command}"
        done = supervise.run(["sh", "-c", in_folder], text="", within=300, env=shell)
        assert done.returncode == 0, (command, done.stderr[-5000:])
        nodes.wait_until_marked(kafka.bootstrap)
        if lines:
            # Of two partitions either may be read first.
            assert sorted(done.stdout.splitlines()) == sorted(lines), command
            shown += 1
    assert shown == 3
