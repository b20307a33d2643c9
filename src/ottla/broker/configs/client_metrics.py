"""Subscriptions to the metrics of clients (KIP-714): what one may say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ottla.broker.configs.definitions import Overrides
from ottla.broker.configs.names import hash_order
from ottla.broker.configs.tables import CLIENT_METRICS
from ottla.broker.configs.values import ConfigError
from ottla.errors import InvalidConfigError, InvalidRequestError

_MIN_INTERVAL_MS: Final = 100
_MAX_INTERVAL_MS: Final = 3_600_000

# What distinguishes clients.
_MATCHED: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def validate_client_metrics(overrides: Overrides) -> None:
    """Raises the BrokerError with which Kafka refuses a subscription with these configs."""
    for name in hash_order(overrides):
        if name not in CLIENT_METRICS:
            raise InvalidRequestError(f"Unknown client metrics configuration: {name}")
    try:
        parsed = {
            name: CLIENT_METRICS.parse(name, overrides[name]) for name in CLIENT_METRICS if name in overrides
        }
    except ConfigError as error:
        raise InvalidConfigError(str(error)) from None
    interval = parsed.get("interval.ms")
    if isinstance(interval, int) and not _MIN_INTERVAL_MS <= interval <= _MAX_INTERVAL_MS:
        raise InvalidRequestError(
            f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        )
    patterns = parsed.get("match", ())
    assert isinstance(patterns, tuple)
    parse_matches(patterns)


def parse_matches(patterns: Sequence[str]) -> dict[str, re.Pattern[str]]:
    """What `match` says: for each thing that distinguishes clients, what it has to look like."""
    parsed = {}
    for pattern in patterns:
        name, equals, expression = (part.strip() for part in pattern.partition("="))
        if not equals or not expression or "=" in expression or name not in _MATCHED:
            raise InvalidConfigError(f"Illegal client matching pattern: {pattern}")
        try:
            parsed[name] = re.compile(expression)
        except re.error:
            raise InvalidConfigError(f"Illegal client matching pattern: {pattern}") from None
    return parsed
