"""The processes of the demo: started, heard, ended.

None outlives the demo's own process as long as that one ends its `with` blocks, and none is reached by a Ctrl-C
meant for the demo: it stops them itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_STOP_S = 10.0
_LOG_LINES = 15


class ChildError(RuntimeError):
    """A process of the demo has failed; the message has the end of its log."""


class Child:
    """A Python module that runs in a process of its own; what it says is in `lines`."""

    def __init__(self, folder: Path, module: str, *arguments: str) -> None:
        self._module = module
        self._log = folder / f"{module}.log"
        self.lines: list[str] = []
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                # Else the Python of Spark's workers is whatever python3 is on the PATH.
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            )
        self._heard = threading.Condition()
        self._silent = False
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            for line in stdout:
                with self._heard:
                    self.lines.append(line.strip())
                    self._heard.notify_all()
        with self._heard:
            self._silent = True
            self._heard.notify_all()

    def first_line(self, timeout: float) -> str:
        with self._heard:
            self._heard.wait_for(lambda: self.lines or self._silent, timeout)
            if not self.lines:
                what = "ended without a word" if self._silent else f"said nothing for {timeout:.0f} s"
                raise ChildError(self._failure(what))
            return self.lines[0]

    def running(self) -> bool:
        """Whether it still works; raises when it has failed."""
        code = self._process.poll()
        if code:
            raise ChildError(self._failure(f"ended with code {code}"))
        if code is None:
            return True
        self._reader.join(_STOP_S)
        return False

    def finish(self) -> None:
        """Lets it end when it has done what there is to do."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def stop(self) -> None:
        """Ends it, and whatever it has started."""
        self.finish()
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(_STOP_S)

    def _failure(self, what: str) -> str:
        said = self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return "\n  ".join([f"{self._module} {what}. The end of its log:", *said])


@contextmanager
def child(folder: Path, module: str, *arguments: str) -> Iterator[Child]:
    started = Child(folder, module, *arguments)
    try:
        yield started
    finally:
        started.stop()
