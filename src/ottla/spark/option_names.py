"""The names of the connector's options, and what to say about a name that is none of them.

Options arrive in lower case; texts for users have the spelling of the documentation. A name that neither the
connector nor Spark knows is most often a misspelt one whose default applies in silence, so it is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

logger: Final = logging.getLogger("ottla.spark")

KAFKA_PREFIX: Final = "kafka."

_SOURCE: Final = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "includeHeaders",
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "value.format",
    "value.schema",
    "value.malformed",
    "value.malformed.column",
    "value.nested",
)
_SINK: Final = ("topic", "includeHeaders")
# What Spark itself reads from the same options, and hands on.
_SPARK: Final = ("checkpointLocation", "path", "paths", "queryName", "outputMode", "sourceName")
_SPARK_PREFIXES: Final = ("asyncprogresstracking", "_")

# Lower case -> as documented. One table for source and sink: one set of options often serves both.
SPELLED: Final[Mapping[str, str]] = MappingProxyType(
    {name.lower(): name for name in (*_SOURCE, *_SINK, *_SPARK)}
)

# Names that were logged: a stream parses its options again for every micro-batch.
_logged: set[str] = set()


def warn_once(key: str, message: str) -> None:
    """Log what a user should know, once in this process."""
    if key not in _logged:
        _logged.add(key)
        logger.warning("%s", message)


def warn_of_unknown(options: Iterable[str]) -> None:
    """Log every name, in lower case, that means nothing to anyone."""
    for name in options:
        if name in SPELLED or name.startswith((KAFKA_PREFIX, *_SPARK_PREFIXES)):
            continue
        warn_once(f"unknown {name}", f"option {name} has no effect: {_advice(name)}")


def _advice(name: str) -> str:
    if close := get_close_matches(name, SPELLED, n=1, cutoff=0.75):
        return f"did you mean {SPELLED[close[0]]}?"
    return "there is none of that name; options for Kafka's client begin with kafka."
