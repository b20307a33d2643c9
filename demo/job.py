"""The process of Spark: both pipelines in one session, until it is told that nothing is to come.

    {"event": "waiting", "what": "..."}, {"event": "reached", "what": "..."}   why nothing flows, how far it is
    {"event": "ready"}                                                         each has run a micro-batch
    {"event": "batch", "sink": "enriched", "read": 1480, "written": 1477, "dead": 3, "ms": 912}
    {"event": "tasks", "done": 212, "failed": 1, "active": 2}                  whenever that has changed
    {"event": "worker killed", ...}, {"event": "task retried", ...}            what came of the command `kill worker`

The first command is `start BOOTSTRAP`: Java starts before there are brokers.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from demo.children import commands, say
from demo.orders import PIPELINES
from demo.spark_tasks import TaskTable
from demo.worker_kill import NoVictimError, kill_in_task, wait_for_success
from ottla.spark.pipeline.failures import PipelineFailedError
from ottla.spark.pipeline.model import Pipeline
from ottla.spark.pipeline.running import RunningPipeline

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
    # A local disk needs no renames through Hadoop's FileContext: a tenth of a second less for each micro-batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
# It lives for a minute: what the second compiler would make faster never pays for it.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_MASTER = "local[2,4]"
"""Two tasks at a time, each tried up to four times: by itself, local mode gives up after the first."""
_LOOK_S = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m demo.job", description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="of all that Spark writes")
    folder = parser.parse_args().folder
    say("waiting", what="Java to start")
    spark = _session(folder / "temporary")
    say("reached", what="Spark's Java process runs")
    told = commands()
    _, bootstrap = next(told)
    say("waiting", what="its two queries to be planned")
    running = [_start(spark, path, bootstrap, folder / "checkpoints") for path in PIPELINES]
    say("reached", what="both queries have been planned")
    say("waiting", what="Python workers and first micro-batches")
    try:
        _run(TaskTable(spark), running, told)
    except PipelineFailedError as error:
        say("failed", why=f"a pipeline has failed: {error}")
        sys.exit(1)
    spark.stop()


def _session(folder: Path) -> SparkSession:
    """Its Java process, if it is killed, leaves nothing outside of this folder."""
    folder.mkdir(parents=True)
    settings = {
        **_SETTINGS,
        "spark.driver.extraJavaOptions": f"{_JAVA} -Djava.io.tmpdir={folder}",
        "spark.local.dir": str(folder),
    }
    builder = SparkSession.builder.master(_MASTER).appName("demo")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _start(spark: SparkSession, path: Path, bootstrap: str, checkpoints: Path) -> RunningPipeline:
    places = {"kafka.bootstrap.servers": bootstrap, "checkpoint": str(checkpoints / path.stem)}
    return Pipeline.from_file(path, overrides=places).start(spark)


def _run(table: TaskTable, running: Sequence[RunningPipeline], told: Iterator[list[str]]) -> None:
    ended = threading.Event()
    obeying = threading.Thread(target=_obey, args=(table, told, ended), daemon=True)
    obeying.start()
    is_ready = False
    tasks = None
    while not ended.wait(_LOOK_S):
        for each in running:
            each.wait(0)  # raises when it has failed
            _report_batches(each)
        if not is_ready and all(each.last for each in running):
            is_ready = True
            say("ready")
        if (now := table.count()) != tasks:
            tasks = now
            say("tasks", **asdict(now))
    for each in running:
        each.stop()
        _report_batches(each)


def _report_batches(running: RunningPipeline) -> None:
    for batch in running.progress():
        say(
            "batch",
            sink=batch.sink,
            read=batch.rows_in,
            written=batch.rows_out,
            dead=batch.dead_letters,
            ms=round(batch.seconds * 1000),
        )


def _obey(table: TaskTable, told: Iterator[list[str]], ended: threading.Event) -> None:
    for command in told:
        if command == ["kill", "worker"]:
            try:
                _kill(table)
            except (NoVictimError, Py4JError) as error:
                say("no worker killed", why=str(error).partition("\n")[0])
    ended.set()


def _kill(table: TaskTable) -> None:
    killed = kill_in_task(table)
    failed = killed.attempt
    where = {"query": table.query(failed.stage), "stage": failed.stage, "task": failed.task}
    say("worker killed", pid=killed.pid, **where, error=failed.error)
    retried = wait_for_success(table, failed)
    if retried is None:
        say("no worker killed", why=f"task {failed.task} of stage {failed.stage} was not tried again")
    else:
        say("task retried", **where, attempt=retried.number + 1)


if __name__ == "__main__":
    main()
