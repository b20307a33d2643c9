"""Kills a process of Spark in the middle of the sink's protocol: where a test orders it, once.

`hooked` copies this file under the name that Python imports by itself in every process whose PYTHONPATH has its
folder. The order is in the file that OTTLA_KILL_ORDERS names; the process that carries it out takes it away first.

    {"module": "driver", "function": "_decide", "when": "after", "call": 1, "victim": "process"}

`module` is one of `ottla.spark.sink.exactly_once`; `call` counts in each process. The victim is this process, the
executor around it, or the driver: its JVM, and the program that has started that. What is `held` is not killed: it
stops, and goes on when there is a file with `.go` behind its name. So does a `zombie`, which also outlives its
driver. The file with `.done` behind its name has the process id.

Only what every Python has is imported here: it runs before anything else does.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from types import ModuleType
from typing import Any

ORDERS = "OTTLA_KILL_ORDERS"
_PACKAGE = "ottla.spark.sink.exactly_once."
# Functions, or methods behind the name of their class; all of them are coroutines.
STEPS = {
    "driver": (
        "start_batch",
        "initialize_driver",
        "finish_decision",
        "commit_batch",
        "_check_all_open",
        "_decide",
        "produce_control",
    ),
    "task": ("begin_attempt", "_initialize", "produce_control", "Attempt.prepare"),
    "endings": ("_ended",),
}
_calls: dict[tuple[str, str], int] = {}


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the modules of the protocol be loaded as always, and then wraps their steps."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        short = fullname.removeprefix(_PACKAGE)
        if short == fullname or short not in STEPS:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            for step in STEPS[short]:
                owner, _, name = step.rpartition(".")
                holder = getattr(module, owner) if owner else module
                setattr(holder, name, _wrapped(getattr(holder, name), short, name))

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _wrapped(
    original: Callable[..., Awaitable[Any]], module: str, name: str
) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(original)
    async def step(*arguments: Any, **options: Any) -> Any:
        call = _calls[module, name] = _calls.get((module, name), 0) + 1
        _die_if_ordered([module, name, "before"], call)
        outcome = await original(*arguments, **options)
        _die_if_ordered([module, name, "after"], call)
        return outcome

    return step


def _die_if_ordered(here: list[str], call: int) -> None:
    orders = os.environ[ORDERS]
    try:
        with open(orders) as file:
            order = json.load(file)
        if [order["module"], order["function"], order["when"]] != here or call < order["call"]:
            return
        os.rename(orders, f"{orders}.taken")
    except FileNotFoundError:
        return  # there is none, or another process was quicker
    with open(f"{orders}.taken", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{orders}.taken", f"{orders}.done")
    if order["victim"] == "zombie":
        # With these the daemon of Spark's workers ends them when its JVM is gone.
        for ending in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            signal.signal(ending, signal.SIG_IGN)
    if order["victim"] in ("held", "zombie"):
        # It runs the loop of its client, which stands still with it. A signal would stop a process of several threads
        # a moment later, when it may have been let go already.
        while not os.path.exists(f"{orders}.go"):
            time.sleep(0.02)
        return
    for pid in _victims(order["victim"]):
        os.kill(pid, signal.SIGKILL)


def _victims(victim: str) -> list[int]:
    """From the outermost inwards, so that none can react to the death of another."""
    own = os.getpid()
    if victim == "process":
        return [own]
    around = _ancestors(own)
    jvms = [pid for pid in around if _command(pid)[0].endswith("java")]
    if victim == "executor":
        return [jvms[0], own]
    if not jvms:
        # The program itself, in which functions of foreachBatch run.
        return [*_jvms_started_by(own), own]
    # The program that has started Spark is the parent of the outermost JVM.
    program = around[around.index(jvms[-1]) + 1]
    return [program, *reversed(jvms), own]


def _ancestors(pid: int) -> list[int]:
    found = []
    while (pid := _parent(pid)) > 1:
        found.append(pid)
    return found


def _jvms_started_by(pid: int) -> list[int]:
    found = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [each for each in found if _is_jvm_of(each, pid)]


def _is_jvm_of(pid: int, parent: int) -> bool:
    try:
        return _parent(pid) == parent and _command(pid)[0].endswith("java")
    except OSError:
        return False  # it has ended meanwhile


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


def _command(pid: int) -> list[str]:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().decode(errors="replace").split("\0")


if __name__ == "sitecustomize" and ORDERS in os.environ:
    sys.meta_path.insert(0, _Finder())
