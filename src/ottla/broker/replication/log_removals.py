"""Logs that were deleted, until their files go: they keep another name for log.segment.delete.delay.ms, as in Kafka.

What an earlier life of the node has deleted and not removed waits for as long again. A node that stops leaves it to
its next life.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.errors import KafkaStorageError

if TYPE_CHECKING:
    from ottla.broker.configs.node import NodeConfigs
    from ottla.broker.log.log import Log
    from ottla.broker.log.log_dir import LogDirectory
    from ottla.runtime import Runtime, Timer

_log = logging.getLogger("ottla.broker.replication.log_removals")


class LogRemovals:
    """Those of one node."""

    def __init__(
        self,
        node_id: int,
        configs: NodeConfigs,
        runtime: Runtime,
        on_failure: Callable[[LogDirectory, OSError], None],
    ) -> None:
        """`on_failure` learns of a directory that a log could not be deleted in."""
        self._node_id = node_id
        self._configs = configs
        self._clock = runtime.clock
        self._random = runtime.random
        self._on_failure = on_failure
        self._timers: dict[tuple[str, str], Timer] = {}
        """By directory and name."""

    def delete(self, directory: LogDirectory, log: Log) -> None:
        """Takes a log out of its directory."""
        try:
            doomed = directory.delete(log, self._random)
        except (OSError, KafkaStorageError) as error:
            if directory.in_memory:
                raise
            self._on_failure(directory, cause(error))
            return
        if doomed is not None:
            self._remove_later(directory, doomed)

    def take_on(self, directory: LogDirectory) -> None:
        """What an earlier life has left."""
        for doomed in directory.take_doomed():
            self._remove_later(directory, doomed)

    def _remove_later(self, directory: LogDirectory, doomed: str) -> None:
        def remove() -> None:
            del self._timers[directory.path, doomed]
            try:
                directory.remove(doomed)
            except OSError as error:
                _log.warning("node %s cannot remove %s/%s: %s", self._node_id, directory.path, doomed, error)

        delay = self._configs.value("log.segment.delete.delay.ms") / 1000
        self._timers[directory.path, doomed] = self._clock.call_later(delay, remove)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()


def cause(error: OSError | KafkaStorageError) -> OSError:
    """What the disk has said."""
    if isinstance(error, OSError):
        return error
    return error.__cause__ if isinstance(error.__cause__, OSError) else OSError(str(error))
