"""Every state that can be reached, breadth first: the shortest way to a broken rule, or to where no good end is."""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass, field

from tests.spark.sink.exactly_once.model.rules import broken_rule
from tests.spark.sink.exactly_once.model.settings import Settings
from tests.spark.sink.exactly_once.model.spark import is_good_end, next_steps
from tests.spark.sink.exactly_once.model.state import State


@dataclass
class Found:
    """What a search has found."""

    states: int
    steps: int
    ends: int
    """States in which every batch is committed, and the query has ended."""
    problem: str = ""
    """The rule that is broken, or that there is no way to a good end."""
    way: list[str] = field(default_factory=list)
    """What has to happen for it, in order."""
    is_whole: bool = True
    """Every state was looked at, or a broken rule was found."""

    def __str__(self) -> str:
        text = f"{self.states:,} states, {self.steps:,} steps, {self.ends:,} good ends"
        if not self.is_whole:
            text += ", NOT ALL STATES"
        if self.problem:
            text += f"\n{self.problem}:\n" + "\n".join(
                f"  {number}. {what}" for number, what in enumerate(self.way, 1)
            )
        return text


def search(settings: Settings, most: int = 1_000_000) -> Found:
    """Stops at the first broken rule, or after so many states."""
    first = State(settings.faults)
    numbers = {first: 0}
    states = [first]
    came_from, how = array("l", [-1]), [""]
    before: defaultdict[int, array[int]] = defaultdict(lambda: array("l"))
    ends: list[int] = []
    steps = 0
    for number, state in enumerate(states):
        if problem := broken_rule(state):
            return Found(len(states), steps, len(ends), problem, _way(number, came_from, how))
        if len(states) > most:
            return Found(len(states), steps, len(ends), is_whole=False)
        if is_good_end(state):
            ends.append(number)
        for what, then in next_steps(settings, state):
            steps += 1
            known = numbers.setdefault(then, len(states))
            if known == len(states):
                states.append(then)
                came_from.append(number)
                how.append(what)
            before[known].append(number)
    found = Found(len(states), steps, len(ends))
    hopeless = _first_without(ends, before, len(states))
    if hopeless is not None:
        found.problem, found.way = "from here no good end can be reached", _way(hopeless, came_from, how)
    return found


def _way(number: int, came_from: array[int], how: list[str]) -> list[str]:
    way = []
    while number > 0:
        way.append(how[number])
        number = came_from[number]
    return way[::-1]


def _first_without(ends: list[int], before: defaultdict[int, array[int]], states: int) -> int | None:
    """The first state from which no end can be reached."""
    reaches = bytearray(states)
    for number in ends:
        reaches[number] = 1
    waiting = list(ends)
    while waiting:
        for number in before[waiting.pop()]:
            if not reaches[number]:
                reaches[number] = 1
                waiting.append(number)
    missing = reaches.find(0)
    return None if missing < 0 else missing
