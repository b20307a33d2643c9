"""Whether the tasks of a micro-batch have the same rows when it runs again, as far as a query says so.

The exactly-once sink recognizes a task that has written already by its number. That is wrong where chance decides
which rows a task has: a filter by `rand()`, a `sample`, a shuffle by `uuid()`. A column of random values does no harm
by itself, since a task that is done again replaces what it had written. So the plan is followed from the source up:
which columns are random, and whether a step above looks at them.

Adaptive execution is another such chance: it chooses the number of tasks by the sizes that it has measured.

Not here: other numbers of tasks, which `commit_batch` compares by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ottla.spark.options.parsing import logger

_ADAPTIVE_STREAMS: Final = "spark.sql.adaptive.streaming.stateless.enabled"
_COLUMNS: Final = {"Project": "projectList", "Aggregate": "aggregateExpressions"}
"""The steps that make columns, which may be random, and where they keep them."""
_KEYS: Final = {"Project": (), "Aggregate": ("groupingExpressions",)}
"""What decides in these steps which rows there are; in all others any expression may."""
_SAMPLE: Final = "Sample"


def fix_tasks(session: Any) -> None:
    """Keeps Spark from choosing the number of tasks anew when a micro-batch of this session's queries runs again."""
    if session.conf.get(_ADAPTIVE_STREAMS, None) != "false":
        session.conf.set(_ADAPTIVE_STREAMS, "false")
        logger.info("%s is off from now on: exactly-once delivery needs the same tasks", _ADAPTIVE_STREAMS)


def what_is_unstable(frame: Any) -> str | None:
    """The step of the frame's plan by which tasks may have other rows the next time; Spark Connect hides the plan."""
    classic = getattr(frame, "_jdf", None)
    if classic is None:
        return None
    found: list[str] = []
    _random_columns(classic.queryExecution().analyzed(), found)
    return found[0] if found else None


def _random_columns(plan: Any, found: list[str]) -> set[int]:
    """The ids of the columns that have other values the next time; `found` gets the steps that look at such."""
    random: set[int] = set()
    for child in _items(plan.children()):
        random |= _random_columns(child, found)
    name = plan.nodeName()
    if name == _SAMPLE:
        found.append("a sample of the rows")
    for keys in _KEYS.get(name, ("expressions",)):
        found += [
            f"{name} by {key.sql()}" for key in _items(getattr(plan, keys)()) if _is_random(key, random)
        ]
    columns = _items(getattr(plan, _COLUMNS[name])()) if name in _COLUMNS else ()
    return random | {each.exprId().id() for each in columns if _is_random(each, random)}


def _is_random(expression: Any, random: set[int]) -> bool:
    if not expression.deterministic():
        return True
    references = _items(expression.references().toSeq())
    return any(each.exprId().id() in random for each in references)


def _items(sequence: Any) -> Iterator[Any]:
    """Of a sequence of Scala."""
    return (sequence.apply(index) for index in range(sequence.size()))
