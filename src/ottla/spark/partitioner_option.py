"""`kafka.partitioner.class` of the sink: Java's classes by what they do, the client's own partitioners by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ottla.spark.option_values import OptionError

_OPTION: Final = "partitioner.class"
_OF_JAVA: Final[Mapping[str, str]] = MappingProxyType(
    {
        "org.apache.kafka.clients.producer.RoundRobinPartitioner": "round_robin",
        "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "default",
    }
)
# Without those that would make a Python object of every row.
_WHOLE_COLUMNS: Final = ("default", "hash", "round_robin", "least_backup", "manual")


def partitioner(kafka: Mapping[str, str]) -> str:
    """The name of the client's partitioner; `kafka` has the names of options without their prefix.

    >>> partitioner({"partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"})
    'round_robin'
    """
    given = kafka.get(_OPTION, "").strip()
    if not given:
        return "default"
    name = _OF_JAVA.get(given, given)
    if name not in _WHOLE_COLUMNS:
        raise OptionError(
            f"Kafka option '{_OPTION}' cannot be {given!r}: it is one of {', '.join((*_OF_JAVA, *_WHOLE_COLUMNS))}. "
            "To choose by other rules, give rows a column 'partition'"
        )
    return name
