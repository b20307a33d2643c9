"""SinkRun: one sink of a pipeline while it runs, as a streaming query or as the job of a batch.

Spark stops a query by interrupting it, wherever it is. `finish` ends one between two micro-batches: the query is told
that it is over, as if its trigger had said so, and looks at that when its micro-batch is done. Where that cannot be
told (Spark Connect), the query is interrupted when a micro-batch has just ended; the next may have begun by then.

Invariant: what is open of a query that was interrupted, or has failed, is ended before `stop` returns: readers do not
wait for it. What another query has open that has taken its place is left alone.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from ottla.errors import KafkaError
from ottla.spark.pipeline.progress import BatchProgress, batch_progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

_logger = logging.getLogger("ottla.spark.pipeline")

State = Literal["starting", "waiting", "running", "ending", "ended"]
"""Waiting is for rows, or for the next trigger; ending is between the last micro-batch and the end."""
_LEAST_WAIT_S: Final = 0.002
"""Spark counts in milliseconds, and takes no 0."""
_TASKS_END_S: Final = 15.0
_API_TIMEOUT_MS: Final = "15000"
"""A person waits for the end of the program."""
_FENCED: Final = "has taken over sink"
"""Of the error of a query whose place another has taken: what is open now is that one's."""
_LOOK_EVERY_S: Final = 0.05


class SparkGoneError(KafkaError):
    """The JVM that PySpark talks to has ended under a query."""


class SinkRun(ABC):
    """What `RunningPipeline` knows of a sink."""

    sink: str

    @property
    @abstractmethod
    def is_active(self) -> bool: ...

    @property
    @abstractmethod
    def state(self) -> State: ...

    @property
    @abstractmethod
    def error(self) -> BaseException | None:
        """What it has ended with, if that is an error."""

    @abstractmethod
    def progress(self) -> list[BatchProgress]:
        """What has ended since the last call."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Until it has ended, or for so long."""

    @abstractmethod
    def finish(self) -> None:
        """It ends when what it is doing is done."""

    @abstractmethod
    def stop(self) -> None:
        """It has ended when this returns."""


class StreamRun(SinkRun):
    """A streaming query."""

    def __init__(self, sink: str, query: Any, options: Mapping[str, str], session: Any) -> None:
        self.sink = sink
        self.query = query
        self._options = options
        self._session = session
        self._has_ended = False
        self._error: BaseException | None = None
        self._reported = -1
        self._seen: object = None
        self._has_begun = False
        self._is_clean = False
        self._finishes = False
        self._thread: Any = None
        """The query's, in the JVM, once it is told that it is over."""
        self._busy_with: object = None

    @classmethod
    def start(
        cls,
        sink: str,
        frame: DataFrame,
        options: Mapping[str, str],
        output: str,
        trigger: Mapping[str, Any],
        session: SparkSession,
    ) -> StreamRun:
        """Update mode goes through foreachBatch, as Spark refuses it to sinks in Python."""
        from ottla.spark.options.connector import unstable
        from ottla.spark.sink.foreach_batch import Sink
        from ottla.spark.sink.stable_rows import what_is_unstable

        writer = frame.writeStream.queryName(sink).outputMode(output)
        if trigger:
            writer = writer.trigger(**trigger)
        if output == "update":
            if options.get("ottla.delivery") != "at-least-once" and (chance := what_is_unstable(frame)):
                raise unstable(chance)
            writer = writer.foreachBatch(Sink(options)).option(
                "checkpointLocation", options["checkpointLocation"]
            )
        else:
            writer = writer.format("ottla").options(**options)
        return cls(sink, writer.start(), options, session)

    @property
    def is_active(self) -> bool:
        if not self._has_ended:
            self.wait(_LEAST_WAIT_S)
        return not self._has_ended

    @property
    def state(self) -> State:
        if not self.is_active:
            return "ended"
        if self._finishes and self._has_moved():
            return "ending"
        status = self.query.status
        # A trigger that only looks whether there is something is none that runs.
        if status["isTriggerActive"] and status["isDataAvailable"]:
            self._has_begun = True
            return "running"
        self._has_begun = self._has_begun or status["message"].startswith("Waiting")
        return "waiting" if self._has_begun else "starting"

    @property
    def error(self) -> BaseException | None:
        return self._error

    def progress(self) -> list[BatchProgress]:
        if isinstance(self._error, SparkGoneError):
            return []
        last = self.query.lastProgress
        if last is None or self._key(last) == self._seen:
            return []
        found = [last]
        if last.batchId > self._reported + 1:
            found = list(self.query.recentProgress)
        self._seen = self._key(last)
        batches = [
            batch
            for each in found
            if each.batchId > self._reported and (batch := batch_progress(self.sink, each)) is not None
        ]
        if batches:
            self._reported = batches[-1].batch_id
        return batches

    def wait(self, seconds: float) -> None:
        from py4j.protocol import Py4JError, Py4JJavaError
        from pyspark.errors import PySparkException

        if self._has_ended:
            return
        try:
            self._look(max(seconds, _LEAST_WAIT_S))
        except (PySparkException, Py4JJavaError) as error:
            self._has_ended, self._error = True, error
        except Py4JError as error:
            self._has_ended = True
            self._error = SparkGoneError(
                "Spark's Java process has ended, or does not respond; its log may say why, or the system's, where it "
                f"was killed for want of memory ({error})"
            )

    def _look(self, seconds: float) -> None:
        if self._thread is not None:
            # Told that it is over, the query says so itself from then on, whatever it is still doing.
            self._thread.join(round(seconds * 1000))
            self._has_ended = not self._thread.isAlive()
            self._error = self.query.exception() if self._has_ended else None
        else:
            self._has_ended = bool(self.query.awaitTermination(seconds))
        if self._finishes and not self._has_ended:
            self._end_between_batches()

    def finish(self) -> None:
        if self._finishes or not self.is_active:
            return
        self._finishes = True
        self._thread = self._tell()
        self._busy_with = self._key(self.query.lastProgress)

    def stop(self) -> None:
        if self._has_ended:
            if self._error is not None and not self._is_clean and _FENCED not in str(self._error):
                self._clean_up()
            return
        status = self.query.status
        self.query.stop()
        self._has_ended = True
        # Between two micro-batches there is nothing open, and a query that was told begins no other.
        if self._thread is None or status["isTriggerActive"]:
            self._clean_up()

    def _has_moved(self) -> bool:
        """Whether the micro-batch is done that ran when the query was to finish."""
        return self._key(self.query.lastProgress) != self._busy_with

    @staticmethod
    def _key(progress: Any) -> object:
        return None if progress is None else (progress.runId, progress.batchId, progress.timestamp)

    def _end_between_batches(self) -> None:
        """If no micro-batch runs: a query that was told begins no other, and only sleeps until its next trigger."""
        status = self.query.status
        runs = status["isTriggerActive"] and status["isDataAvailable"]
        if runs and (self._thread is not None or not self._has_moved()):
            return
        if status["message"].startswith("Initializing"):
            # It may not have been possible to tell it before.
            self._thread = self._thread or self._tell()
            return
        self.stop()

    def _tell(self) -> Any:
        """That it is over: what StreamExecution.stop sets before it interrupts. None where it cannot be told."""
        from py4j.protocol import Py4JError

        classic = getattr(self.query, "_jsq", None)
        if classic is None:
            return None
        try:
            stream = classic.streamingQuery()
            thread, state = stream.queryExecutionThread(), stream.state()
            active = state.get()
            name = active.getClass().getName()
            if not name.endswith("ACTIVE$"):
                return None
            loader = active.getClass().getClassLoader()
            over = loader.loadClass(name.replace("ACTIVE$", "TERMINATED$")).getField("MODULE$").get(None)
            return thread if state.compareAndSet(active, over) else None
        except (Py4JError, AttributeError, TypeError) as error:
            _logger.debug("the query of sink %s cannot be told that it is over: %s", self.sink, error)
            return None

    def _clean_up(self) -> None:
        """What the interrupted micro-batch has left: what was decided is committed, and the rest is aborted."""
        self._is_clean = True
        if self._options.get("ottla.delivery") == "at-least-once":
            return
        from ottla.spark.sink.exactly_once.recovery import UnknownSinkError
        from ottla.spark.sink.recover import recover

        self._wait_for_tasks()
        sink_id = self._options["ottla.sink.id"]
        options = {**self._options, "kafka.default.api.timeout.ms": _API_TIMEOUT_MS}
        try:
            if recover(options, sink_id).is_complete:
                return
            recover(options, sink_id, "finish")
        except UnknownSinkError:
            return
        except KafkaError as error:
            _logger.warning(
                "what the interrupted micro-batch of sink %s has left open stays so until the pipeline is started "
                "again, or `ottla pipeline recover --sink %s --finish` is run: %s",
                self.sink,
                sink_id,
                error,
            )

    def _wait_for_tasks(self) -> None:
        """Spark kills the tasks of a query that is stopped; one that still writes could open something anew."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            tracker = self._session.sparkContext.statusTracker()
        except (PySparkException, Py4JError, AttributeError):
            return
        until = time.monotonic() + _TASKS_END_S
        while time.monotonic() < until:
            jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(str(self.query.runId))]
            stages = [tracker.getStageInfo(each) for job in jobs if job is not None for each in job.stageIds]
            if not any(stage is not None and stage.numActiveTasks for stage in stages):
                return
            time.sleep(_LOOK_EVERY_S)


class JobRun(SinkRun):
    """The job of a sink in a pipeline of mode batch, in a thread of its own."""

    def __init__(
        self, sink: str, frame: DataFrame, written: Observation, options: Mapping[str, str], session: Any
    ) -> None:
        from pyspark import InheritableThread

        self.sink = sink
        self._session = session
        self._options = options
        self._written = written
        self._frame = frame
        self._error: BaseException | None = None
        self._tag = f"ottla-{sink}-{id(self)}"
        self._began_at = datetime.now(UTC)
        self._seconds = 0.0
        self._is_reported = False
        self._is_interrupted = False
        self._thread = InheritableThread(target=self._run, name=f"ottla pipeline, sink {sink}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        from ottla.spark.process.registration import make_active

        began = time.monotonic()
        try:
            make_active(self._session)
            self._session.addTag(self._tag)
            self._frame.write.format("ottla").mode("append").options(**self._options).save()
        # Whatever it is: the thread that waits raises it.
        except BaseException as error:  # noqa: BLE001
            self._error = error
        self._seconds = time.monotonic() - began

    @property
    def is_active(self) -> bool:
        return self._thread.is_alive()

    @property
    def state(self) -> State:
        return "running" if self.is_active else "ended"

    @property
    def error(self) -> BaseException | None:
        return None if self.is_active or self._is_interrupted else self._error

    def progress(self) -> list[BatchProgress]:
        if self.is_active or self._error is not None or self._is_reported:
            return []
        self._is_reported = True
        counts = self._written.get
        dead_letters = counts["dead_letters"]
        return [
            BatchProgress(
                sink=self.sink,
                batch_id=0,
                timestamp=self._began_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                rows_in=0,
                rows_out=counts["rows"] - dead_letters,
                dead_letters=dead_letters,
                seconds=self._seconds,
            )
        ]

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)

    def finish(self) -> None:
        """A job is all or nothing: it goes on to its end."""

    def stop(self) -> None:
        while self.is_active:
            self._is_interrupted = True
            # Spark interrupts what runs at that moment: not what is yet to begin, as the next job of a shuffle.
            self._session.interruptTag(self._tag)
            self._thread.join(_LOOK_EVERY_S)
