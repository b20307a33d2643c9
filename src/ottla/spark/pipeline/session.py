"""The Spark session of a pipeline: made for it, or one of a program in which it gets a place of its own.

Settings count in this order: those of the pipeline, those of the environment (SPARK_CONF_DIR), and for local masters
a few that suit one machine.

Invariant: a pipeline's views and settings are its own, also where a program gives the session: they go into a new
session on the same Spark. Spark Connect has none such, and gets them into the one that is given.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.errors import KafkaError
from ottla.spark.checkpoint_files import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.pipeline.model import Pipeline

LOCAL: Final = "local[*,4]"
"""All cores; a task that fails is tried again, as on a cluster."""
_OLDEST_JAVA: Final = 17
_FOR_LOCAL_MASTERS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
}
_CHECKPOINT_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
_WITHOUT_RENAMES: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_LOG: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.sources.name = org.apache.spark.sql.execution.datasources.DataSourceManager
logger.sources.level = error
logger.adaptive.name = org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream
logger.adaptive.level = error
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = error
"""


class NoJavaError(KafkaError):
    """Spark needs a Java that is not there, or is too old."""


def open_session(
    pipeline: Pipeline, *, master: str | None = None, remote: str | None = None
) -> tuple[SparkSession, bool]:
    """A session for this pipeline, and whether it is to be stopped at the end: not one that the program had before.

    Without `master` and `remote` it is local, unless the pipeline's own settings say spark.master.
    """
    from ottla._extras import require

    for needed in ("pyspark", "pyarrow"):
        require(needed, extra="spark", purpose="a pipeline")
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if remote is not None:
        # Spark refuses a master beside it; as --master does, it beats the pipeline's.
        settings = {name: value for name, value in pipeline.spark.items() if name != "spark.master"}
        session = _built(SparkSession.builder.remote(remote), settings)
        return session, session is not found
    if found is not None:
        return found, False
    if SparkContext._active_spark_context is not None:
        # A session is active in the thread that has made it; in another, Spark hands the same one out.
        return SparkSession.builder.getOrCreate(), False
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Where Spark looks for data sources, whatever a notebook has set.
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    return _built(SparkSession.builder, session_settings(pipeline, master)), True


def _built(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession:
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def session_settings(pipeline: Pipeline, master: str | None) -> dict[str, str]:
    """All settings of a new session."""
    master = master or pipeline.spark.get("spark.master") or os.environ.get("MASTER") or LOCAL
    settings = {"spark.app.name": pipeline.name, **pipeline.spark, "spark.master": master}
    cores = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\d+)?\])?", master)
    if cores is None:
        return settings
    threads = {None: 1, "*": os.cpu_count() or 1}.get(cores[1]) or int(cores[1])
    local = {
        **_FOR_LOCAL_MASTERS,
        # A shuffle of more tasks than run at once takes longer for each micro-batch, on one machine.
        "spark.sql.shuffle.partitions": str(threads),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_log_settings().as_uri()}",
    }
    if pipeline.checkpoint is not None and local_path(pipeline.checkpoint) is not None:
        # A local disk needs no renames through Hadoop's FileContext: a tenth of a second less for each micro-batch.
        local[_CHECKPOINT_FILES] = _WITHOUT_RENAMES
    return {**local, **settings}


def _log_settings() -> Path:
    """Of log4j, in a file: warnings and errors to standard error, from the first line on."""
    path = Path(tempfile.gettempdir(), f"ottla-log4j2-{os.getuid()}.properties")
    if not path.exists() or path.read_text() != _LOG:
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(_LOG)
        new.replace(path)
    return path


def pipeline_session(pipeline: Pipeline, spark: SparkSession) -> SparkSession:
    """The session in which the pipeline's views and queries are, with its settings."""
    from ottla.spark.process.registration import register

    session = spark if _is_connect(spark) else spark.newSession()
    register(session)
    for name, value in pipeline.spark.items():
        # The others are those of Spark's processes, which run by now: the program has decided.
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    return session


def _is_connect(spark: object) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def check_java() -> None:
    """Raises where Spark would find no Java that it can run on."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    advice = f"install Java {_OLDEST_JAVA} or newer (openjdk-{_OLDEST_JAVA}-jre-headless), or set JAVA_HOME"
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home}, where there is no bin/java" if home else "no java is found on the PATH"
        raise NoJavaError(f"Spark needs Java, and {where}: {advice}")
    said = subprocess.run([java, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    version = re.search(rb'version "(?:1\.)?(\d+)', said.stdout)
    if version is not None and int(version[1]) < _OLDEST_JAVA:
        raise NoJavaError(
            f"Spark needs Java {_OLDEST_JAVA} or newer, and {java} is {int(version[1])}: {advice}"
        )
