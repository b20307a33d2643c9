"""The commands of the guide do what it says, typed into a shell in its order."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.dump.support import written_log
from tests.docs.test_examples import ROOT

_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def commands() -> list[str]:
    text = (ROOT / "docs/cli.md").read_text()
    lines = (line for block in _BLOCK.findall(text) for line in block.splitlines())
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """One in which `ottla` is the command of this checkout."""
    script = tmp_path / "ottla"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -W error -m ottla "$@"\n')
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def shell(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """The guide's own cluster, which the other commands find."""
    first = commands()[0]
    assert first.startswith("ottla broker ")
    with subprocess.Popen(shlex.split(first), env=environment, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            yield {**environment, "OTTLA_BOOTSTRAP": broker.stdout.readline().strip()}
        finally:
            broker.terminate()


def test_the_commands_of_the_guide_run_in_their_order(shell: dict[str, str], tmp_path: Path) -> None:
    """In a folder that has a log directory, which some of them look into."""
    written_log(tmp_path / "kafka-logs")
    written = {}
    for command in commands()[1:]:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            env=shell,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
        written[command] = done.stdout
    assert "topic: orders partition: 0 " in written["ottla broker dump kafka-logs"]
    assert "endTxnMarker: ABORT" in written["ottla broker dump kafka-logs/orders-0 --print-data-log"]
    (keyed,) = [lines for command, lines in written.items() if "--until end --format '%k" in command]
    assert sorted(keyed.splitlines()) == [
        ": one",
        ": three",
        ": two",
        "customer-1: five",
        "customer-1: four",
        "customer-2: six",
        'customer-3: {"total":7}',
    ]
