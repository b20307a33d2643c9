"""Which task this is, as Spark tells it inside a worker: the query, the micro-batch, and the partition.

All attempts of a task have the same number, and so has the task of a batch that runs again: it is what the sink
recognizes rows by that are written already. Two attempts at once would have it too, so that speculation is refused:
Spark tells a task every setting of its session, and no other Python process of a sink.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark import TaskContext

from ottla.spark.options.parsing import OptionError
from ottla.spark.sink.exactly_once.errors import SinkError
from ottla.spark.sink.transactional import TaskNumber

if TYPE_CHECKING:
    from ottla.spark.sink.exactly_once.leases import Lease

_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"
_SPECULATION: Final = "spark.speculation"


def number_in_stream(expected: str | None, batch: int | None = None) -> TaskNumber:
    """In a task of a micro-batch; the arguments are the ids of query and batch as the driver has them, if it has.

    In foreachBatch of Spark Connect only the driver knows them.
    """
    context = _context()
    found_query, found_batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    query_id = found_query or expected
    batch_id = int(found_batch) if found_batch is not None else batch
    if query_id is None or batch_id is None:
        raise SinkError(
            "Spark does not say of which query and micro-batch this task is, so that the sink could not recognize "
            "rows that are written already: set ottla.delivery to at-least-once"
        )
    if expected not in (None, query_id):
        raise SinkError(
            f"the checkpoint belongs to query {expected}, and this task to query {query_id}: another query was "
            "started on the same checkpoint. Stop one of them, and give each a checkpoint of its own"
        )
    if batch not in (None, batch_id):
        raise SinkError(
            f"the sink was called with batch id {batch} in micro-batch {batch_id}: pass on what foreachBatch gave you"
        )
    return TaskNumber(query_id, batch_id, context.partitionId())


def number_in_job(lease: Lease) -> TaskNumber:
    """In a task of a batch write, which has no query: its lease has a number instead."""
    return TaskNumber(lease.query_id, lease.batch_id, _context().partitionId())


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise SinkError("rows are written in a task of Spark, and this is none")
    if str(context.getLocalProperty(_SPECULATION)).lower() == "true":
        raise OptionError(
            "spark.speculation is true, which exactly-once delivery cannot be combined with: a second attempt of a "
            "task could abort what the first has written when it is decided already. Set spark.speculation to false, "
            "or ottla.delivery to at-least-once"
        )
    return context
