"""What a broker may change while it runs, and what all brokers may change at once (KIP-226).

The error messages are Kafka's, also where a nested exception shows in them: they are what its clients see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.broker.configs import values
from ottla.broker.configs.broker import BrokerConfigs, base_name, definition_of, is_for_listener
from ottla.broker.configs.broker_rules import (
    check_class,
    check_connection_limits,
    check_rules,
    foreign_reporters,
)
from ottla.broker.configs.definitions import Overrides, UpdateMode
from ottla.broker.configs.names import hash_order
from ottla.broker.configs.tables import BROKER
from ottla.broker.configs.topic import check_local_retention, value_of_broker
from ottla.broker.configs.values import ConfigError

# In the order in which Kafka checks whether they can follow.
_THREAD_POOLS: Final = (
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "background.threads",
    "num.io.threads",
    "remote.log.reader.threads",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
)
# A broker may have these per listener, and all brokers the same.
_LISTENER_CONFIGS_OF_ALL: Final = ("max.connections", "max.connection.creation.rate", "num.network.threads")


def check_change(configs: BrokerConfigs, overrides: Overrides, *, for_all: bool) -> None:
    """Raises ConfigError if a running broker could not take these as its new dynamic configs.

    `for_all` says that they are the defaults of all brokers, and not this one's own.
    """
    _check_may_change(overrides, for_all=for_all)
    if for_all:
        before, changed = configs.dynamic_default, configs.with_dynamic(configs.dynamic, overrides)
    else:
        before, changed = configs.dynamic, configs.with_dynamic(overrides, configs.dynamic_default)
    check_rules(changed)
    if changed.value("log.cleaner.threads") == 0:
        raise ConfigError("/ by zero")  # of the cleaner's buffer, which its threads share
    check_connection_limits(changed)
    try:
        _check_transition(
            configs, changed, [name for name in overrides if overrides[name] != before.get(name)]
        )
    except ConfigError as error:
        raise ConfigError(
            f"Invalid value org.apache.kafka.common.config.ConfigException: {error} "
            "for configuration Invalid dynamic configuration"
        ) from None


def _check_may_change(overrides: Overrides, *, for_all: bool) -> None:
    known = {name: found for name in hash_order(overrides) if (found := definition_of(name)) is not None}
    _refuse(
        "Cannot update these configs dynamically",
        [
            name
            for name, definition in known.items()
            if definition.update_mode is UpdateMode.READ_ONLY and not is_for_listener(name)
        ],
    )
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        [name for name, definition in known.items() if definition.per_listener and not is_for_listener(name)],
    )
    order = {name: position for position, name in enumerate(BROKER)}
    for name in sorted(known, key=lambda name: (order[known[name].name], is_for_listener(name))):
        values.parse(known[name], overrides[name])
        check_class(known[name], name, overrides[name])
    if for_all:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            [name for name in overrides if _is_of_one_broker(name)],
        )


def _is_of_one_broker(name: str) -> bool:
    if is_for_listener(name):
        return base_name(name) not in _LISTENER_CONFIGS_OF_ALL
    definition = definition_of(name)
    return definition is not None and definition.update_mode is UpdateMode.PER_BROKER


def _refuse(message: str, names: list[str]) -> None:
    if names:
        raise ConfigError(f"{message}: [{', '.join(hash_order(names))}]")


def _check_transition(old: BrokerConfigs, new: BrokerConfigs, updated: Sequence[str]) -> None:
    """What running threads and connections could not follow."""
    for name in ("max.connections", "max.connection.creation.rate"):
        if new.value(name) < 1:
            raise ConfigError(f"Invalid {name} {new.value(name)}")
    _check_pool("num.network.threads", old, new)
    if foreign_reporters(new):
        raise ConfigError(
            f"Validation of dynamic config update of Set({', '.join(hash_order(updated))}) failed with class "
            "class kafka.server.DynamicMetricsReporters"
        )
    for name in _THREAD_POOLS:
        _check_pool(name, old, new)
    _check_cleaner_threads(old.value("log.cleaner.threads"), new.value("log.cleaner.threads"))
    retention_ms = value_of_broker("retention.ms", new)
    check_local_retention(new.value("log.local.retention.ms"), retention_ms, "ms", "log.")
    retention_bytes = new.value("log.retention.bytes")
    check_local_retention(new.value("log.local.retention.bytes"), retention_bytes, "bytes", "log.")


def _check_pool(name: str, before: BrokerConfigs, after: BrokerConfigs) -> None:
    old, new = before.value(name), after.value(name)
    failed = f"Dynamic thread count update validation failed for {name}={new}"
    if new < old // 2:
        raise ConfigError(f"{failed}, value should be at least half the current value {old}")
    if new > old * 2:
        raise ConfigError(f"{failed}, value should not be greater than double the current value {old}")


def _check_cleaner_threads(old: int, new: int) -> None:
    if new < old // 2:
        raise ConfigError(f"Log cleaner threads cannot be reduced to less than half the current value {old}")
    if new > old * 2:
        raise ConfigError(
            f"Log cleaner threads cannot be increased to more than double the current value {old}"
        )
