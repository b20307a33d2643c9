"""What became of a job, as plain values: rows, tasks, offsets, or an error, without what differs from run to run.

A Python source's errors reach the user as a PySpark exception around a traceback, a JVM source's as its own class.
So an error counts as the same when it is of the same kind and has the same decisive words, which the case names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, Row
from pyspark.sql.functions import spark_partition_id, unix_micros
from pyspark.sql.types import StructType

Plain: TypeAlias = Any
"""What JSON can hold."""

_TASK = "_task"
# What a streaming query adds to its error.
_PLAN = re.compile(r"=== Streaming Query ===")
# The last line of a traceback.
_RAISED_BY_US = re.compile(r"^ottla(\.\w+)+: ", re.MULTILINE)
_FRAME = re.compile(r"^\s+(at |File ).*$", re.MULTILINE)


def schema_of(schema: StructType) -> Plain:
    return {
        field.name: f"{field.dataType.simpleString()}{'' if field.nullable else ' not null'}"
        for field in schema
    }


def rows_of(frame: DataFrame) -> Plain:
    """All rows, sorted, and what each task read: its partition and its first and last offset."""
    columns = frame.columns
    timed = frame.withColumn("timestamp", unix_micros("timestamp")) if "timestamp" in columns else frame
    rows = timed.withColumn(_TASK, spark_partition_id()).collect()
    plain = sorted(([_plain(row[column]) for column in columns] for row in rows), key=json.dumps)
    return {"rows": plain, "tasks": _tasks(rows)} if "offset" in columns else {"rows": plain}


def _tasks(rows: Iterable[Row]) -> Plain:
    seen: dict[int, list[tuple[str, int, int]]] = {}
    for row in rows:
        seen.setdefault(row[_TASK], []).append((row["topic"], row["partition"], row["offset"]))
    return sorted([list(min(read)), list(max(read))] for read in seen.values())


def _plain(value: object) -> Plain:
    if isinstance(value, bytes | bytearray):
        return value.decode("latin-1")
    if isinstance(value, Row):
        return [_plain(each) for each in value]
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def error_of(error: BaseException, words: Sequence[str]) -> Plain:
    """The words of the case that the error says."""
    text = said(str(error)).lower()
    return {"error": [word for word in words if word.lower() in text]}


def said(text: str) -> str:
    """What an error says itself, without plans, stack traces and lines of code, which say almost every word."""
    text = _PLAN.split(text)[0]
    raised = list(_RAISED_BY_US.finditer(text))
    return _FRAME.sub("", text[raised[-1].start() :] if raised else text)


def without_names(outcome: Plain, prefix: str) -> Plain:
    """The outcome with its own topics called the same for both connectors."""
    return json.loads(json.dumps(outcome).replace(prefix, ""))
