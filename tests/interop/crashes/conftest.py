"""Clusters of both kinds for the matrix, and the runs of a scenario on them.

Not the fixtures `broker` and `broker3`: on Apache Kafka too all of this belongs to a target of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.brokers import ApacheBroker, Broker, EmbeddedBroker
from tests.interop.crashes.runs import Runs

_KINDS = ["ottla", "apache"]


@pytest.fixture(params=_KINDS)
def either_broker(request: pytest.FixtureRequest, java: None) -> Broker:
    if request.param == "ottla":
        return EmbeddedBroker(request.getfixturevalue("embedded"))
    return ApacheBroker(request.getfixturevalue("apache"))


@pytest.fixture(params=_KINDS)
def either_three(request: pytest.FixtureRequest, java: None) -> Broker:
    """Three nodes, which may fail: the others notice it soon."""
    if request.param == "ottla":
        return EmbeddedBroker(request.getfixturevalue("alert3"))
    return ApacheBroker(request.getfixturevalue("apache3"))


@pytest.fixture
def runs(request: pytest.FixtureRequest, either_broker: Broker, tmp_path: Path) -> Runs:
    return Runs(request.param, either_broker, tmp_path)


@pytest.fixture
def runs_on_three(request: pytest.FixtureRequest, either_three: Broker, tmp_path: Path) -> Runs:
    return Runs(request.param, either_three, tmp_path)
