"""What a pipeline may be: every mistake that can be known without Spark and without a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.spark.pipeline.model import Pipeline


def check(pipeline: Pipeline) -> None:
    """Raises PipelineError with all mistakes."""
