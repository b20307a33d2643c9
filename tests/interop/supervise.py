"""A process that never outlives the one that started it, however that one ends.

Both ends live here: `Supervised` in the parent, `main` in a small supervisor between parent and child. They
share a socket pair, the lifeline. Its end of file is the only signal that also arrives after a SIGKILL of
the parent, and it makes the supervisor kill the child's whole process group. Nothing here knows Java.

The supervisor runs with `-I -S`, so this file imports nothing but the standard library.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO

_TERMINATE, _KILL = b"T", b"K"
_PID_BYTES = 4


class Supervised:
    """A running child: `pid` is its own, not the supervisor's."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdin: int,
        stdout: int | IO[bytes],
        stderr: int | IO[bytes],
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._lifeline, theirs = socket.socketpair()
        with theirs:
            # A session of its own: Ctrl-C in a terminal reaches the tests only, and they stop the child.
            self._supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(theirs.fileno()), *command],
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=env,
            )
        answer = self._lifeline.recv(_PID_BYTES, socket.MSG_WAITALL)
        if len(answer) < _PID_BYTES:
            self.close()
            raise OSError(f"{command[0]} could not be started")
        self.pid = int.from_bytes(answer, "big")

    def terminate(self) -> None:
        """Ask the child to end (SIGTERM)."""
        self._order(_TERMINATE)

    def kill(self) -> None:
        """End the child's process group at once (SIGKILL)."""
        self._order(_KILL)

    def poll(self) -> int | None:
        """The child's exit code, 128 + the signal that ended it, or None while it runs."""
        return self._supervisor.poll()

    def wait(self, within: float) -> int:
        """The same, but wait for it; `subprocess.TimeoutExpired` after `within` seconds."""
        return self._supervisor.wait(within)

    def communicate(self, text: str, within: float) -> tuple[str, str]:
        """Feed the child `text` and read its output until it ends."""
        out, err = self._supervisor.communicate(text.encode(), within)
        return out.decode(), err.decode()

    def close(self) -> None:
        """Kill the child if it still runs, and give back every file descriptor."""
        with self._supervisor:
            self._lifeline.close()

    def _order(self, order: bytes) -> None:
        # A child that has already ended needs no order, and its supervisor is gone with it.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._lifeline.sendall(order)


def run(
    command: Sequence[str], *, text: str, within: float, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` with captured output, for a child that must not outlive this process."""
    pipe = subprocess.PIPE
    child = Supervised(command, stdin=pipe, stdout=pipe, stderr=pipe, env=env)
    try:
        out, err = child.communicate(text, within)
        code = child.wait(within)
    finally:
        child.close()
    return subprocess.CompletedProcess(command, code, out, err)


def is_running(pid: int) -> bool:
    """Whether a process of this id exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _obey(lifeline: socket.socket, group: int) -> None:
    signals = {_TERMINATE: signal.SIGTERM, _KILL: signal.SIGKILL}
    # An error is as good as the end of file: a group that is gone needs no more orders.
    with contextlib.suppress(OSError):
        while order := lifeline.recv(1):
            os.killpg(group, signals[order])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def main(arguments: Sequence[str]) -> int:
    """The supervisor: LIFELINE_FD COMMAND..."""
    lifeline = socket.socket(fileno=int(arguments[0]))
    child = subprocess.Popen(arguments[1:], process_group=0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: os.killpg(child.pid, signal.SIGKILL))
    # Before anything is waited for: a child that ends at once has been started all the same. And a parent that dies
    # before it has read the pid resets the connection.
    with contextlib.suppress(OSError):
        lifeline.sendall(child.pid.to_bytes(_PID_BYTES, "big"))
    threading.Thread(target=_obey, args=(lifeline, child.pid), daemon=True).start()
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
