"""`ottla pipeline run` as a process of its own: what it prints, how it is stopped, what it returns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.broker import Cluster
from tests.cli.conftest import Ottla
from tests.cli.shell import COMMAND

WITHIN_S = 300.0
"""Seconds that Spark may take; only a failure takes that long."""
FILE = """\
name = "copying"
checkpoint = "checkpoints"

[kafka]
bootstrap.servers = "${BROKERS}"

[sources.orders]
topic = "orders"
format = "json"
schema = "id bigint, name string"
malformed = "fail"

[transform]
sql = "SELECT upper(name) AS name FROM orders"

[sinks.copies]
topic = "copies"
"""


@pytest.fixture
def file(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cluster.create_topic("copies", 1)
    monkeypatch.setenv("BROKERS", cluster.bootstrap)
    path = tmp_path / "copying.toml"
    path.write_text(FILE)
    return path


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    # Without -W error, which the Pythons that Spark starts would have too.
    command = [sys.executable, "-m", *COMMAND[COMMAND.index("-m") + 1 :], "pipeline", "run", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def until(process: subprocess.Popen[str], text: str) -> list[str]:
    """The lines up to one that has this text in it."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip())
        if text in line:
            return lines
    raise AssertionError((lines, process.stderr and process.stderr.read()))


@pytest.mark.usefixtures("java")
def test_a_pipeline_runs_until_it_is_told_to_stop_and_goes_on_from_there(
    cluster: Cluster, file: Path, ottla: Ottla
) -> None:
    cluster.seed("orders", [b'{"name": "a"}'])
    with running(str(file), "--conf", "spark.driver.memory=1g") as process:
        lines = until(process, "copying: copies: batch 0:")
        assert lines[:2] == ["copying: starting Spark", "copying: started: copies"]
        assert ": 1 row in, 1 out, " in lines[-1]
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, errors) == (0, "")
    assert output.splitlines()[0].startswith("copying: stopping")
    assert output.splitlines()[-1] == "copying: stopped: copies: 1 micro-batch, 1 row in, 1 out"
    assert [record.value for record in cluster.dump("copies")] == [b'{"name":"A"}']
    status = json.loads(ottla("pipeline", "status", str(file), "--json").stdout)
    [sink] = status["sinks"]
    assert (sink["batch"], sink["begun"], sink["lag"], sink["writing"]) == (0, None, 0, False)

    cluster.seed("orders", [b'{"name": "b"}', b"nonsense"])
    with running(str(file), "--once", "--json") as process:
        output, errors = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 1
    events = [json.loads(line) for line in output.splitlines()]
    assert [event["event"] for event in events] == ["starting", "started", "failed"]
    [line] = errors.splitlines()
    assert line.startswith("ottla: sink copies: the value at offset 2 of orders-0 is malformed")


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize("command", ["run", "status"])
def test_brokers_that_cannot_be_reached_are_said_before_spark_starts(
    command: str, file: Path, ottla: Ottla, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.cli.options._REACH_SECONDS", 1.0)
    result = ottla("pipeline", command, str(file), "-b", "127.0.0.1:1", code=1)
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("ottla: ")
    assert "no broker could be reached" in line
    assert "127.0.0.1:1" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.toml"], "nowhere.toml: it cannot be read"),
        (["copying.toml", "--master", "local", "--remote", "sc://here"], "one of --master and --remote"),
    ],
)
def test_a_mistake_in_the_command_is_named(
    ottla: Ottla, file: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(file.parent)
    assert said in ottla("pipeline", "run", *arguments, code=2).stderr
