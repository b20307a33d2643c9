"""Two brokers and a script: where they part, and the shortest script that still shows it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from tests.interop.comparison.compare import Found, differing, unexplained
from tests.interop.comparison.differences import Difference
from tests.interop.fuzz.drawing import PREFIX, FuzzStep
from tests.interop.fuzz.masks import KNOWN
from tests.interop.fuzz.play import Player

_WORKERS: Final = "pqrstuvw"
"""What the topics of each worker begin with."""
_PLAYS: Final = 50
"""How often a script is played again, at most, in order to make it shorter."""


@dataclass(frozen=True)
class Parting:
    """The first step of a script that was answered differently."""

    number: int
    step: FuzzStep
    found: tuple[Found, ...]

    @property
    def signature(self) -> str:
        """What is the same in all the scripts that show one defect: the API, the first field, its values."""
        first = self.found[0]
        path = re.sub(r"/-?\d+(?=/|$)", "/#", first.path.replace(f"{PREFIX}-", ""))
        path = re.sub(r"/(a|b|none|id of a|id of b)(?=/|$)", "/*", path)
        api = self.step.label.split(" ", 1)[0]
        return f"{api} {path}: {_shape(first.kafka)} | {_shape(first.ottla)}"

    def __str__(self) -> str:
        fields = "\n".join(
            f"    {each.path}\n      Apache Kafka: {each.kafka!r}\n      Ottla:        {each.ottla!r}"
            for each in self.found[:6]
        )
        return f"step {self.number}, {self.step.name}\n{fields}"


class Pair:
    """Apache Kafka and the embedded cluster, asked the same at the same time by one of several workers."""

    def __init__(self, kafka: str, ottla: str, worker: int = 0, known: Iterable[Difference] = KNOWN) -> None:
        self._players = tuple(Player(bootstrap, f"settled-{worker}") for bootstrap in (kafka, ottla))
        self._worker = worker
        self._known = list(known)
        self._threads = ThreadPoolExecutor(len(self._players), thread_name_prefix="fuzz")
        self._plays = itertools.count()

    def __enter__(self) -> Pair:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown()
        for player in self._players:
            player.close()

    def first_difference(self, steps: Sequence[FuzzStep]) -> Parting | None:
        prefix = f"{_WORKERS[self._worker]}{next(self._plays):0{len(PREFIX) - 1}d}"
        kafka, ottla = self._threads.map(lambda player: player.play(steps, prefix), self._players)
        for number, step in enumerate(steps):
            found = unexplained(
                differing({step.name: kafka[number]}, {step.name: ottla[number]}), self._known
            )
            if found:
                return Parting(number, step, tuple(found))
        return None


def minimised(
    steps: Sequence[FuzzStep], first_difference: Callable[[Sequence[FuzzStep]], Parting | None]
) -> tuple[list[FuzzStep], Parting]:
    """As few of the steps as possible that still part in the same way; the last of them is where they do."""
    parting = first_difference(steps)
    if parting is None:
        raise ValueError("the script shows no difference when it is played again")
    signature, kept, plays = parting.signature, list(steps[: parting.number + 1]), 0
    for fewer in (kept[-1:], [kept[0], kept[-1]]):
        # Most differences need no more than the topics.
        again = first_difference(fewer)
        if again is not None and again.signature == signature:
            return fewer, again
    size = len(kept) // 2
    while size and plays < _PLAYS:
        begin = 0
        while begin < len(kept) - 1 and plays < _PLAYS:
            # The last step, which shows the difference, stays.
            fewer = kept[:begin] + kept[min(begin + size, len(kept) - 1) :]
            plays += 1
            again = first_difference(fewer)
            if again is not None and again.signature == signature:
                kept, parting = fewer[: again.number + 1], again
            else:
                begin += size
        size //= 2
    return kept, parting


def _shape(value: object) -> str:
    """A value without what varies between scripts."""
    if isinstance(value, str) and value.isupper():
        return value
    if isinstance(value, str):
        return re.sub(r"\d+|\[.*\]", "#", value)[:60]
    return type(value).__name__ if value is not None else "null"
