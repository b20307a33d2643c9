"""replace_kafka: format("kafka") of a session means this connector from then on.

Spark looks up the short name "kafka" in Java and a Python data source cannot have it, so the methods of Spark's
Python readers and writers that take a format are wrapped. Whether a session is meant stands in its configuration,
which the sessions that Spark clones for streams inherit, and with them the DataFrames of foreachBatch; others, such
as those of newSession(), keep what they had.

Two things that the JVM connector's sink takes and Python sinks are refused are mended on the way: a batch saved
without .mode("append"), and outputMode("update").

Out of reach, as no Python method is called: SQL (`CREATE TABLE ... USING kafka`), and code in Scala or Java.

Invariant: a wrapped method does exactly what Spark's does, unless the session was replaced and the format is Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.options.parsing import logger
from ottla.spark.process.registration import (
    OURS,
    Method,
    make_active,
    register,
    session_of,
    wrap,
    writers_of,
)
from ottla.spark.sink.foreach_batch import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.spark.process.registration import AnySession

# What Spark takes for the JVM connector, in lower case.
_KAFKA: Final = frozenset(
    {
        "kafka",
        "org.apache.spark.sql.kafka010",
        "org.apache.spark.sql.kafka010.kafkasourceprovider",
    }
)
_CONF: Final = "spark.ottla.replaceKafka"
_STATE: Final = "_ottla_state"
# The modes in which the JVM connector appends: the default, and the names for it.
_APPENDING: Final = frozenset({"append", "default", "error", "errorifexists"})


def replace_kafka(spark: AnySession) -> None:
    """Let format("kafka") of this session come to Ottla: read, readStream, write and writeStream.

    The JVM connector is not needed then, and not used if it is there. SQL with USING kafka is not changed.

    >>> replace_kafka(spark)  # doctest: +SKIP
    >>> spark.readStream.format("kafka").option("subscribe", "orders")  # doctest: +SKIP
    """
    register(spark)
    install(spark)
    if not _is_replaced(spark):
        spark.conf.set(_CONF, "true")
        logger.warning('format("kafka") of this session is read and written by Ottla from now on')


def restore_kafka(spark: AnySession) -> None:
    """Let format("kafka") of this session be the JVM connector again."""
    spark.conf.unset(_CONF)


def install(spark: AnySession) -> None:
    """Wrap the methods of this kind of session; those that are wrapped already stay as they are."""
    batch_writer, stream_writer = writers_of(spark)
    for reader in (type(spark.read), type(spark.readStream)):
        wrap(reader, "format", _replacing_format)
    wrap(batch_writer, "format", _replacing_format)
    wrap(batch_writer, "mode", _recording_mode)
    wrap(batch_writer, "save", _appending_save)
    wrap(stream_writer, "format", _replacing_format)
    wrap(stream_writer, "outputMode", _recording_output_mode)
    wrap(stream_writer, "option", _recording_option)
    wrap(stream_writer, "options", _recording_options)
    wrap(stream_writer, "foreach", _forgetting_format)
    wrap(stream_writer, "foreachBatch", _installing_for_each_batch)
    wrap(stream_writer, "start", _updating_start)


@dataclass(slots=True)
class _WriterState:
    """What was set on a reader or writer so far, as far as Spark does not hand it out again."""

    replaced: bool = False
    mode: str | None = None
    options: dict[str, object] = field(default_factory=dict)


def _state(instance: Any) -> _WriterState:
    if not hasattr(instance, _STATE):
        setattr(instance, _STATE, _WriterState())
    state: _WriterState = getattr(instance, _STATE)
    return state


def _is_replaced(spark: Any) -> bool:
    return bool(spark.conf.get(_CONF, "false") == "true")


def _replacing_format(original: Method) -> Method:
    def format(self: Any, source: str) -> Any:
        state = _state(self)
        state.replaced = str(source).lower() in _KAFKA and _is_replaced(session_of(self))
        return original(self, OURS if state.replaced else source)

    return format


def _recording_mode(original: Method) -> Method:
    def mode(self: Any, saveMode: str | None) -> Any:  # noqa: N803  Spark's name
        if saveMode is not None:
            _state(self).mode = saveMode
        return original(self, saveMode)

    return mode


def _recording_output_mode(original: Method) -> Method:
    def output_mode(self: Any, outputMode: str) -> Any:  # noqa: N803  Spark's name
        _state(self).mode = outputMode
        return original(self, outputMode)

    return output_mode


def _appending_save(original: Method) -> Method:
    def save(
        self: Any,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: str | list[str] | None = None,  # noqa: N803  Spark's name
        **options: Any,
    ) -> None:
        self.mode(mode)
        if format is not None:
            self.format(format)
        state = _state(self)
        if state.replaced:
            make_active(session_of(self))
            if (state.mode or "default").lower() in _APPENDING:
                self.mode("append")
        original(self, path, partitionBy=partitionBy, **options)

    return save


def _recording_option(original: Method) -> Method:
    def option(self: Any, key: str, value: Any) -> Any:
        _state(self).options[key] = value
        return original(self, key, value)

    return option


def _recording_options(original: Method) -> Method:
    def options(self: Any, **options: Any) -> Any:
        _state(self).options.update(options)
        return original(self, **options)

    return options


def _updating_start(original: Method) -> Method:
    def start(
        self: Any,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,  # noqa: N803  Spark's name
        partitionBy: str | list[str] | None = None,  # noqa: N803  Spark's name
        queryName: str | None = None,  # noqa: N803  Spark's name
        **options: Any,
    ) -> Any:
        if format is not None:
            self.format(format)
        if outputMode is not None:
            self.outputMode(outputMode)
        self.options(**options)
        state = _state(self)
        if state.replaced and (state.mode or "append").lower() == "update":
            self.foreachBatch(Sink(state.options))
        return original(self, path, partitionBy=partitionBy, queryName=queryName)

    return start


def _forgetting_format(original: Method) -> Method:
    """Of a format and a function, the one that was given last says where rows go."""

    def for_each(self: Any, f: Any) -> Any:
        _state(self).replaced = False
        return original(self, f)

    return for_each


def _installing_for_each_batch(original: Method) -> Method:
    def for_each_batch(self: Any, func: Callable[[DataFrame, int], None]) -> Any:
        _state(self).replaced = False
        replaced = _is_replaced(session_of(self))
        return original(self, _InReplacedSession(func) if replaced else func)

    return for_each_batch


@dataclass(frozen=True, slots=True)
class _InReplacedSession:
    """A function of foreachBatch; under Spark Connect it runs in another process, where nothing is wrapped yet."""

    function: Callable[[DataFrame, int], None]

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        install(batch.sparkSession)
        self.function(batch, batch_id)
