"""Deterministic simulation: a whole cluster and its clients in one thread, replayed from one seed.

    from ottla.sim import run

    async def main(runtime):
        ...  # anything that takes a Runtime

    run(main, seed=7)

Time is virtual (loop.py) and passes only when there is nothing to do; the network (network.py) delays, cuts and
cuts up by the seed; every arrival is in a trace (trace.py). The same seed gives the same trace, byte for byte.

What goes wrong with a cluster is a part of it: nemesis.py has every kind of fault, workload.py clients that write and
read meanwhile, watch.py and checks.py the rules that hold all the same, and trial.py one run of all of them.
They know client and broker, so they are not imported here.
"""

from ottla.sim.errors import (
    SimulationCallbackError,
    SimulationError,
    SimulationOverranError,
    SimulationStalledError,
    UnfinishedTasksError,
)
from ottla.sim.loop import VirtualLoop
from ottla.sim.network import SimNetwork
from ottla.sim.runtime import SimRuntime, run
from ottla.sim.trace import Trace

__all__ = [
    "SimNetwork",
    "SimRuntime",
    "SimulationCallbackError",
    "SimulationError",
    "SimulationOverranError",
    "SimulationStalledError",
    "Trace",
    "UnfinishedTasksError",
    "VirtualLoop",
    "run",
]
