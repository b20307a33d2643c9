"""The volume that holds the logs of a cluster, and who has which of them open.

Until replicas copy from each other, all nodes of a cluster mount one volume: a partition has one log, and every
replica holds the same. The first holder opens it, which recovers it from its files; the last one to let go
closes it. A node that is given a volume of its own gets logs of its own, without any change here.
"""

from __future__ import annotations

from ottla.broker.log.config import LogConfig
from ottla.broker.log.fs import FileSystem, MemoryFileSystem
from ottla.broker.log.log import Log


class Volume:
    """Logs by directory, counted by their holders."""

    def __init__(self, fs: FileSystem | None = None) -> None:
        self.fs: FileSystem = fs if fs is not None else MemoryFileSystem()
        self._open: dict[str, tuple[Log, int]] = {}
        self._doomed: dict[str, None] = {}

    def acquire(self, directory: str, config: LogConfig, now_ms: int) -> Log:
        """The log, opened for the first holder."""
        log, holders = self._open.get(directory, (None, 0))
        if log is None:
            log = Log.open(self.fs, directory, config, now_ms)
        self._open[directory] = (log, holders + 1)
        return log

    def release(self, directory: str, *, delete: bool = False) -> None:
        """One holder less. With `delete` the files go too, with the last holder."""
        if delete:
            self._doomed[directory] = None
        log, holders = self._open.pop(directory)
        if holders > 1:
            self._open[directory] = (log, holders - 1)
            return
        log.close()
        if directory in self._doomed:
            del self._doomed[directory]
            self.fs.remove_directory(directory)

    def close(self) -> None:
        """Closes the logs that are still open, whether or not a replica uses them."""
        for log, _ in self._open.values():
            log.close()
        self._open.clear()
