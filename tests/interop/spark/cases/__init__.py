"""The table of cases: what both connectors are asked, in the order in which they are."""

from __future__ import annotations

from tests.interop.spark.cases import batches, refused, sinks, streams
from tests.interop.spark.cases.case import Case

CASES: tuple[Case, ...] = (*batches.CASES, *streams.CASES, *sinks.CASES, *refused.CASES)
