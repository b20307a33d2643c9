"""`ottla pipeline run`: runs the pipeline of a file until it ends, fails or is told to stop.

Spark writes where the command does, and would write into what is on the screen: its standard error goes to a file
unless --debug asks for everything.

Invariant: the exit code is 0 when the pipeline has ended or was stopped, 1 when it has failed, 2 for a mistake in the
file or the command.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ottla.cli.options import Bootstrap, Debug, Json
from ottla.cli.pipeline.check import Checkpoint, Conf, File, load, reach_brokers

if TYPE_CHECKING:
    from ottla.cli.pipeline.view import View
    from ottla.spark.pipeline.model import Pipeline
    from ottla.spark.pipeline.running import RunningPipeline

_LOOK_EVERY_S: Final = 0.2
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run(
    file: File,
    master: Annotated[
        str | None,
        typer.Option(
            "--master", metavar="URL", help="Spark's master.  [default: the file's, else local[*,4]]"
        ),
    ] = None,
    remote: Annotated[
        str | None, typer.Option("--remote", metavar="URL", help="A server of Spark Connect: sc://host:port.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when all is done that is there now, whatever the file says.")
    ] = False,
    checkpoint: Checkpoint = None,
    bootstrap: Bootstrap = None,
    conf: Conf = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a pipeline until it ends, or until Ctrl-C: the micro-batch in flight is finished, a second Ctrl-C stops it.

    \b
    Examples:
      ottla pipeline run revenue.toml
      ottla pipeline run revenue.toml --once --json
      ottla pipeline run revenue.toml --master spark://cluster:7077
    """
    from ottla.cli.pipeline.view import opened

    if master is not None and remote is not None:
        raise typer.BadParameter("give one of --master and --remote")
    if "" in (master, remote):
        raise typer.BadParameter(
            "the URL of --master or --remote is empty; write it, or leave the option out"
        )
    pipeline = load(file, bootstrap=bootstrap, checkpoint=checkpoint, conf=conf, once=once)
    _set_up_logging(debug)
    if remote is None:  # else the server reaches them, from wherever it is
        reach_brokers(pipeline)
    with _spark_log(debug) as log, opened(pipeline, as_json=json, log=log) as view, _warnings(view, debug):
        _run(pipeline, view, master, remote)


def _run(pipeline: Pipeline, view: View, master: str | None, remote: str | None) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from ottla.errors import KafkaError
    from ottla.spark.options.parsing import OptionError
    from ottla.spark.pipeline.failures import reason
    from ottla.spark.pipeline.running import start

    view.starting()
    try:
        with _sigterm_as_ctrl_c():
            running = start(pipeline, master=master, remote=remote)
    except KeyboardInterrupt:
        view.ended(stopped=True)
        return
    except OptionError as error:
        view.failed(str(error))
        raise typer.Exit(2) from error
    # PySpark leaves errors of the JVM as they are that it has no class for, as that of a master with a bad URL.
    except (PySparkException, Py4JError) as error:
        view.failed(reason(error))
        raise typer.Exit(2) from error
    except KafkaError as error:
        view.failed(str(error))
        raise typer.Exit(1) from error
    with running, _Signals() as signals:
        try:
            _watch(running, view, signals)
        except KafkaError as error:
            view.show(running.progress(), running.states, stopping=signals.count > 0)
            view.failed(str(error))
            raise typer.Exit(1) from error
    view.ended(stopped=signals.count > 0)


def _watch(running: RunningPipeline, view: View, signals: _Signals) -> None:
    has_ended = False
    while not has_ended:
        if signals.count == 1:
            running.finish()
        elif signals.count > 1:
            running.stop(0)
        has_ended = running.wait(_LOOK_EVERY_S)
        view.show(running.progress(), running.states, stopping=signals.count > 0)


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """While queries are started: those that run by then are stopped, and what they have open is ended."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Signals:
    """Ctrl-C and SIGTERM, counted instead of obeyed."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> _Signals:
        self._before = {each: signal.signal(each, self._on_signal) for each in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _on_signal(self, number: int, frame: object) -> None:
        self.count += 1


class _Warnings(logging.Handler):
    def __init__(self, view: View) -> None:
        super().__init__(logging.WARNING)
        self._view = view

    def emit(self, record: logging.LogRecord) -> None:
        self._view.warned(record.getMessage())


@contextmanager
def _warnings(view: View, debug: bool) -> Iterator[None]:
    """Shows what the pipeline itself has to say to the user; with --debug, it is in the log."""
    if debug:
        yield
        return
    handler = _Warnings(view)
    logger = logging.getLogger("ottla.spark.pipeline")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


def _set_up_logging(debug: bool) -> None:
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.CRITICAL,
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
    )
    # Every call to the JVM would be in it.
    logging.getLogger("py4j").setLevel(logging.INFO if debug else logging.CRITICAL)
    from pyspark.logger import PySparkLogger

    # With handlers of their own, by which an error and its stack in the JVM become one line of JSON.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = not debug


@contextmanager
def _spark_log(debug: bool) -> Iterator[Path | None]:
    """Where Spark's processes write: this process's standard error is theirs too, from when they start."""
    if debug:
        yield None
        return
    sys.stderr.flush()
    descriptor, name = tempfile.mkstemp(prefix="ottla-pipeline-", suffix=".log")
    own = os.dup(2)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    before = sys.stderr
    # Something else may stand in for it, which then stays what this command writes to.
    if before is sys.__stderr__:
        sys.stderr = os.fdopen(os.dup(own), "w", buffering=1)
    try:
        yield Path(name)
        # What has ended well leaves nothing behind.
        Path(name).unlink()
    finally:
        if sys.stderr is not before:
            sys.stderr.close()
            sys.stderr = before
        os.dup2(own, 2)
        os.close(own)
