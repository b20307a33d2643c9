"""Writes the checkpoints of log directories beside the loop: an fsync may take as long as the disk likes.

Two steps of a checkpoint wait for the disk, and run in a thread: its content has to be there before it gets its name,
and the name before it counts. Everything else is the loop's. Meanwhile logs are cut back or deleted, their directory
fails, or the node ends.

Invariants: a file is written by one task at a time, so the later content comes later. It gets its name only if every
offset in it still holds; otherwise the task begins anew.

Not here: the leader epochs of a log (log/epochs.py says why) and the snapshots of its producers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.broker.log.checkpoints import Replacement, encode_offsets

if TYPE_CHECKING:
    from ottla.broker.log.log_dir import LogDirectory
    from ottla.runtime import Runtime

Offsets = Callable[[], Mapping[str, int]]
"""What a checkpoint says at this moment: an offset for each log, by its name."""


class Checkpointer:
    """Writes for one node."""

    def __init__(self, runtime: Runtime, on_failure: Callable[[LogDirectory, OSError], None]) -> None:
        self._runtime = runtime
        self._on_failure = on_failure
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        """By directory and file."""
        self._again: dict[tuple[str, str], Callable[[], None]] = {}
        """What was asked for while the file was being written."""
        self._is_killed = False

    def write(self, directory: LogDirectory, name: str, offsets: Offsets) -> None:
        """Writes the file `name`, with what it has to say when its turn comes."""
        key = (directory.path, name)
        if key in self._tasks:
            self._again[key] = lambda: self.write(directory, name, offsets)
            return
        task = asyncio.get_running_loop().create_task(self._write(directory, name, offsets))
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._ended(key))

    async def _write(self, directory: LogDirectory, name: str, offsets: Offsets) -> None:
        try:
            await self._replace(directory, name, offsets)
        except OSError as error:
            if self._may_write(directory):
                self._on_failure(directory, error)

    async def _replace(self, directory: LogDirectory, name: str, offsets: Offsets) -> None:
        while self._may_write(directory):
            claimed = offsets()
            replacement = Replacement(directory.fs, name, encode_offsets(claimed))
            await self._runtime.run(replacement.flush)
            if self._may_write(directory) and _still_hold(claimed, offsets()):
                replacement.rename()
                await self._runtime.run(replacement.sync)
                return

    def _may_write(self, directory: LogDirectory) -> bool:
        return not self._is_killed and directory.failure is None

    def _ended(self, key: tuple[str, str]) -> None:
        del self._tasks[key]
        again = self._again.pop(key, None)
        if again is not None:
            again()

    async def close(self, *, clean: bool) -> None:
        """Returns when nothing is written any more; unless it is `clean`, what has been begun does not count."""
        self._is_killed = not clean
        self._again.clear()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


def _still_hold(claimed: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Whether no log was cut back or deleted since; one that is made anew under the same name begins lower."""
    return all(now.get(name, -1) >= offset for name, offset in claimed.items())
