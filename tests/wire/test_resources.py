"""Numbers of the protocol for what configs and ACLs are about, as Kafka's own classes have them."""

from __future__ import annotations

from ottla.client.admin import ConfigSource as ConfigSourceOfClients
from ottla.wire.resources import AclResourceType, ConfigOperation, ConfigResourceType, ConfigSource


def test_types_of_resources_with_configs_are_powers_of_two() -> None:
    assert {kind.name: int(kind) for kind in ConfigResourceType} == {
        "TOPIC": 2,
        "BROKER": 4,
        "BROKER_LOGGER": 8,
        "CLIENT_METRICS": 16,
        "GROUP": 32,
    }


def test_types_of_resources_with_acls_count() -> None:
    assert [kind.name for kind in AclResourceType] == [
        *("UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER")
    ]
    assert list(AclResourceType) == list(range(8))


def test_operations_on_a_config_count() -> None:
    assert [operation.name for operation in ConfigOperation] == ["SET", "DELETE", "APPEND", "SUBTRACT"]
    assert list(ConfigOperation) == list(range(4))


def test_a_source_that_this_release_does_not_know_is_unknown() -> None:
    assert ConfigSource(1) is ConfigSource.TOPIC
    assert ConfigSource(99) is ConfigSource.UNKNOWN


def test_clients_see_the_sources_of_the_protocol() -> None:
    assert ConfigSourceOfClients is ConfigSource
