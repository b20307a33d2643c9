"""The levels of a broker's loggers, as far as requests can see and set them (KIP-412).

They live in one broker and are gone with it: nothing of them is in the metadata log. What a level does to
Python's logging is not decided here, since the root logger belongs to the program that embeds the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.broker.configs.names import check_is_node
from ottla.errors import InvalidConfigError, InvalidRequestError, UnknownServerError
from ottla.wire.messages import IncrementalAlterConfigsRequest
from ottla.wire.resources import ConfigOperation

ROOT: Final = "root"
_LEVELS: Final = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")


class BrokerLoggers:
    """Logger names and their levels; one without a level of its own has the root's."""

    def __init__(self, names: Iterable[str] = ("ottla.broker",)) -> None:
        self._levels: dict[str, str | None] = {ROOT: "INFO", **dict.fromkeys(names)}

    def levels(self) -> dict[str, str]:
        """The level of every logger, by name."""
        root = self._levels[ROOT] or "INFO"
        return {name: level or root for name, level in sorted(self._levels.items())}

    def check(self, resource: IncrementalAlterConfigsRequest.AlterConfigsResource, node_id: int) -> None:
        """Raises the BrokerError with which Kafka refuses such a change."""
        name = resource.resource_name
        check_is_node(name, node_id, f"Unexpected node id. Expected {node_id}, but received {name}")
        for config in resource.configs:
            self._check_one(config.name, config.config_operation, config.value)

    def apply(self, resource: IncrementalAlterConfigsRequest.AlterConfigsResource) -> None:
        """Makes a change that has been checked."""
        for config in resource.configs:
            is_set = config.config_operation == ConfigOperation.SET
            self._levels[config.name] = config.value if is_set else None

    def _check_one(self, name: str, operation: int, level: str | None) -> None:
        match operation:
            case ConfigOperation.SET:
                self._check_exists(name)
                if level not in _LEVELS:
                    raise InvalidConfigError(
                        f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
                        f"Valid log levels are {', '.join(_LEVELS)}"
                    )
            case ConfigOperation.DELETE:
                self._check_exists(name)
                if name == ROOT:
                    raise InvalidRequestError("Removing the log level of the root logger is not allowed")
            case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
                what = ConfigOperation(operation).name
                raise InvalidRequestError(f"{what} operation is not allowed for the BROKER_LOGGER resource")
            case _:
                raise UnknownServerError  # as in Kafka, which does not expect it

    def _check_exists(self, name: str) -> None:
        if name not in self._levels:
            raise InvalidConfigError(f"Logger {name} does not exist!")
