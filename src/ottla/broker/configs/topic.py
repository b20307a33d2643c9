"""What holds for one topic: its own configs, and its broker's for the rest.

Describing is in describe.py, altering in alter.py; here are the values, the rules between them, and what of them the
topic's logs honour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.broker.configs.broker import BrokerConfigs
from ottla.broker.configs.definitions import Overrides
from ottla.broker.configs.names import hash_order
from ottla.broker.configs.tables import TOPIC
from ottla.broker.configs.values import ConfigError, invalid
from ottla.broker.log.config import LogConfig
from ottla.errors import InvalidConfigError


class TopicConfigs:
    """The configs of one topic on one broker.

    >>> topic = TopicConfigs({"retention.ms": "50"}, BrokerConfigs({"message.max.bytes": 2000}, node_id=1))
    >>> topic.value("retention.ms"), topic.value("max.message.bytes")
    (50, 2000)

    Values are looked up once: after a change of the broker's configs, make a new one.
    """

    def __init__(self, overrides: Overrides, broker: BrokerConfigs) -> None:
        self.overrides = overrides
        self.broker = broker
        self._values: dict[str, Any] = {}

    def value(self, name: str) -> Any:
        """What holds, typed; KeyError for a name that no topic config has."""
        try:
            return self._values[name]
        except KeyError:
            value = self._values[name] = self._resolve(name)
            return value

    def _resolve(self, name: str) -> Any:
        text = self.overrides.get(name)
        if text is not None:
            return TOPIC.parse(name, text)
        value = value_of_broker(name, self.broker)
        return TOPIC.default(name) if value is None else value


def value_of_broker(name: str, broker: BrokerConfigs) -> Any:
    """What the broker has set for all topics, in the topic's unit; None where it has no such config."""
    value = broker.first_value(TOPIC[name].synonyms)
    # Whatever a broker's negative retention is, it means forever.
    return max(value, -1) if name == "retention.ms" else value


def log_config(topic: TopicConfigs) -> LogConfig:
    """What the logs of one topic honour of its configs, as its broker sees them, and of the broker's own.

    `segment_bytes` is the size that counts: `internal.segment.bytes` where a test has set it.
    """
    named = {name.replace("_", "."): name for name in LogConfig.__dataclass_fields__}
    settings = {named[name]: topic.value(name) for name in TOPIC if name in named}
    internal_segment_bytes = topic.value("internal.segment.bytes")
    if internal_segment_bytes is not None:
        settings["segment_bytes"] = internal_segment_bytes
    policies = topic.value("cleanup.policy")
    return LogConfig(
        compact="compact" in policies,
        delete="delete" in policies,
        producer_id_expiration_ms=topic.broker.value("producer.id.expiration.ms"),
        transaction_partition_verification_enable=topic.broker.value(
            "transaction.partition.verification.enable"
        ),
        **settings,
    )


def validate_topic(
    overrides: Mapping[str, str | None], broker: BrokerConfigs, existing: Overrides | None = None
) -> None:
    """Raises the InvalidConfigError with which Kafka refuses a topic with these configs.

    `existing` are those that the topic has so far; a new topic has none.
    """
    nulls = [name for name, value in overrides.items() if value is None]
    if nulls:
        raise InvalidConfigError(f"Null value not supported for topic configs: {','.join(nulls)}")
    for name in hash_order(overrides):
        if name not in TOPIC:
            raise InvalidConfigError(f"Unknown topic config name: {name}")
    given = {name: value for name, value in overrides.items() if value is not None}
    topic = TopicConfigs(given, broker)
    try:
        for name in TOPIC:
            if name in given:
                topic.value(name)
        _check_compaction_lag(topic)
        _check_remote_storage(topic, existing or {})
    except ConfigError as error:
        raise InvalidConfigError(str(error)) from None


def _check_compaction_lag(topic: TopicConfigs) -> None:
    low, high = topic.value("min.compaction.lag.ms"), topic.value("max.compaction.lag.ms")
    if low > high:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )


def _check_remote_storage(topic: TopicConfigs, existing: Overrides) -> None:
    """KIP-405 and KIP-950."""
    if not topic.value("remote.storage.enable"):
        was_enabled = existing.get("remote.storage.enable", "").strip().lower() == "true"
        if was_enabled and not topic.value("remote.log.delete.on.disable"):
            raise ConfigError(
                "It is invalid to disable remote storage without deleting remote data. "
                "If you want to keep the remote data and turn to read only, please set "
                "`remote.storage.enable=true,remote.log.copy.disable=true`. "
                "If you want to disable remote storage and delete all remote data, please set "
                "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
            )
        return
    if not topic.broker.value("remote.log.storage.system.enable"):
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if topic.value("cleanup.policy") not in ((), ("delete",)):
        raise ConfigError(
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an "
            "empty list."
        )
    check_local_retention(topic.value("local.retention.bytes"), topic.value("retention.bytes"), "bytes")
    check_local_retention(topic.value("local.retention.ms"), topic.value("retention.ms"), "ms")
    if topic.value("remote.log.copy.disable"):
        for unit in ("bytes", "ms"):
            _check_same_retention(topic, unit)


def check_local_retention(local: int, total: int, unit: str, prefix: str = "") -> None:
    """What stays on the broker is a part of what stays at all; -1 is no limit, -2 the same as the whole."""
    if total < 0 or local == -2:
        return
    name, whole = f"{prefix}local.retention.{unit}", f"{prefix}retention.{unit}"
    if local == -1:
        raise invalid(name, local, f"Value must not be -1 as {whole} value is set as {total}.")
    if local > total:
        raise invalid(name, local, f"Value must not be more than {whole} property value: {total}")


def _check_same_retention(topic: TopicConfigs, unit: str) -> None:
    local, total = topic.value(f"local.retention.{unit}"), topic.value(f"retention.{unit}")
    if local not in (-2, total):
        raise ConfigError(
            f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and "
            f"`retention.{unit}` must be set to the identical value because there will be no more logs copied "
            "to the remote storage."
        )
