"""The operations that ACLs are about, and what a client may do while there are no ACLs."""

from __future__ import annotations

from ottla.broker.security.acl import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, AclOperation, bit_field


def test_an_operation_is_the_bit_of_its_number() -> None:
    assert bit_field() == 0
    assert bit_field(AclOperation.READ, AclOperation.IDEMPOTENT_WRITE) == 0b1_0000_0000_1000


def test_without_acls_every_operation_on_a_resource_is_allowed() -> None:
    # As in the responses of Apache Kafka without an authorizer (KIP-430).
    assert TOPIC_OPERATIONS == 0b110111111000
    assert CLUSTER_OPERATIONS == 0b1111110100000
