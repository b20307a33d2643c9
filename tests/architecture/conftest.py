"""The sources are parsed once for all rules, and let go afterwards."""

from collections.abc import Iterator

import pytest

from tests.architecture.source import real_tree


@pytest.fixture(scope="package", autouse=True)
def _trees_are_let_go() -> Iterator[None]:
    """A million nodes that stay would be walked by every later test that collects garbage."""
    yield
    real_tree.cache_clear()
