"""All programs of a trial of transactions: writers, the sessions of a chain of groups, and readers.

Sessions come and go until they are told to settle. Some leave, some are killed, and some take over the transactional
id of another that still runs, which is thereby fenced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Final

from ottla.sim.runtime import generator
from ottla.sim.transaction_clients import (
    ChainSession,
    TransactionalWriter,
    TransactionEnder,
    TransactionReader,
    TransactionWorld,
)

_WRITERS: Final = 2
_MOST_SESSIONS: Final = 3
_TAKES_OVER: Final = 0.15


def chain_links(topics: list[str]) -> list[tuple[str, str, str]]:
    """The groups: each with the topic that it reads and the one that it writes to."""
    return [(f"copiers-{number + 1}", *pair) for number, pair in enumerate(pairwise(topics))]


@dataclass
class _GroupLink:
    group: str
    source: str
    target: str
    sessions: list[ChainSession] = field(default_factory=list)


class TransactionWorkload:
    """`stays` is how many seconds a session stays on average."""

    def __init__(self, world: TransactionWorld, stays: float) -> None:
        self.world = world
        self.vanished = self.left = self.taken_over = 0
        self._stays = stays
        self._random = generator(world.runtime.seed, "sessions")
        self._ender = TransactionEnder(world)
        self.writers = [
            TransactionalWriter(f"writer-{number + 1}", world, self._ender) for number in range(_WRITERS)
        ]
        self.committed_tail = TransactionReader("reader-1", world, is_committed=True)
        self.uncommitted_tail = TransactionReader("reader-2", world, is_committed=False)
        self._links = [_GroupLink(*link) for link in chain_links(list(world.plan.topics))]
        self._count = self._readers = 0
        self._settles = asyncio.Event()
        self._stops_writing = self._stops_reading = False
        self._changing: asyncio.Task[None] | None = None
        self._ending: list[asyncio.Task[None]] = []
        self._writing: list[asyncio.Task[None]] = []
        self._reading: list[asyncio.Task[None]] = []

    @property
    def committed(self) -> int:
        """Records that writers know to be committed."""
        return sum(writer.committed for writer in self.writers)

    def start(self) -> None:
        create = asyncio.get_running_loop().create_task
        self._writing = [
            create(writer.run(lambda: self._stops_writing), name=writer.name) for writer in self.writers
        ]
        self._reading = [
            create(reader.run(lambda: self._stops_reading), name=reader.log.name)
            for reader in (self.committed_tail, self.uncommitted_tail)
        ]
        self._reading.append(create(self._return(), name="returning reader"))
        for link in self._links:
            for _ in range(self._random.randint(1, 2)):
                self._add(link)
        self._changing = create(self._change(), name="sessions come and go")

    # Sessions

    async def _change(self) -> None:
        pause = self._stays / (2 * len(self._links))
        while not await self._settled_within(self._random.expovariate(1 / pause)):
            link = self._random.choice(self._links)
            if not link.sessions or (len(link.sessions) < _MOST_SESSIONS and self._random.random() < 0.5):
                self._add(link)
            else:
                self._remove(link, self._random.choice(link.sessions))

    async def _settled_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._settles.wait()
        except TimeoutError:
            return False
        return True

    def _add(self, link: _GroupLink) -> None:
        self._count += 1
        used = [session.transactional_id for session in link.sessions]
        pool = [f"{link.group}-{number + 1}" for number in range(_MOST_SESSIONS + 1)]
        name = self._random.choice([each for each in pool if each not in used])
        if used and self._random.random() < _TAKES_OVER:
            name = self._random.choice(used)
            self.taken_over += 1
        session = ChainSession(
            f"session-{self._count}", name, (link.group, link.source, link.target), self.world
        )
        session.start()
        link.sessions.append(session)

    def _remove(self, link: _GroupLink, session: ChainSession) -> None:
        link.sessions.remove(session)
        if self._random.random() < 0.6:
            self.vanished += 1
            ending = session.vanish()
        else:
            self.left += 1
            ending = session.leave()
        self._ending.append(asyncio.get_running_loop().create_task(ending, name=f"{session.name} ends"))

    async def settle(self) -> None:
        """From now on no session comes or goes; every group has one, and each its own transactional id."""
        self._settles.set()
        assert self._changing is not None
        await self._changing
        for link in self._links:
            names: set[str] = set()
            for session in list(link.sessions):
                if session.transactional_id in names:
                    # Two that fence each other for ever get nowhere, as it should be.
                    self._remove(link, session)
                names.add(session.transactional_id)
            if not link.sessions:
                self._add(link)

    async def finish_copying(self) -> None:
        """All sessions leave."""
        sessions = [session for link in self._links for session in link.sessions]
        for link in self._links:
            link.sessions.clear()
        await asyncio.gather(*(session.leave() for session in sessions), *self._ending)
        await asyncio.gather(*self.world.late)

    # Writers

    async def finish_writing(self) -> None:
        """No further transaction; returns when what became of each is known, as far as it can be."""
        self._stops_writing = True
        await asyncio.gather(*self._writing)

    # Readers

    async def _return(self) -> None:
        """Reads everything from the first record on, again and again; now this way, now that."""
        while not self._stops_reading:
            await asyncio.sleep(self._random.uniform(3.0, 10.0))
            end = asyncio.get_running_loop().time() + self._random.uniform(1.0, 4.0)
            await self.read_again(partial(self._is_past, end), is_committed=self._random.random() < 0.7)

    def _is_past(self, time: float) -> bool:
        return self._stops_reading or asyncio.get_running_loop().time() > time

    async def read_again(
        self, until: Callable[[], bool], *, is_committed: bool, is_complete: bool = False
    ) -> None:
        self._readers += 1
        reader = TransactionReader(f"returning-{self._readers}", self.world, is_committed=is_committed)
        reader.log.is_complete = is_complete
        try:
            await reader.run(until)
        finally:
            await reader.close()

    async def finish_reading(self) -> None:
        self._stops_reading = True
        await asyncio.gather(*self._reading)
        self.committed_tail.log.is_complete = self.uncommitted_tail.log.is_complete = True

    async def close(self) -> None:
        """Ends what still runs, after an error as well."""
        self._stops_writing = self._stops_reading = True
        self._settles.set()
        running = [*self._writing, *self._reading, *([self._changing] if self._changing else [])]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self.finish_copying()
        for writer in self.writers:
            await writer.close()
        await self._ender.close()
        await self.committed_tail.close()
        await self.uncommitted_tail.close()
