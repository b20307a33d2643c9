"""`ottla pipeline run` as a process of its own: what it prints, how it is stopped, what it returns."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ottla.broker import Cluster
from ottla.spark.pipeline.model import Pipeline
from ottla.spark.pipeline.options import sink_options
from ottla.spark.pipeline.running import RunningPipeline
from ottla.spark.pipeline.runs import StreamRun
from tests.cli.conftest import Ottla
from tests.cli.shell import COMMAND
from tests.interop.nodes import wait_until_marked

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
    wait_until_marked(cluster.bootstrap)
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
        (["copying.toml", "--master", ""], "URL of --master or --remote is empty"),
        (["copying.toml", "--checkpoint", ""], "checkpoint, as given in place of the file's: it is empty"),
    ],
)
def test_a_mistake_in_the_command_is_named(
    ottla: Ottla, file: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(file.parent)
    assert said in ottla("pipeline", "run", *arguments, code=2).stderr


def test_a_java_that_is_missing_is_said_in_the_view_too(
    ottla: Ottla, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(file.parent))
    result = ottla("pipeline", "run", str(file), "--json", code=1)
    assert [json.loads(line)["event"] for line in result.stdout.splitlines()] == ["starting", "failed"]
    [line] = result.stderr.splitlines()
    assert line.startswith("ottla: Spark needs Java")


def test_an_error_of_the_jvm_that_pyspark_has_no_class_for_is_one_line(
    ottla: Ottla, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: object, **__: object) -> RunningPipeline:
        raise Py4JError(
            "An error occurred while calling o1.start.\n: java.io.IOException: mkdir failed\n\tat a.B(C)"
        )

    monkeypatch.setattr("ottla.spark.pipeline.running.start", start)
    result = ottla("pipeline", "run", str(file), code=2)
    assert result.stderr.splitlines()[0] == "ottla: IOException: mkdir failed"


def test_sigterm_while_the_queries_are_started_stops_them(
    ottla: Ottla, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = []

    def start(*_: object, **__: object) -> RunningPipeline:
        try:
            signal.raise_signal(signal.SIGTERM)
        except BaseException as error:
            stopped.append(type(error))
            raise
        raise AssertionError("the signal was passed over")

    # Where the command leaves it as it is, it would end the tests.
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    monkeypatch.setattr("ottla.spark.pipeline.running.start", start)
    try:
        result = ottla("pipeline", "run", str(file))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert stopped == [KeyboardInterrupt]
    assert result.stdout.splitlines()[1].startswith("copying: stopped: copies: 0 micro-batches")


def test_what_cannot_be_ended_of_a_failed_query_is_said_with_the_command_that_does_it(
    ottla: Ottla, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers are gone by the time that the query fails."""

    def fails(seconds: float) -> bool:
        raise PySparkException("no space left")

    def start(pipeline: Pipeline, **_: object) -> RunningPipeline:
        options = {**sink_options(pipeline, "copies"), "kafka.bootstrap.servers": "127.0.0.1:1"}
        query = SimpleNamespace(awaitTermination=fails, lastProgress=None)
        return RunningPipeline(pipeline, [StreamRun("copies", query, options, None)], None)

    monkeypatch.setattr("ottla.spark.pipeline.running.start", start)
    monkeypatch.setattr("ottla.spark.pipeline.runs._API_TIMEOUT_MS", "300")
    # As the command has it, where no test has set up logging before.
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.CRITICAL)
    try:
        result = ottla("pipeline", "run", str(file), code=1)
    finally:
        root.setLevel(before)
    warning, failure, _ = result.stderr.splitlines()
    assert warning.startswith("ottla: what the interrupted micro-batch of sink copies has left open stays so")
    assert "`ottla pipeline recover --sink copying-copies --finish`" in warning
    assert failure == "ottla: sink copies: no space left"
