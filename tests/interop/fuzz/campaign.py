"""Scripts, one after the other, until enough steps have been compared; what was found, each thing once."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final

from tests.interop.fuzz.differ import Parting, minimised
from tests.interop.fuzz.drawing import FuzzStep
from tests.interop.fuzz.script import script

_ROUNDS: Final = 5
"""How many differences of one script are looked at: after each, the script is played without that step."""

_PROGRESS_S: Final = 10.0

FirstDifference = Callable[[Sequence[FuzzStep]], Parting | None]


@dataclass
class Finding:
    """One defect: where it was seen first, and the shortest script that shows it."""

    seed: int
    number: int
    after: int
    """How many steps had been compared."""
    steps: list[FuzzStep]
    parting: Parting

    def __str__(self) -> str:
        lines = [
            f"{self.parting.signature}",
            f"  seed {self.seed}, script {self.number}, after {self.after} steps",
        ]
        lines += [f"  {number}. {step.name}" for number, step in enumerate(self.steps)]
        return "\n".join([*lines, str(self.parting)])


class Campaign:
    """A run of many scripts of one seed, by one worker or several at a time."""

    def __init__(self, seed: int, workers: Sequence[FirstDifference], say: Callable[[str], None]) -> None:
        self.steps = 0
        self.seen: Counter[str] = Counter()
        self.findings: dict[str, Finding] = {}
        self.unrepeated: list[str] = []
        """What was seen once, and not again when the same script was played again."""
        self._seed = seed
        self._workers = workers
        self._say = say
        self._lock = threading.Lock()
        self._is_broken = False
        self._numbers = itertools.count()

    def run(self, steps: int) -> None:
        """Plays scripts until so many steps have been compared."""
        with ThreadPoolExecutor(len(self._workers), thread_name_prefix="campaign") as threads:
            began = time.monotonic()
            running = {threads.submit(self._work, worker, steps) for worker in self._workers}
            while running:
                done, running = wait(running, timeout=_PROGRESS_S)
                for each in done:
                    each.result()
                rate = self.steps / (time.monotonic() - began)
                self._say(f"{self.steps} steps, {rate:.0f} a second, {len(self.findings)} differences")

    def _work(self, first_difference: FirstDifference, steps: int) -> None:
        try:
            while self.steps < steps and not self._is_broken:
                with self._lock:
                    number = next(self._numbers)
                self.play(number, first_difference)
        except BaseException:
            # The other workers need not go on without a broker.
            self._is_broken = True
            raise

    def play(self, number: int, first_difference: FirstDifference | None = None) -> None:
        """Plays one script, and again without the steps that were answered differently."""
        ask = first_difference or self._workers[0]
        steps = script(self._seed, number)
        with self._lock:
            self.steps += len(steps)
        for _ in range(_ROUNDS):
            parting = ask(steps)
            if parting is None:
                return
            self._found(number, steps, parting, ask)
            del steps[parting.number]

    def _found(
        self, number: int, steps: Sequence[FuzzStep], parting: Parting, first_difference: FirstDifference
    ) -> None:
        signature = parting.signature
        with self._lock:
            self.seen[signature] += 1
            if self.seen[signature] > 1:
                return
        try:
            kept, shown = minimised(steps, first_difference)
        except ValueError:
            with self._lock:
                del self.seen[signature]
            self.unrepeated.append(f"seed {self._seed}, script {number}: {parting}")
            self._say(f"not seen again: {self.unrepeated[-1]}")
            return
        self.findings[signature] = Finding(self._seed, number, self.steps, kept, shown)
        self._say(str(self.findings[signature]))
