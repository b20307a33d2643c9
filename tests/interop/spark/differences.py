"""Where our connector does otherwise than the JVM's, and why: the whole list.

docs/spark-differences.md shows the same table to people; a test keeps the two together.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """The cases that show it, and where in their outcomes it lies, as a pattern of `fnmatch`."""

    cases: tuple[str, ...]
    path: str
    jvm: str
    ottla: str
    reason: str


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        ("batch-fewer-columns",),
        "*",
        "a schema of the user is refused",
        "it may name fewer columns, `key binary, value binary`",
        "a column that the query does not read need not be decoded",
    ),
    Difference(
        ("stream-offsets-of-the-first-batch",),
        "0/:start",
        "where a stream began stands in a file of its own in the checkpoint",
        "the offset at which its first batch ends has it as well, under `:start`",
        "a source in Python may write no files there, and a crash in the first batch must lose nothing",
    ),
    Difference(
        ("batch-packed-tasks",),
        "tasks",
        "every partition has a task of its own",
        "small partitions are read together in one task, unless `targetPartitions` is `off`",
        "Spark takes much longer for a task of a source in Python than for one in the JVM",
    ),
    Difference(
        ("stream-offsets-of-a-packed-batch",),
        "0/:*",
        "how a micro-batch is split into tasks follows from the options that there are when it runs",
        "the offset at which it ends has it, under `:plan`, and where new partitions begin, under `:start`, unless"
        " `targetPartitions` is `off`; the JVM connector cannot read such an offset",
        "a batch that runs again after a crash is split as it was",
    ),
    Difference(
        ("batch-pattern-with-an-intersection",),
        "*",
        "a pattern may intersect classes of characters, `[a-z&&[^b]]`",
        "refused, with the pattern in the error",
        "Python's patterns have no such thing, and would take it for something else",
    ),
    Difference(
        ("batch-max-records-per-partition",),
        "tasks",
        "a batch heeds maxRecordsPerPartition only beside a minPartitions that asks for more tasks",
        "it is heeded by itself, as it is in streams",
        "users set it to get smaller tasks",
    ),
    Difference(
        ("batch-tasks",),
        "tasks",
        "a batch without minPartitions has a task for every partition, empty ones included",
        "partitions without anything to read get no task",
        "there is nothing for it to do",
    ),
    Difference(
        ("restart-without-the-topic-which-may-be",),
        "*",
        "a stream whose topic was deleted fails, whatever failOnDataLoss says",
        "with failOnDataLoss=false it goes on, and logs a warning",
        "that is what the option is for; the topic may be created again",
    ),
    Difference(
        ("sink-without-a-mode", "sink-error-if-exists"),
        "*",
        "`save()` without a mode appends",
        'Spark refuses it, and asks for `.mode("append")`',
        "Spark offers no other modes to sources in Python",
    ),
    Difference(
        ("stream-sink-update",),
        "*",
        'a sink takes `outputMode("update")`',
        "Spark refuses it",
        "Spark offers sinks in Python no such mode; `foreachBatch` with a batch write takes it",
    ),
)
