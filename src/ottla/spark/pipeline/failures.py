"""What went wrong in a pipeline, in one paragraph: Spark's errors carry a stack of the JVM and one of each Python.

Of those only the last error counts that says something: of a Python process its own message, of a query that cannot
be planned Spark's, without the plan behind it.

Invariant: what is shown is text out of the error, shortened and never made up.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.errors import KafkaError

_TRACEBACK: Final = "Traceback (most recent call last):"
# The end of a traceback: the error, which begins at the margin, up to the first line that is not Python's any more.
_PYTHON_ERROR: Final = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*): (?P<text>.*)\Z", re.DOTALL)
_OF_THE_JVM: Final = re.compile(r"^\s*(at [\w.$/]+\(|\.\.\. \d+ more|Caused by: |Driver stacktrace:|=== )")
# Of an error for which PySpark has no class of its own.
_CALLING: Final = re.compile(r"^An error occurred while calling \S+\s*\n: (?:[\w$]+\.)*")
_STREAM_FAILED: Final = re.compile(r"^\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ")
# Behind the sentence of an AnalysisException: where in the SQL, and the plan.
_PLAN: Final = re.compile(r";?( line \d+ pos \d+;?)?\n\s*['+:A-Z(].*\Z", re.DOTALL)
_SQL_STATE: Final = re.compile(r"\s*SQLSTATE: \w{5}")
_TASK: Final = re.compile(
    r"^(Job aborted due to stage failure: |Task \d+ in stage [\d.]+ failed \d+ times, most recent failure: "
    r"|Lost task [\d.]+ in stage [\d.]+ \([^)]*\)(?: \([^)]*\))*: )+"
)
_LONGEST: Final = 1_500


class PipelineFailedError(KafkaError):
    """A query of a pipeline has failed: `sink` is the one that it writes to, the cause is Spark's error."""

    def __init__(self, sink: str, reason: str) -> None:
        super().__init__(f"sink {sink}: {reason}")
        self.sink = sink
        self.reason = reason


def reason(error: BaseException) -> str:
    """What the user is to read of an error of Spark's."""
    text = _python_error(str(error)) or _without_stack(str(error))
    text = " ".join(_SQL_STATE.sub("", text).split()) or type(error).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."


def _python_error(text: str) -> str | None:
    """The last error that a Python process had, which the others only hand on."""
    _, found, behind = text.rpartition(_TRACEBACK)
    if not found:
        return None
    lines: list[str] = []
    for line in behind.splitlines():
        if lines and (_OF_THE_JVM.match(line) or not line.strip()):
            break
        if lines or (line[:1].strip() and _PYTHON_ERROR.match(line)):
            lines.append(line)
    match = _PYTHON_ERROR.match("\n".join(lines))
    if match is None:
        return None
    kind, said = match["kind"].rpartition(".")[2], match["text"]
    return said if said and _speaks_for_itself(kind) else f"{kind}: {said}"


def _speaks_for_itself(kind: str) -> bool:
    """Ottla's errors say what to do; of others, such as KeyError, the kind is half of what they say."""
    from ottla import errors

    return hasattr(errors, kind) or kind in (
        "OptionError",
        "SinkError",
        "SinkColumnError",
        "MalformedValueError",
    )


def _without_stack(text: str) -> str:
    text = _STREAM_FAILED.sub("", _CALLING.sub("", text))
    text = _PLAN.sub("", text) if text.startswith("[") else text
    lines = []
    for line in text.splitlines():
        if _OF_THE_JVM.match(line):
            break
        lines.append(line)
    return _TASK.sub("", "\n".join(lines)).rstrip(" \n;")
