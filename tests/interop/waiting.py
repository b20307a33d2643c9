"""Waiting for an event with a bound: the only place under tests/interop that sleeps.

Nothing here knows Kafka. A wait that runs out says what it waited for.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(check: Callable[[], T], what: str, within: float = 30.0, every: float = 0.05) -> T:
    """Call `check` until its answer is truthy, and return that answer.

    eventually(lambda: leader_of(topic) == 2, "node 2 to lead the topic", within=10)
    """
    deadline = time.monotonic() + within
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise TimeoutError(f"waited {within:g} s for {what}; the last answer was {answer!r}")
        time.sleep(every)
