"""register(spark): `format("ottla")` where Spark does not find it by itself.

Spark looks for data sources once, in the Python of PYSPARK_DRIVER_PYTHON, else PYSPARK_PYTHON, else `python3` of the
PATH. A notebook (PYSPARK_DRIVER_PYTHON=jupyter) or a virtual environment off the PATH is not looked into, and all
that Spark says then is DATA_SOURCE_NOT_FOUND. A source that is registered runs in the Python of PYSPARK_PYTHON
and, where that one lacks Ottla, can say so itself.

A batch write looks in the session that is active in its thread, and a thread that Python has started has none: the
same error, of all Python sources alike. So `register` also makes the session the active one of its thread.

How many tasks Spark runs at a time, the default of targetPartitions, is known to the program alone: a source plans in
a process that is told nothing but its options. So `register` keeps it in the session's configuration, and wraps the
`format` of Spark's readers, which hands it on as an option. Likewise that of stream writers, where the plan of the
query is at hand: the exactly-once sink refuses one whose tasks may have other rows when a micro-batch runs again. Out
of reach, as no Python method is called: SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.errors import AnalysisException, PySparkException

from ottla.spark.datasource import OttlaDataSource
from ottla.spark.options.connector import PARALLELISM, UNSTABLE
from ottla.spark.process.shipping import ShippedClass
from ottla.spark.sink.stable_rows import fix_tasks, what_is_unstable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    AnySession: TypeAlias = SparkSession | ConnectSession

Method: TypeAlias = Callable[..., Any]

OURS: Final = "ottla"
_FOUND_ALREADY: Final = "DATA_SOURCE_ALREADY_EXISTS"
_PARALLELISM_CONF: Final = "spark.ottla.parallelism"
# Where readers and writers, classic and of Spark Connect, keep their session.
_SESSION_ATTRIBUTES: Final = ("_spark", "_session", "_client")


def register(spark: AnySession) -> None:
    """Makes `format("ottla")` known to this session, also when Spark's own discovery has not found it.

    >>> ottla.spark.register(spark)
    >>> spark.read.format("ottla").options(...)

    Harmless where it was found, and when called twice. Works through Spark Connect with the package on the server. In
    a thread of one's own, call it there before a batch is written. Queries that are read from then on have
    `sparkContext.defaultParallelism` for their `targetPartitions`, where Spark Connect does not hide it.
    """
    make_active(spark)
    _hand_on_parallelism(spark)
    _, stream_writer = writers_of(spark)
    wrap(stream_writer, "format", _with_stable_rows)
    try:
        spark.dataSource.register(ShippedClass(OttlaDataSource))  # type: ignore[arg-type]
    except AnalysisException as error:
        if error.getCondition() != _FOUND_ALREADY:
            raise


def make_active(spark: Any) -> None:
    """Lets batch writes of this thread find the sources of the session; on Spark Connect they do anyway."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is not None:
        jvm.SparkSession.setActiveSession(spark._jsparkSession)


def _hand_on_parallelism(spark: Any) -> None:
    try:
        parallelism = spark.sparkContext.defaultParallelism
    except (PySparkException, AttributeError):
        return  # Spark Connect has no context: the source's own default counts
    spark.conf.set(_PARALLELISM_CONF, str(parallelism))
    for reader in (type(spark.read), type(spark.readStream)):
        wrap(reader, "format", _with_parallelism)


def _with_parallelism(original: Method) -> Method:
    def format(self: Any, source: str) -> Any:
        reader = original(self, source)
        if str(source).lower() == OURS:
            parallelism = session_of(self).conf.get(_PARALLELISM_CONF, None)
            if parallelism is not None:
                reader.option(PARALLELISM, parallelism)
        return reader

    return format


def _with_stable_rows(original: Method) -> Method:
    def format(self: Any, source: str) -> Any:
        writer = original(self, source)
        if str(source).lower() == OURS:
            fix_tasks(session_of(self))
            unstable = what_is_unstable(getattr(self, "_df", None))
            if unstable is not None:
                writer.option(UNSTABLE, unstable)
        return writer

    return format


# For what wraps Spark's methods


def writers_of(spark: AnySession) -> tuple[type, type]:
    """The writers of batches and of streams that this kind of session has."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect.readwriter import DataFrameWriter as ConnectWriter
        from pyspark.sql.connect.streaming.readwriter import DataStreamWriter as ConnectStreamWriter

        return ConnectWriter, ConnectStreamWriter
    from pyspark.sql.readwriter import DataFrameWriter
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    return DataFrameWriter, DataStreamWriter


def wrap(owner: type, name: str, wrapper: Callable[[Method], Method]) -> None:
    """Once for each wrapper: a method that has it already, under others or not, stays as it is."""
    original = getattr(owner, name)
    wrappers: tuple[object, ...] = getattr(original, "_ottla_wrappers", ())
    if wrapper in wrappers:
        return
    wrapped = wraps(original)(wrapper(original))
    wrapped._ottla_wrappers = (*wrappers, wrapper)  # type: ignore[attr-defined]
    setattr(owner, name, wrapped)


def session_of(instance: Any) -> Any:
    """The session of a reader or a writer."""
    return next(getattr(instance, name) for name in _SESSION_ATTRIBUTES if hasattr(instance, name))
