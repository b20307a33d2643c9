"""One line of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.interop.spark.jobs import Job


@dataclass(frozen=True)
class Case:
    """A job with its options. With `says`, it is to fail, and its error to say these words.

    The words are those that both connectors say: the rest of the sentence is each one's own.
    """

    id: str
    job: Job
    options: Mapping[str, str] = field(default_factory=dict)
    says: tuple[str, ...] = ()
    full: bool = False
    """Whether it is one more of its kind, for the long runs only."""
