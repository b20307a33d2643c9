"""What configs and ACLs are about, as the protocol numbers it: types of resources, operations, sources of values.

Kafka numbers resources twice: configs have powers of two, ACLs count. A topic is 2 in both, which is an accident.
"""

from __future__ import annotations

from enum import IntEnum


class ConfigResourceType(IntEnum):
    """What has configs: ConfigResource.Type of Kafka."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class AclResourceType(IntEnum):
    """What an ACL protects: ResourceType of Kafka. A filter may name ANY."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs does to one config (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(IntEnum):
    """Where the value of a config comes from."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN
