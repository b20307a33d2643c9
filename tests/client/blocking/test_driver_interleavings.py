"""Every interleaving of the driver's threads is tried, and what is planted in the driver is found by that."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.blocking.driver_scenarios import SCENARIOS
from tests.client.blocking.driver_world import SOURCE, ScheduleError, Search, explore, replay


@pytest.mark.parametrize("name", SCENARIOS)
def test_whatever_the_order_of_steps_everybody_is_served(name: str) -> None:
    case = SCENARIOS[name]
    explore(case.scenario, case.search())


# Each: what is in the driver, what is planted in its place, where it shows, and how.
PLANTED: dict[str, tuple[str, str, str, str]] = {
    "later tells nobody": (
        "self._release_loop(calls=0)",
        "self._loop_lock.release()",
        "later",
        "nobody runs the loop, and nobody will",
    ),
    "later without protection from Ctrl-C": (
        "        with _CtrlC(self._main_thread):\n            if not self._loop_lock.acquire",
        "        if True:\n            if not self._loop_lock.acquire",
        "ctrl-c in later",
        "nobody runs the loop",
    ),
    "later looks for the end too early": (
        "                if self.is_over:\n                    self.check()\n"
        "                self.loop.call_first(function)",
        "                self.loop.call_first(function)",
        "close during later",
        "was never called",
    ),
    "leaving tells nobody": (
        "                self._background_sleeps = False\n                self._state.notify_all()\n",
        "                pass\n",
        "post",
        "nobody runs the loop",
    ),
    "the background thread does not say that it sleeps": (
        "                    self._background_sleeps = True\n",
        "",
        "post",
        "nobody runs the loop",
    ),
    "the background thread says too late that it sleeps": (
        "                    self._background_sleeps = True\n"
        "                    if self._loop_lock.acquire(blocking=False):\n"
        "                        self._background_sleeps = False\n"
        "                        self._background_runs = True\n"
        "                        return True\n",
        "                    if self._loop_lock.acquire(blocking=False):\n"
        "                        self._background_runs = True\n"
        "                        return True\n"
        "                    self._background_sleeps = True\n",
        "post",
        "nobody runs the loop",
    ),
    "an alarm for a wait that is over is the last one": (
        "        elif wait is not None:\n            self._set_alarm(wait)\n",
        "",
        "two waits",
        "nobody can go on",
    ),
    "a post is handed over and not looked after": (
        "                if not self._loop_lock.acquire(blocking=False):\n                    return\n",
        "                return\n",
        "two producers",
        "at once",
    ),
    "who leaves does not see what was handed over": (
        " or self._waiting_calls or self._posts or self._hurries:",
        " or self._waiting_calls or self._hurries:",
        "two producers",
        "at once",
    ),
    "the background thread does not see what was handed over": (
        "if not (self._waiting_calls or self._posts):",
        "if not self._waiting_calls:",
        "two producers",
        "at once",
    ),
    "the successor does not look again": (
        "while self._has_successor:\n                self._state.wait()",
        "self._state.wait()",
        "two callers",
        "two threads run the loop",
    ),
    "the turn is free for anybody while the successor wakes up": (
        "                if self._has_successor:\n                    self._has_successor = False\n"
        "                    self._state.notify_all()\n                else:\n"
        "                    self._loop_lock.release()",
        "                self._has_successor = False\n                self._state.notify_all()\n"
        "                self._loop_lock.release()",
        "caller and reader",
        "two threads run the loop",
    ),
    "the background thread runs the loop without its turn": (
        "if self._loop_lock.acquire(blocking=False):\n                        self._background_sleeps",
        "if True:\n                        self._background_sleeps",
        "call",
        "two threads run the loop",
    ),
    "the successor does not look whether all is over": (
        "        if self._ended:\n            work.close()\n"
        '            raise ClientClosedError("the client is closed")\n'
        "        task",
        "        task",
        "close during a call that waits",
        "nobody can go on",
    ),
    "a wait is not ended by closing": (
        "while not (wait.is_over or self._ended or ctrl_c.has_come)",
        "while not (wait.is_over or ctrl_c.has_come)",
        "close during a wait",
        "nobody can go on",
    ),
    "closing wakes nobody": (
        "            self._state.notify_all()\n            self.loop.call_soon_threadsafe(self.loop.stop)\n"
        "        self._thread",
        "            self._state.notify_all()\n        self._thread",
        "call",
        "nobody can go on",
    ),
    "the end does not wait for those who are told": (
        "    await asyncio.sleep(0)\n    await loop.shutdown",
        "    await loop.shutdown",
        "two callers and a closer",
        "nobody can go on: main waits for a result",
    ),
    "what ends the program is lost in the background": (
        "self._exit = self._exit or error",
        "pass",
        "callback ends the program",
        "AssertionError",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_and_its_schedule_repeats_it(name: str) -> None:
    original, planted, where, told = PLANTED[name]
    assert SOURCE.count(original) == 1
    case = SCENARIOS[where]
    search = case.search(SOURCE.replace(original, planted))
    with pytest.raises(ScheduleError, match=told) as found:
        explore(case.scenario, search)
    with pytest.raises(ScheduleError) as again:
        replay(case.scenario, found.value.choices, search)
    assert str(again.value) == str(found.value)


@pytest.mark.parametrize("name", ["later", "ctrl-c in close"])
def test_a_known_state_leads_nowhere_new(name: str) -> None:
    """The search that leaves known states out meets each state that the one through all runs meets."""
    case = SCENARIOS[name]
    every: dict[Any, float] = {}
    short = Search(ctrl_c=case.ctrl_c)
    few = explore(case.scenario, short)
    many = explore(case.scenario, Search(ctrl_c=case.ctrl_c, seen=Everything(every)))
    assert short.seen is not None
    assert set(every) == set(short.seen)
    assert many > few


class Everything(dict[int, float]):
    """Notes the states, and knows none of them."""

    def __init__(self, noted: dict[Any, float]) -> None:
        super().__init__()
        self._noted = noted

    def get(self, state: Any, default: Any = None) -> Any:
        self._noted[state] = 0.0
        return default
