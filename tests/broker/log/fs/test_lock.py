"""One node at a time has a log directory: of all processes, of all clusters in one, and across forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker.log.fs.directory import DirectoryFileSystem
from ottla.broker.log.fs.lock import DirectoryInUseError, DirectoryLock

HOLD = """
import sys
from ottla.broker.log.fs.lock import DirectoryLock
lock = DirectoryLock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def holder(directory: Path) -> subprocess.Popen[str]:
    """Another process that has the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_directory_that_another_process_has_is_refused_and_the_error_says_which(tmp_path: Path) -> None:
    process = holder(tmp_path)
    try:
        fs = DirectoryFileSystem(tmp_path)
        with pytest.raises(DirectoryInUseError, match=rf"{tmp_path} is in use: .*/\.lock"):
            fs.lock()
    finally:
        end(process)


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    process = holder(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    DirectoryLock(str(tmp_path)).release()


def test_two_clusters_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    first, second = DirectoryFileSystem(tmp_path), DirectoryFileSystem(tmp_path)
    first.lock()
    for _ in range(2):  # the refusal must not give the other's lock away
        with pytest.raises(DirectoryInUseError):
            second.lock()
    first.lock()
    first.close()
    second.lock()
    with pytest.raises(DirectoryInUseError):
        first.lock()
    second.close()


def forked_child() -> tuple[int, int]:
    """Forks a child that stays until its pipe is closed: its process id, and that pipe."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    os.close(read_end)
    return child, write_end


def test_a_child_that_was_forked_does_not_hold_the_lock_of_a_parent_that_was_killed(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from ottla.broker.log.fs.lock import DirectoryLock\n"
        "lock = DirectoryLock(sys.argv[1])\n"
        "if os.fork() == 0:\n"
        "    print('forked', flush=True)\n"
        "    sys.stdin.read()\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "forked\n"
    with pytest.raises(DirectoryInUseError):
        DirectoryLock(str(tmp_path))
    parent.kill()
    parent.wait()
    try:
        DirectoryLock(str(tmp_path)).release()
    finally:
        parent.communicate()  # closes its input, and so ends the child


def test_a_parent_that_gives_its_lock_back_does_so_for_its_children_too(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    child, pipe = forked_child()
    try:
        lock.release()
        DirectoryLock(str(tmp_path)).release()
    finally:
        os.close(pipe)
        os.waitpid(child, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the lock is one of flock")
def test_a_lock_as_java_takes_it_excludes_ours(tmp_path: Path) -> None:
    script = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1] + '/.lock', 'w')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(DirectoryInUseError):
            DirectoryLock(str(tmp_path))
    finally:
        end(process)
    DirectoryLock(str(tmp_path)).release()


def test_the_lock_is_no_file_of_the_volume(tmp_path: Path) -> None:
    fs = DirectoryFileSystem(tmp_path)
    fs.lock()
    fs.open("meta.properties")
    assert fs.list("") == ["meta.properties"]
    assert fs.directories() == []
    fs.close()
