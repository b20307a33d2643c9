"""The nemesis: which faults strike a simulated cluster, when, and for how long.

A plan is drawn from the seed. What each kind of fault does, and how it heals, is in fault_kinds.py. A kind that finds
no victim looks again a little later; one that never finds any is not counted. What happened when is in `events`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.runtime import Random
from ottla.sim.fault_kinds import KINDS, LASTING, Injury, Kind, NoVictimError, Scene
from ottla.sim.runtime import SimRuntime, generator

_FEWEST, _MOST = 7, 13
_ANOTHER_TRY: Final = 2.0
_PATIENCE: Final = 60.0
"""How long healing may take: nodes that start wait for the controller, and stops for its consent."""


class PlannedFault(NamedTuple):
    """A fault that is to come; times are in seconds."""

    at: float
    kind: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.at:7.3f} {self.kind} for {self.seconds:.3f} s"


class NemesisEvent(NamedTuple):
    """Something that the nemesis did."""

    time: float
    what: str

    def __str__(self) -> str:
        return f"{self.time:9.3f} {self.what}"


def draw_plan(
    random: Random,
    active: float,
    longest: float,
    kinds: Mapping[str, tuple[Kind, int]] = KINDS,
    lasting: Sequence[str] = LASTING,
) -> list[PlannedFault]:
    """Faults for so many seconds; one of them lasts longer than `longest`, which is to be every timeout."""
    seconds = longest * random.uniform(1.05, 1.3)
    plan = [PlannedFault(random.uniform(1.0, max(1.0, active - seconds)), random.choice(lasting), seconds)]
    weights = [weight for _, weight in kinds.values()]
    for kind in random.choices(list(kinds), weights, k=random.randint(_FEWEST, _MOST)):
        seconds = random.choice(
            (random.uniform(0.02, 1.0), random.uniform(1.0, 5.0), random.uniform(5.0, 14.0))
        )
        plan.append(PlannedFault(random.uniform(0.5, active - 1.0), kind, seconds))
    return sorted(plan)


class Nemesis:
    """Carries a plan out."""

    def __init__(
        self,
        runtime: SimRuntime,
        cluster: AsyncCluster,
        topic: str,
        clients: Sequence[str],
        kinds: Mapping[str, tuple[Kind, int]] = KINDS,
    ) -> None:
        self.struck: Counter[str] = Counter()
        self.events: list[NemesisEvent] = []
        self._runtime = runtime
        self._cluster = cluster
        self._topic = topic
        self._clients = clients
        self._kinds = kinds
        self._taken: dict[int, None] = {}
        self._is_over = asyncio.Event()

    async def carry_out(self, plan: Sequence[PlannedFault], active: float) -> None:
        """Returns after so many seconds, when every fault has been healed."""
        loop = asyncio.get_running_loop()
        tasks = [
            loop.create_task(self._inflict(number, planned), name=f"fault {number}: {planned.kind}")
            for number, planned in enumerate(plan)
        ]
        try:
            await asyncio.sleep(active)
            self._is_over.set()
            self._note("everything heals")
            async with asyncio.timeout(_PATIENCE):
                await asyncio.gather(*tasks)
            self._note("everything has healed")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _inflict(self, number: int, planned: PlannedFault) -> None:
        await asyncio.sleep(planned.at)
        strike, _ = self._kinds[planned.kind]
        random = generator(self._runtime.seed, f"fault {number}")
        scene = Scene(self._runtime, self._cluster, self._topic, self._clients, random, self._taken)
        self._note(f"#{number} {planned.kind}")
        injury = await self._strike(strike, scene)
        if injury is None:
            self._note(f"#{number} {planned.kind} finds no victim")
            return
        self.struck[planned.kind] += 1
        self._note(f"#{number} {planned.kind} {injury.what}, for {planned.seconds:.3f} s")
        await self._wait(planned.seconds)
        await injury.heal()
        self._note(f"#{number} {planned.kind} is healed")

    async def _strike(self, strike: Kind, scene: Scene) -> Injury | None:
        while not self._is_over.is_set():
            try:
                return await strike(scene)
            except NoVictimError:
                await self._wait(_ANOTHER_TRY)
        return None

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._is_over.wait()
        except TimeoutError:
            return

    def _note(self, what: str) -> None:
        self.events.append(NemesisEvent(asyncio.get_running_loop().time(), what))
