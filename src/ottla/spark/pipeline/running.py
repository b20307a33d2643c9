"""RunningPipeline: the queries of a pipeline while they run; how they are started, watched and stopped.

    running = pipeline.start()
    for batch in running.progress():     # the micro-batches since the last call
        print(batch.sink, batch.rows_in, batch.rows_out)
    running.stop()                       # when the micro-batch in flight is done

One sink that fails takes the others along: a pipeline whose parts are at different points helps no one.

Invariant: after `stop` has returned, or `wait` has returned True or raised, nothing of the pipeline runs any more in
this program, and no transaction of its sinks is open that a reader would have to wait for, unless a warning says so.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from ottla.spark.pipeline.failures import PipelineFailedError, reason
from ottla.spark.pipeline.frames import observed, sink_frame, source_frames, transformed
from ottla.spark.pipeline.options import sink_options, trigger_options
from ottla.spark.pipeline.progress import WRITTEN, BatchProgress
from ottla.spark.pipeline.runs import JobRun, SinkRun, StreamRun
from ottla.spark.pipeline.session import open_session, pipeline_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.spark.pipeline.model import Pipeline

_LOOK_EVERY_S: Final = 0.1
_STOP_S: Final = 60.0
"""How long a micro-batch in flight may take to its end when the pipeline is stopped."""


def run(
    pipeline: Pipeline,
    spark: SparkSession | None = None,
    *,
    master: str | None = None,
    remote: str | None = None,
) -> None:
    """Starts a pipeline and waits for its end; PipelineFailedError says which query has failed, and why.

    Without `spark` it runs in the session of the program, or in one that is made, and stopped at the end.
    """
    with start(pipeline, spark, master=master, remote=remote) as running:
        running.wait()


def start(
    pipeline: Pipeline,
    spark: SparkSession | None = None,
    *,
    master: str | None = None,
    remote: str | None = None,
) -> RunningPipeline:
    """Starts the query of each sink. Without `spark` it is the program's, or one is made, which ends with it."""
    own = None
    if spark is None:
        spark, is_own = open_session(pipeline, master=master, remote=remote)
        own = spark if is_own else None
    runs: list[SinkRun] = []
    try:
        session = pipeline_session(pipeline, spark)
        sources = source_frames(pipeline, session)
        result = transformed(pipeline, sources, session)
        frames = {name: sink_frame(pipeline, name, result, sources) for name in pipeline.sinks}
        for name, frame in frames.items():
            runs.append(_started(pipeline, name, frame, session))
    except BaseException:
        RunningPipeline(pipeline, runs, own).stop(0)
        raise
    return RunningPipeline(pipeline, runs, own)


def _started(pipeline: Pipeline, name: str, frame: DataFrame, session: SparkSession) -> SinkRun:
    from pyspark.sql import Observation

    options = sink_options(pipeline, name)
    if pipeline.mode == "batch":
        written = Observation(WRITTEN)
        return JobRun(name, observed(pipeline, frame, written), written, options, session)
    frame = observed(pipeline, frame, WRITTEN)
    output = pipeline.sinks[name].output
    return StreamRun.start(name, frame, options, output, trigger_options(pipeline), session)


class RunningPipeline:
    """What `Pipeline.start` returns. As a context, it is stopped at the end."""

    def __init__(self, pipeline: Pipeline, runs: Sequence[SinkRun], own: SparkSession | None) -> None:
        self.pipeline: Final = pipeline
        self._runs: Final = runs
        self._own = own
        self._last: dict[str, BatchProgress] = {}
        self._unseen: list[BatchProgress] = []
        self._is_over = False

    @property
    def last(self) -> Mapping[str, BatchProgress]:
        """The last micro-batch of each sink that `progress` has returned."""
        return self._last

    @property
    def is_active(self) -> bool:
        """Whether a query runs."""
        return any(run.is_active for run in self._runs)

    @property
    def states(self) -> Mapping[str, str]:
        """What each sink does: starting, waiting, running, ending or ended."""
        return {run.sink: run.state for run in self._runs}

    @property
    def queries(self) -> Mapping[str, StreamingQuery]:
        """Spark's own, by sink; none in a pipeline of mode batch."""
        return {run.sink: run.query for run in self._runs if isinstance(run, StreamRun)}

    def progress(self) -> tuple[BatchProgress, ...]:
        """The micro-batches that have ended since the last call, in the order in which they began."""
        self._collect()
        found, self._unseen = self._unseen, []
        for batch in found:
            self._last[batch.sink] = batch
        return tuple(sorted(found, key=lambda batch: batch.timestamp))

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all queries have ended: True, or False after `timeout` seconds.

        When one fails, the others are stopped, and PipelineFailedError says which and why.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while active := [run for run in self._runs if run.is_active]:
            self._raise_failure()
            left = _LOOK_EVERY_S if until is None else min(_LOOK_EVERY_S, until - time.monotonic())
            if left <= 0:
                return False
            active[0].wait(left)
        self._raise_failure()
        self._end_session()
        return True

    def finish(self) -> None:
        """Lets every query end behind the micro-batch that it is in; returns at once, `wait` waits for them."""
        for run in self._runs:
            run.finish()

    def stop(self, timeout: float = _STOP_S) -> None:
        """Ends all queries: each when its micro-batch is done, or after `timeout` seconds in the middle of it.

        What a query that was interrupted has left open is ended here, as its next start would do it.
        """
        self.finish()
        until = time.monotonic() + timeout
        for run in self._runs:
            while run.is_active and (left := until - time.monotonic()) > 0:
                run.wait(min(left, _LOOK_EVERY_S))
        for run in self._runs:
            run.stop()
        self._end_session()

    def _raise_failure(self) -> None:
        for run in self._runs:
            # Each is looked at: one learns of its end by waiting for it.
            if not run.is_active and (error := run.error) is not None:
                self.stop()
                raise PipelineFailedError(run.sink, reason(error)) from error

    def _collect(self) -> None:
        """As long as there is a session to ask: behind Spark Connect, nothing is known without it."""
        if not self._is_over:
            self._unseen += [batch for run in self._runs for batch in run.progress()]

    def _end_session(self) -> None:
        from py4j.protocol import Py4JError

        own, self._own = self._own, None
        if own is None:
            return
        try:
            self._collect()
        finally:
            self._is_over = True
            # Its Java process may be gone, which the queries have said.
            with suppress(Py4JError):
                own.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
