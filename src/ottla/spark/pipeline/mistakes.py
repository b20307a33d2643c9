"""PipelineError: everything that is wrong with a pipeline, each mistake with the key that it is at.

A key is a path, such as ("sources", "orders", "format"), with the names of the dataclasses of `model`. Where a pipeline
comes from a file, `file` writes the same mistakes with their lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from ottla.spark.options.parsing import OptionError

Where: TypeAlias = tuple[str, ...]


class Mistake(NamedTuple):
    """What is wrong at a key, and what to write instead."""

    where: Where
    what: str


class PipelineError(OptionError):
    """A pipeline that cannot be: `mistakes` has each mistake, `where` the key of the first."""

    def __init__(self, mistakes: Sequence[Mistake], text: str) -> None:
        super().__init__(text)
        self.mistakes: Final = tuple(mistakes)

    @property
    def where(self) -> Where:
        return self.mistakes[0].where


def in_a_program(mistake: Mistake) -> str:
    """As the attribute of a Pipeline.

    >>> in_a_program(Mistake(("sources", "orders", "format"), "it cannot be 'jsn'"))
    "sources['orders'].format: it cannot be 'jsn'"
    """
    return f"{_attribute(mistake.where)}: {mistake.what}" if mistake.where else mistake.what


def _attribute(where: Where) -> str:
    first, *rest = where
    if first in ("sources", "sinks") and rest:
        name, *rest = rest
        text = ".".join([f"{first}[{name!r}]", *rest[:1]])
        rest = rest[1:]
    else:
        text = first
    return text + "".join(f".{key}" if key.isidentifier() else f"[{key!r}]" for key in rest)


def raise_for(mistakes: Sequence[Mistake], name: str, show: Callable[[Mistake], str] = in_a_program) -> None:
    """Nothing where there are none; `name` is the pipeline's."""
    if not mistakes:
        return
    lines = [show(mistake) for mistake in mistakes]
    if len(lines) > 1 and show is in_a_program:
        lines = [f"the pipeline {name!r} has {len(lines)} mistakes", *(f"  {line}" for line in lines)]
    raise PipelineError(mistakes, "\n".join(lines))
