"""`run`: a test's body, once on sockets and once in a simulation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.client.worlds import Body, in_simulation, on_sockets


@pytest.fixture(params=["sockets", "simulation"])
def run(request: pytest.FixtureRequest) -> Callable[[Body], object]:
    return on_sockets if request.param == "sockets" else in_simulation
