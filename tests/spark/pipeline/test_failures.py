"""Errors of Spark as one paragraph; the texts are as Spark 4.3 writes them, shortened."""

from __future__ import annotations

import pytest

from ottla.spark.pipeline.failures import reason

MALFORMED = """\
[STREAM_FAILED] Query [id = 1f9d22a9-b397-4c51-a368-9549c3eb7250, runId = 717efcc1] terminated with exception: \
[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/site-packages/ottla/spark/source/range_reader.py", line 72, in read_ranges
    yield from gathering.add(make(records, first, count))
ottla.spark.values.malformed.MalformedValueError: the value at offset 1 of orders-0 is malformed: b'bad'
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: out [id = 1f9d22a9]
"""
IN_A_UDF = """\
Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: \
Lost task 0.3 in stage 1.0 (TID 7) (127.0.0.1 executor driver): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "revenue.py", line 4, in price
    return prices[name]
KeyError: 'pear'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Driver stacktrace:
"""
TWICE = """\
Traceback (most recent call last):
  File "a.py", line 1, in f
ValueError: the first

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "b.py", line 2, in g
ottla.spark.sink.exactly_once.errors.SinkError: batch 3 of sink 'x' is not committed
and this is its second line
\tat org.apache.spark.Whatever(Whatever.scala:1)
"""
ANALYSIS = """\
[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `nix` cannot be resolved. \
Did you mean one of the following? [`c`, `id`]. SQLSTATE: 42703; line 1 pos 7;
'Project ['nix]
+- ~SubqueryAlias orders
"""
STAGE = """\
Job aborted due to stage failure: Task 1 in stage 3.0 failed 4 times, most recent failure: \
Lost task 1.3 in stage 3.0 (TID 9) (127.0.0.1 executor driver): java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""
OF_THE_JVM = """\
An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Could not parse Master URL: 'bogus'
\tat org.apache.spark.SparkContext$.createTaskScheduler(SparkContext.scala:3315)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MALFORMED, "the value at offset 1 of orders-0 is malformed: b'bad'"),
        (IN_A_UDF, "KeyError: 'pear'"),
        (TWICE, "batch 3 of sink 'x' is not committed and this is its second line"),
        (
            ANALYSIS,
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `nix` cannot be "
            "resolved. Did you mean one of the following? [`c`, `id`].",
        ),
        (STAGE, "java.io.IOException: No space left on device"),
        (OF_THE_JVM, "SparkException: Could not parse Master URL: 'bogus'"),
        ("Python worker failed to connect back.", "Python worker failed to connect back."),
    ],
    ids=["malformed", "udf", "twice", "analysis", "stage", "of the jvm", "plain"],
)
def test_the_error_that_says_something_is_shown_without_stacks(text: str, said: str) -> None:
    assert reason(RuntimeError(text)) == said


def test_an_error_without_words_has_its_kind_and_a_long_one_an_end() -> None:
    assert reason(KeyError()) == "KeyError"
    assert len(reason(RuntimeError("word " * 10_000))) == 1_500
