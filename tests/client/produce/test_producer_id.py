"""Identities and sequence numbers; asking brokers for an id is in test_produce_faults.py."""

from __future__ import annotations

from ottla.client.produce.producer_id import ProducerIdentity, next_sequence


def test_after_the_largest_sequence_comes_zero() -> None:
    largest = 2**31 - 1
    assert next_sequence(0, 1) == 1
    assert next_sequence(largest, 1) == 0
    assert next_sequence(largest - 2, 5) == 2


def test_an_identity_has_a_next_epoch_until_the_last() -> None:
    assert ProducerIdentity(7, 0).bumped() == ProducerIdentity(7, 1)
    assert ProducerIdentity(7, 2**15 - 1).bumped() is None
