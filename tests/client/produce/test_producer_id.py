"""Identities, and where a partition begins that was forgotten; requests for an id are in test_ids.py."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.produce.producer_id import ProducerIdentity, ProducerIds


def test_an_identity_has_a_next_epoch_until_the_last() -> None:
    assert ProducerIdentity(7, 0).bumped() == ProducerIdentity(7, 1)
    assert ProducerIdentity(7, 2**15 - 1).bumped() is None


LAST = ProducerIdentity(7, 2**15 - 1)
UNUSED: Any = None


@pytest.mark.parametrize(
    ("used", "retired", "then"),
    [
        (None, None, ProducerIdentity(7, 3)),
        (ProducerIdentity(7, 2), None, ProducerIdentity(7, 3)),
        (ProducerIdentity(7, 3), None, ProducerIdentity(7, 4)),
        (ProducerIdentity(7, 9), None, ProducerIdentity(7, 10)),
        (ProducerIdentity(6, 9), 5, ProducerIdentity(7, 3)),
        (ProducerIdentity(6, 9), 7, None),
        (None, 7, None),
        (LAST, None, None),
    ],
)
def test_who_begins_does_so_where_a_forgotten_partition_cannot_have_been(
    used: ProducerIdentity | None, retired: int | None, then: ProducerIdentity | None
) -> None:
    ids = ProducerIds(UNUSED, UNUSED, UNUSED, UNUSED, UNUSED, UNUSED)
    ids.leave(used, retired)
    assert ids.current is None
    ids.current = ProducerIdentity(7, 3)
    ids.leave(used, retired)
    assert ids.current == then
