"""PipelineError: everything that is wrong with a pipeline, each mistake with the key that it is at.

A key is a path, such as ("sources", "orders", "format"), with the names of the dataclasses of `model`. Where a
pipeline comes from a file, `file` writes the same mistakes with their lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from ottla.spark.options.parsing import OptionError

Where: TypeAlias = tuple[str, ...]

_SECRET: Final = ("password", "secret", "jaas", "token", "credential")


class Mistake(NamedTuple):
    """What is wrong at a key, and what to write instead."""

    where: Where
    what: str


class PipelineError(OptionError):
    """A pipeline that cannot be: `mistakes` has each mistake, `where` is the key of the first."""

    def __init__(self, mistakes: Sequence[Mistake], text: str) -> None:
        super().__init__(text)
        self.mistakes: Final = tuple(mistakes)

    @property
    def where(self) -> Where:
        return self.mistakes[0].where


def raise_mistakes(mistakes: Iterable[Mistake], name: str) -> None:
    """As a program reads them; nothing where there are none. `name` is the pipeline's."""
    found = list(dict.fromkeys(mistakes))
    if not found:
        return
    lines = [in_a_program(mistake) for mistake in found]
    if len(lines) > 1:
        lines = [f"the pipeline {name!r} has {len(lines)} mistakes", *(f"  {line}" for line in lines)]
    raise PipelineError(found, "\n".join(lines))


def in_a_program(mistake: Mistake) -> str:
    """With the attribute of a Pipeline.

    >>> in_a_program(Mistake(("sources", "orders", "format"), "there is no format 'jsn'"))
    "sources['orders'].format: there is no format 'jsn'"
    """
    if not mistake.where:
        return mistake.what
    text, *rest = mistake.where
    if text in ("sources", "sinks", "kafka", "spark") and rest:
        text += f"[{rest.pop(0)!r}]"
    for key in rest:
        text += f"[{key!r}]" if text.endswith(".options") else f".{key}"
    return f"{text}: {mistake.what}"


def is_secret(name: str) -> bool:
    """Whether the value of an option is not to be shown."""
    return any(word in name.lower() for word in _SECRET)


def without_secrets(text: str, options: Mapping[str, str]) -> str:
    """A message about options, without the values of those that are secret."""
    for name, value in options.items():
        if is_secret(name) and value:
            text = text.replace(value, "...")
    return text


def of_option(error: OptionError, option: str, words: Mapping[str, str]) -> str:
    """What the connector says of an option, in the words of a pipeline.

    It is shown at the key that sets the option, so that a sentence need not begin with the name. `words` has names of
    other options, and what they are called in a pipeline.

    >>> of_option(OptionError("option 'startingOffsets' cannot be 'x'"), "startingOffsets", {})
    "it cannot be 'x'"
    """
    text = str(error).rstrip(".")
    name = re.escape(option)
    text = re.sub(rf"^(?:(?:Kafka )?option '{name}'|{name}): ", "", text)
    text = re.sub(rf"^(?:(?:Kafka )?option '{name}'|{name}) ", "it ", text)
    for other in sorted(words, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.]){re.escape(other)}(?![\w.]*\w)", words[other], text)
    return text


def of_property(error: OptionError, name: str, words: Mapping[str, str]) -> str:
    """What the connector says of a property of Kafka's client, whose name is there with and without a prefix."""
    text = re.sub(r" Kafka calls it [\w.]+\.$", "", str(error))
    for option in (f"kafka.{name}", name, name.replace(".", "_")):
        text = of_option(OptionError(text), option, words)
    return text
