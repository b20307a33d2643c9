"""The short form of the soak, and that it finds what is planted into it."""

from __future__ import annotations

from typing import Any

import pytest

import ottla
from tests.soak.growth import GrowthError
from tests.soak.run import for_cycles, soak
from tests.soak.serving import Served

CYCLES = 8


def test_nothing_grows_while_clients_come_and_go() -> None:
    assert soak(for_cycles(CYCLES), warm_up=2, window=2, is_brief=True) == CYCLES


def test_clients_that_are_kept_are_found() -> None:
    kept: list[Any] = []

    def keep(cluster: Served) -> None:
        kafka = ottla.Client(cluster.bootstrap)
        kafka.produce("steady", b"1").result(timeout=30)
        kafka.close()
        kept.append(kafka)

    with pytest.raises(GrowthError) as found:
        soak(for_cycles(CYCLES), warm_up=2, window=2, is_brief=True, disturb_every=0, plant=keep)
    assert "objects of type ottla.client.blocking.client.Client: " in str(found.value)
