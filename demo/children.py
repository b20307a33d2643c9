"""The processes of the demo: started, heard, told what to do, ended.

A child says what happens in lines of JSON on standard output (`say`), takes commands on standard input
(`commands`), and ends when that is closed. None outlives the demo's own process as long as that one ends its `with`
blocks, and none is reached by a Ctrl-C meant for the demo: it stops them itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

Message: TypeAlias = dict[str, Any]
"""A line of JSON; `event` says which kind it is."""

_STOP_S = 10.0
_LOG_LINES = 15
_saying = threading.Lock()


def say(event: str, **fields: object) -> None:
    """In a child: tells the demo, from whichever thread."""
    with _saying:
        print(json.dumps({"event": event, **fields}), flush=True)


def commands() -> Iterator[list[str]]:
    """In a child: what the demo tells it, word by word, until the demo has no more to tell."""
    for line in sys.stdin:
        yield line.split()


class ChildError(RuntimeError):
    """A process of the demo has failed; the message has its own words, or the end of its log."""


class Child:
    """A Python module that runs in a process of its own."""

    def __init__(self, folder: Path, module: str, *arguments: str) -> None:
        self._module = module
        self._log = folder / f"{module}.log"
        self._messages: list[Message] = []
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                # Else the Python of Spark's workers is whatever python3 is on the PATH.
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
            )
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            for line in stdout:
                message = _parsed(line)
                if message is not None:
                    with self._lock:
                        self._messages.append(message)

    def news(self) -> list[Message]:
        """What it has said since the last call; raises when it has failed, and has said all."""
        with self._lock:
            said, self._messages = self._messages, []
        if not said:
            self.running()
        return said

    def running(self) -> bool:
        """Whether it still works; raises when it has failed."""
        code = self._process.poll()
        if code is None:
            return True
        self._reader.join(_STOP_S)
        if code:
            raise ChildError(self._failure(f"ended with code {code}"))
        return False

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()

    def finish(self) -> None:
        """Lets it end when it has done what there is to do."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def stop(self) -> None:
        """Ends it, and whatever it has started."""
        try:
            self.finish()
            if self._process.poll() is None:
                self._process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_STOP_S)
        finally:
            # Also when a second Ctrl-C comes meanwhile.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(_STOP_S)

    def _failure(self, what: str) -> str:
        """Its own words, if it has found some and they have not been heard; else the end of its log."""
        with self._lock:
            for message in self._messages:
                if message["event"] == "failed":
                    return str(message["why"])
        said = self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return "\n  ".join([f"{self._module} {what}. The end of its log:", *said])


def _parsed(line: str) -> Message | None:
    """None of a line that is no message: libraries may print what they like."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and "event" in message else None


@contextmanager
def child(folder: Path, module: str, *arguments: str) -> Iterator[Child]:
    started = Child(folder, module, *arguments)
    try:
        yield started
    finally:
        started.stop()
