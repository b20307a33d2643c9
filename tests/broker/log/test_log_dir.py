"""The name of a node's log directory."""

from __future__ import annotations

from pathlib import PurePosixPath

from ottla.broker.log.log_dir import log_dir


def test_every_node_has_an_absolute_path_of_its_own() -> None:
    paths = [log_dir(node_id) for node_id in (0, 1, 11)]
    assert all(PurePosixPath(path).is_absolute() for path in paths)
    assert len(set(paths)) == len(paths)
    assert log_dir(1) == paths[1]
