"""A standalone Spark for the examples."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.pipelines.runs import SHORT_LIVED
from tests.spark.deployment.processes import environment, standalone


@pytest.fixture(scope="module")
def two_workers(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master, and two workers with a core each; the address of the master."""
    with standalone(tmp_path_factory.mktemp("standalone"), workers=2, env=environment(**SHORT_LIVED)) as url:
        yield url
