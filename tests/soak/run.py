"""A soak: cycle after cycle, a sample after each, and a verdict at the end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.soak.cycle import cycle, resident
from tests.soak.growth import Sample, Watch, check, only_what_is_new, resident_bytes
from tests.soak.serving import Served, served

Progress = Callable[[int, Sample, int], None]
"""The number of a cycle, what the process holds after it, and the memory of the cluster."""


def soak(
    goes_on: Callable[[int], bool],
    *,
    warm_up: int,
    window: int,
    is_brief: bool = False,
    disturb_every: int = 2,
    progress: Progress = lambda number, sample, cluster: None,
    plant: Callable[[Served], object] = lambda cluster: None,
) -> int:
    """Cycles as long as `goes_on(number)`; how many there were. GrowthError if something grew.

    `plant` is called in every cycle, for tests of the soak: what it keeps is to be found.
    """
    watch = Watch(warm_up, window, is_brief)
    number = 0
    with quiet(), only_what_is_new(), served() as cluster, resident(cluster.bootstrap) as stays:
        while goes_on(number):
            if disturb_every and number % disturb_every == 0:
                cluster.disturb()
            cycle(cluster.bootstrap, number, stays)
            plant(cluster)
            cluster.calm()
            progress(number, watch.look(number), resident_bytes(cluster.pid))
            number += 1
    check(watch)
    return number


@contextmanager
def quiet() -> Iterator[None]:
    """The faults are the soak's own, and whoever keeps what is logged would be found to grow."""
    logger = logging.getLogger("ottla")
    handler = logging.NullHandler()
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = True
        logger.removeHandler(handler)


def for_cycles(count: int) -> Callable[[int], bool]:
    return lambda number: number < count


def for_seconds(seconds: float) -> Callable[[int], bool]:
    ends = time.monotonic() + seconds
    return lambda number: time.monotonic() < ends
