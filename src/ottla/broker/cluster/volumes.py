"""Where a cluster keeps its files: in memory, or below the directories that `data_dir` names.

    <data_dir>/controller/          the metadata log
    <data_dir>/node-1/              the logs of node 1, as Kafka lays them out (log/log_dir.py)

With several directories every node has one in each, as with several entries in Kafka's log.dirs, and the metadata log
is in the first. A volume outlives its node: what that wrote is there when it starts again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.broker.cluster.options import check
from ottla.broker.controller.decision import CONTROLLER_ID
from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.log.fs.directory import DirectoryFileSystem
from ottla.broker.log.log_dir import (
    META_FILE,
    LogDirectories,
    LogDirectory,
    LogDirError,
    claim,
    read_properties,
    write_properties,
)
from ottla.wire import Uuid

if TYPE_CHECKING:
    from ottla.broker.log.fs import FileSystem
    from ottla.runtime import Random

_log = logging.getLogger("ottla.broker.cluster.volumes")

DataDir = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, or several."""

_IN_MEMORY: Final = "/ottla"
"""Where the directories of nodes in memory seem to be: a path that is absolute, and another one for each node."""


def data_dirs(given: DataDir | None) -> tuple[Path, ...]:
    """The paths that are meant, absolute; none for a cluster in memory."""
    if given is None:
        return ()
    several = [given] if isinstance(given, str | os.PathLike) else given
    check("data_dir", several, (list, tuple), "a path, or a list of paths,")
    for each in several:
        check("data_dir", each, (str, os.PathLike), "a path, or a list of paths,")
    paths = tuple(Path(each).absolute() for each in several)
    if not paths or not all(map(os.fspath, several)):
        raise ValueError(f"data_dir={given!r}: a path is meant; without data_dir all is kept in memory")
    if len(set(paths)) < len(paths):
        raise ValueError(f"data_dir={given!r}: a path is named twice")
    return paths


class Volumes:
    """The volumes of one cluster."""

    def __init__(self, roots: Sequence[Path] = ()) -> None:
        self._roots = tuple(roots)
        self._nodes: dict[int, dict[str, FileSystem]] = {}
        self._controller: FileSystem | None = None
        self._on_disk: set[int] = set()
        self._opened: list[DirectoryFileSystem] = []

    @property
    def in_memory(self) -> bool:
        return not self._roots

    def of(self, node_id: int) -> dict[str, FileSystem]:
        """The volumes of a node, by path."""
        if node_id not in self._nodes:
            name = f"node-{node_id}"
            self._nodes[node_id] = (
                {f"{_IN_MEMORY}/{name}": MemoryFileSystem()}
                if self.in_memory
                else {f"{root / name}": self._open(root / name) for root in self._roots}
            )
        return self._nodes[node_id]

    def use(self, node_id: int, *volumes: FileSystem, on_disk: bool = False) -> None:
        """Gives a node other volumes than it would get: those of tests, which fail; as of a disk, or of memory."""
        if on_disk:
            self._on_disk.add(node_id)
        paths = [f"{_IN_MEMORY}/node-{node_id}", *(f"{_IN_MEMORY}/{n}/node-{node_id}" for n in range(1, 9))]
        self._nodes[node_id] = dict(zip(paths, volumes, strict=False))

    def forget(self, node_id: int) -> None:
        """The node does not exist any more; files on a disk stay."""
        self._nodes.pop(node_id, None)

    @property
    def controller(self) -> FileSystem:
        """The volume of the controller."""
        if self._controller is None:
            self._controller = MemoryFileSystem() if self.in_memory else self._open(self._controller_path)
        return self._controller

    @controller.setter
    def controller(self, fs: FileSystem) -> None:
        self._controller = fs

    @property
    def _controller_path(self) -> Path:
        return self._roots[0] / "controller"

    def claim_cluster(self, cluster_id: str, random: Random) -> str:
        """The id of the cluster whose files are here; with none, they are those of a new one with this id."""
        if self.in_memory:
            return cluster_id
        path, fs = str(self._controller_path), self.controller
        try:
            known = read_properties(path, fs)
            if known is None:
                self._check_new()
                write_properties(fs, cluster_id, CONTROLLER_ID, Uuid(random.randbytes(16)))
                return cluster_id
        except OSError as error:
            raise _unusable(path, error) from error
        if "cluster.id" not in known:
            raise LogDirError(
                f"{path}/{META_FILE} has no cluster.id. Use an empty directory, or restore the file"
            )
        return known["cluster.id"]

    def _check_new(self) -> None:
        """Where there is no metadata log there are no nodes: theirs would be that of another cluster."""
        for root in self._roots:
            for properties in sorted(root.glob(f"node-*/{META_FILE}")):
                raise LogDirError(
                    f"{properties.parent} belongs to a cluster whose metadata log is not in {self._roots[0]}. Name "
                    "the same data_dirs as when it was made, in the same order, or use empty ones"
                )

    def directories(self, node_id: int, cluster_id: str, random: Random) -> LogDirectories:
        """What a node that starts has for its logs. It does without some that cannot be read, not without all."""
        found = [
            self._claimed(path, fs, node_id, cluster_id, random) for path, fs in self.of(node_id).items()
        ]
        failed = [directory for directory in found if directory.failure is not None]
        for directory in failed:
            assert directory.failure is not None
            if len(failed) == len(found):
                raise _unusable(directory.path, directory.failure)
            _log.error("node %s starts without %s: %s", node_id, directory.path, directory.failure)
        return LogDirectories(found)

    def _claimed(
        self, path: str, fs: FileSystem, node_id: int, cluster_id: str, random: Random
    ) -> LogDirectory:
        in_memory = self.in_memory and node_id not in self._on_disk
        try:
            directory_id = claim(path, fs, cluster_id, node_id, random)
            return LogDirectory(path, fs, directory_id, in_memory=in_memory)
        except OSError as error:
            return LogDirectory(path, fs, Uuid(bytes(16)), in_memory=in_memory, failure=error)

    def _open(self, path: Path) -> DirectoryFileSystem:
        """The directory, which no other cluster has from now on."""
        try:
            volume = DirectoryFileSystem(path)
            volume.lock()
        except OSError as error:
            raise _unusable(str(path), error) from error
        self._opened.append(volume)
        return volume

    def close(self) -> None:
        """Lets others have the directories."""
        for volume in self._opened:
            volume.close()
        self._opened.clear()


def _unusable(path: str, error: OSError) -> LogDirError:
    why = error.strerror or str(error)
    return LogDirError(f"{path} cannot be used: {why}. Choose another data_dir, or make it writable")
