"""Configs as Apache Kafka 4.3 has them: of topics, brokers, groups, client metrics and loggers.

    configs = BrokerConfigs({"message.max.bytes": 2000}, node_id=1)
    topic = TopicConfigs({"retention.ms": "60000"}, configs)
    topic.value("max.message.bytes")            # 2000

What configs there are is data (kafka.configs, tables.py). Here they are parsed, resolved, described and altered, all
of it without any I/O; broker.metadata and broker.controller keep the overrides, and node.py resolves them for a node.
"""

from ottla.broker.configs.alter import alter, incremental_alter, preprocess
from ottla.broker.configs.broker import BrokerConfigs
from ottla.broker.configs.definitions import Overrides
from ottla.broker.configs.describe import describe, describe_created
from ottla.broker.configs.loggers import BrokerLoggers
from ottla.broker.configs.topic import TopicConfigs, log_config, validate_topic
from ottla.broker.configs.values import ConfigError

__all__ = [
    "BrokerConfigs",
    "BrokerLoggers",
    "ConfigError",
    "Overrides",
    "TopicConfigs",
    "alter",
    "describe",
    "describe_created",
    "incremental_alter",
    "log_config",
    "preprocess",
    "validate_topic",
]
