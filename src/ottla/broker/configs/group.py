"""What holds for one group: its own configs, and its broker's for the rest (KIP-848, KIP-932, KIP-1071)."""

from __future__ import annotations

from typing import Any, Final

from ottla.broker.configs.broker import BrokerConfigs
from ottla.broker.configs.definitions import Overrides
from ottla.broker.configs.names import hash_order
from ottla.broker.configs.tables import GROUP
from ottla.broker.configs.values import ConfigError
from ottla.errors import InvalidConfigError

# The bounds are the broker's: group.{protocol}.min.{name} and group.{protocol}.max.{name}. In Kafka's order,
# which decides which of several faults a response names.
_BOUNDED: Final = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "consumer.assignment.interval.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
    "streams.assignment.interval.ms",
)


class GroupConfigs:
    """The configs of one group on one broker; after a change of the broker's, make a new one."""

    def __init__(self, overrides: Overrides, broker: BrokerConfigs) -> None:
        self.overrides = overrides
        self.broker = broker

    def value(self, name: str) -> Any:
        """What holds, typed; KeyError for a name that no group config has."""
        text = self.overrides.get(name)
        if text is not None:
            return GROUP.parse(name, text)
        value = self.broker.first_value(GROUP[name].synonyms)
        return GROUP.default(name) if value is None else value


def validate_group(overrides: Overrides, broker: BrokerConfigs) -> None:
    """Raises the InvalidConfigError with which Kafka refuses a group with these configs."""
    # Kafka adds them to the defaults of all configs before it looks.
    for name in hash_order([*GROUP, *hash_order(overrides)]):
        if name not in GROUP:
            raise InvalidConfigError(f"Unknown group config name: {name}")
    group = GroupConfigs(overrides, broker)
    try:
        for name in GROUP:
            if name in overrides:
                group.value(name)
        _check_bounds(group)
    except ConfigError as error:
        raise InvalidConfigError(str(error)) from None


def _check_bounds(group: GroupConfigs) -> None:
    for name in _BOUNDED:
        protocol, _, rest = name.partition(".")
        low, high = f"group.{protocol}.min.{rest}", f"group.{protocol}.max.{rest}"
        if group.value(name) < group.broker.value(low):
            raise ConfigError(f"{name} must be greater than or equal to {low}")
        if group.value(name) > group.broker.value(high):
            raise ConfigError(f"{name} must be less than or equal to {high}")
    standbys, most = "streams.num.standby.replicas", "group.streams.max.standby.replicas"
    if group.value(standbys) > group.broker.value(most):
        raise ConfigError(f"{standbys} must be less than or equal to {most}")
    for protocol in ("consumer", "share", "streams"):
        session, heartbeat = f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms"
        if group.value(session) <= group.value(heartbeat):
            raise ConfigError(f"{session} must be greater than {heartbeat}")
