"""Where the processes of a sink are killed: the numbered steps of the protocol, before, between and after them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from tests.spark.crashes import kill_hook

Victim = Literal["process", "driver", "executor", "held", "zombie"]


@dataclass(frozen=True)
class Kill:
    """An order for `kill_hook`."""

    module: str
    function: str
    when: Literal["before", "after"]
    call: int = 1
    victim: Victim = "process"

    def of(self, victim: Victim) -> Kill:
        return replace(self, victim=victim)


STEPS: Mapping[str, Kill] = {
    # Step 1, on the driver: the older driver is fenced, its decision finished, leftovers swept.
    "1-before": Kill("driver", "start_batch", "before"),
    "1-fenced": Kill("driver", "initialize_driver", "after"),
    "1-after": Kill("driver", "start_batch", "after"),
    # Steps 2 and 3, in a task.
    "2-before": Kill("task", "begin_attempt", "before"),
    "2-fenced": Kill("task", "_initialize", "after"),
    "2-after": Kill("task", "begin_attempt", "after"),
    "3-rows-sent": Kill("task", "produce_control", "before"),
    "3-marker-sent": Kill("task", "produce_control", "after"),
    "3-prepared": Kill("task", "prepare", "after"),
    # Steps 4 to 6, on the driver.
    "4-before": Kill("driver", "commit_batch", "before"),
    "4-checked": Kill("driver", "_check_all_open", "after"),
    "4-decision-sent": Kill("driver", "produce_control", "after"),
    "4-decided": Kill("driver", "_decide", "after"),
    "5-one-ended": Kill("endings", "_ended", "after"),
    "6-after": Kill("driver", "commit_batch", "after"),
}
ON_DRIVER = [name for name in STEPS if name[0] in "1456"]
IN_TASK = [name for name in STEPS if name[0] in "23"]


class KillOrders:
    """The file in which an order waits for the process that carries it out."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "kill-orders.json"

    def give(self, kill: Kill) -> None:
        self._done.unlink(missing_ok=True)
        self._go.unlink(missing_ok=True)
        unfinished = self.path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(asdict(kill)))
        os.replace(unfinished, self.path)

    @property
    def _done(self) -> Path:
        return Path(f"{self.path}.done")

    @property
    def _go(self) -> Path:
        return Path(f"{self.path}.go")

    @property
    def are_carried_out(self) -> bool:
        return self._done.exists()

    @property
    def carried_out_by(self) -> int:
        """The process that was to be killed, or stopped."""
        return int(self._done.read_text())

    def let_go(self) -> None:
        """The process that was stopped goes on."""
        self._go.touch()

    def withdraw(self) -> None:
        """What a test has not used is not for the next."""
        self.path.unlink(missing_ok=True)


def hooked(folder: Path, python_path: str | None) -> dict[str, str]:
    """What the environment of Spark needs for that; the folder is to be one of the test's."""
    hook = folder / "hook"
    hook.mkdir(exist_ok=True)
    shutil.copy(kill_hook.__file__, hook / "sitecustomize.py")
    paths = [str(hook), *([python_path] if python_path else [])]
    return {"PYTHONPATH": os.pathsep.join(paths), kill_hook.ORDERS: str(KillOrders(folder).path)}
