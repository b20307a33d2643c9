"""The volumes that a log can live on."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.log.fs import FileSystem
from tests.broker.log.fs.volumes import VOLUMES


@pytest.fixture(params=VOLUMES)
def fs(request: pytest.FixtureRequest, tmp_path: Path) -> FileSystem:
    """An empty volume; a test that has it runs on each kind."""
    return VOLUMES[request.param](tmp_path)
