"""Partitioners as an option: by name, as a function, or as themselves."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from ottla.client.partitioners.base import Partitioner
from ottla.client.partitioners.default import DefaultPartitioner
from ottla.client.partitioners.function import FunctionPartitioner, PartitionFunction
from ottla.client.partitioners.keys import ConsistentRandomPartitioner, HashPartitioner
from ottla.client.partitioners.least_backup import LeastBackupPartitioner
from ottla.client.partitioners.manual import ManualPartitioner
from ottla.client.partitioners.round_robin import RoundRobinPartitioner
from ottla.errors import ConfigurationError

__all__ = ["NAMES", "as_partitioner"]

NAMES: Final = MappingProxyType[str, Partitioner](
    {
        "default": DefaultPartitioner(),
        "hash": HashPartitioner(),
        "consistent_random": ConsistentRandomPartitioner(),
        "round_robin": RoundRobinPartitioner(),
        "least_backup": LeastBackupPartitioner(),
        "manual": ManualPartitioner(),
    }
)


def as_partitioner(option: str | Partitioner | PartitionFunction) -> Partitioner:
    """What the option `partitioner` of a producer stands for.

    >>> as_partitioner("round_robin")
    RoundRobinPartitioner()
    """
    if isinstance(option, Partitioner):
        return option
    if isinstance(option, str):
        if option not in NAMES:
            raise ConfigurationError(
                f"there is no partitioner {option!r}: it is a function or one of {', '.join(NAMES)}",
                option="partitioner",
                value=option,
            )
        return NAMES[option]
    if callable(option):
        return FunctionPartitioner(option)
    raise TypeError(f"a partitioner is a name, a Partitioner or a function, not {type(option).__name__}")
