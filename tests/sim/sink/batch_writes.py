"""Batch writes, several at once, each under a name that it leases from one pool.

No checkpoint brings a write back. One that returns has written every row once. One that raises, or whose driver is
killed, may have been decided before: its rows are seen once or not at all, and the next holder of its name finishes
it.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Final

from ottla.errors import KafkaError
from ottla.sim.runtime import generator
from ottla.spark.sink.exactly_once.driver import abort_batch
from ottla.spark.sink.exactly_once.leases import Lease, NoLeaseError, release_lease, take_lease
from ottla.spark.sink.exactly_once.names import SinkNames
from tests.sim.sink.checks import BatchName
from tests.sim.sink.jobs import Executors, Job, split
from tests.sim.sink.processes import EXPECTED, SinkWorld, SparkProcess
from tests.sim.sink.queries import JobFailedError, commit, started

NO_NAME = "no name is free"
POOL: Final = "pool"
NAMES_THERE_ARE: Final = 3
_WRITERS: Final = 3
_MOST_ROWS: Final = 8
_LAST_WRITES: Final = 2


class BatchWriters:
    """Programs that write one table after the other."""

    def __init__(self, world: SinkWorld, executors: Executors) -> None:
        self._world = world
        self._executors = executors
        self._writing: list[asyncio.Task[None]] = []

    @property
    def names(self) -> list[SinkNames]:
        """All that the pool has."""
        return [SinkNames(f"{POOL}-{number}") for number in range(NAMES_THERE_ARE)]

    async def run(self) -> None:
        writers = [_BatchWriter(f"job{number}", self._world, self._executors) for number in range(_WRITERS)]
        await asyncio.gather(*(writer.run() for writer in writers))


class _BatchWriter:
    def __init__(self, name: str, world: SinkWorld, executors: Executors) -> None:
        self._name = name
        self._world = world
        self._executors = executors
        self._random = generator(world.runtime.seed, name)
        self._process = SparkProcess(name, world)

    async def run(self) -> None:
        """Until all is well again, and a few writes more have returned."""
        returned = 0
        for number in count():
            is_settled = self._world.is_settled
            if await self._write(BatchName(f"{self._name}-{number}", 0)) and is_settled:
                returned += 1
                if returned == _LAST_WRITES:
                    break
            await asyncio.sleep(self._random.expovariate(1 / (2 * self._world.sink.pause)))
        await self._process.close()

    async def _write(self, name: BatchName) -> bool:
        """Whether it has returned."""
        random, world = self._random, self._world
        rows = tuple(f"{name.query}/0/{number}" for number in range(random.randint(0, _MOST_ROWS)))
        world.told.rows[name] = rows
        # Until it has returned.
        world.told.at_most_once[name] = None
        if self._process.is_gone:
            self._process = SparkProcess(self._name, world)
        called_at = asyncio.get_running_loop().time()
        try:
            lease = await self._process.run(
                take_lease(self._process.client, POOL, most=NAMES_THERE_ARE, timeout_ms=world.sink.timeout_ms)
            )
            started_at = started(world, lease.start, called_at)
            await self._write_with(
                lease, name, started_at, split(rows, random.randint(1, world.sink.most_tasks))
            )
        except (*EXPECTED, JobFailedError) as error:
            if isinstance(error, NoLeaseError):
                world.struck[NO_NAME] += 1
            elif isinstance(error, KafkaError):
                world.failed(name.query, error)
            await self._process.close()
            return False
        world.told.committed[name] = asyncio.get_running_loop().time()
        del world.told.at_most_once[name]
        return True

    async def _write_with(
        self, lease: Lease, name: BatchName, started_at: float, rows: tuple[tuple[str, ...], ...]
    ) -> None:
        world, start = self._world, lease.start
        outcomes = await self._executors.run(Job(start, lease.query_id, lease.batch_id, name, rows))
        process = self._process
        try:
            if None in outcomes:
                raise JobFailedError(name.query)
            done = [each for each in outcomes if each is not None]
            await commit(process, world, name, started_at, done)
        except (*EXPECTED, JobFailedError):
            # What failed before has let go its client.
            await process.close()
            self._process = SparkProcess(self._name, world)
            await self._process.run(abort_batch(self._process.client, outcomes, patience=world.sink.patience))
            raise
        finally:
            if not self._process.is_gone:
                await self._process.run(release_lease(self._process.client, start))
