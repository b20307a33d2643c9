"""Consumer groups that copy records from topic to topic through whatever happens, and write down what they were told.

A chain has one topic more than groups: writers fill the first, the members of each group copy what they read to the
next topic, and commit when the copies are acknowledged. Members come and go all the time. Some leave the group, some
just vanish from the network like a process that is killed. What they see goes to a checker (group_checks.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from ottla.client.client import AsyncClient
from ottla.client.topic_partition import TopicPartition
from ottla.config import ClientOptions
from ottla.errors import (
    CommitFailedError,
    DeliveryError,
    KafkaError,
    MaxPollExceededError,
)
from ottla.sim.checks import RuleViolation
from ottla.sim.group_checks import (
    Assigned,
    CallbackBegan,
    CallbackEnded,
    Committed,
    Delivered,
    GroupChecker,
    TakenAway,
)
from ottla.sim.network import CutMode
from ottla.sim.runtime import SimRuntime, generator
from ottla.sim.workload import AWAY
from ottla.wire.records import Record

_POLL: Final = 0.5
_RETRY: Final = 0.2
_MOST_MEMBERS: Final = 4
_WORKS: Final = (0.0, 0.0, 0.0, 0.05, 0.3, 1.5)
_GOES_ON: Final = (0.0, 0.5, 2.0)
_SILENCES: Final = (0.1, 5.0, 15.0)
"""Some are longer than every session."""
_VANISHING: Final[tuple[CutMode, ...]] = ("silent", "reset")


@dataclass(frozen=True)
class Chain:
    """What is copied, and how."""

    topics: dict[str, int]
    """With their partitions, from the first to the last."""
    options: ClientOptions
    commits: str
    """`explicit`: the offsets behind what was copied; `positions`: wherever the consumer is; `auto`."""
    stays: float
    """Seconds that a member stays on average."""

    @property
    def links(self) -> list[tuple[str, str, str]]:
        """The groups: each with the topic that it reads and the one that it writes to."""
        topics = list(self.topics)
        return [(f"group-{number + 1}", *pair) for number, pair in enumerate(pairwise(topics))]


class ChainMember:
    """One member of one group, on a machine of its own."""

    def __init__(
        self,
        name: str,
        group: str,
        source: str,
        target: str,
        runtime: SimRuntime,
        bootstrap: str,
        chain: Chain,
        checker: GroupChecker,
    ) -> None:
        self.name, self.group = name, group
        self.violations: list[RuleViolation] = []
        self._target = target
        self._chain = chain
        self._checker = checker
        self._random = generator(runtime.seed, f"member {name}")
        self._client = AsyncClient(bootstrap, runtime=runtime.at(name), **chain.options)
        self._consumer = self._client.consume(
            source,
            group=group,
            start="earliest",
            on_assigned=self._assigned,
            on_revoked=self._taken_away,
            on_lost=self._taken_away,
        )
        self._copied: dict[TopicPartition, int] = {}
        self._owned: dict[TopicPartition, int] = {}
        """With the number of its assignment: what was read under an older one is not where the consumer is."""
        self._assignments = 0
        self._stops = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)

    async def leave(self) -> None:
        """Ends as a program does that is asked to."""
        self._stops = True
        assert self._task is not None
        await self._task
        await self._consumer.close()
        # Copies that failed were made again by then.
        with suppress(DeliveryError):
            await self._client.close()

    async def vanish(self, *, killed: bool) -> None:
        """The network has lost it already: nothing that it does is seen any more, or only later.

        A process that is killed waits for nothing; one that lives on tries to commit and to leave, in vain, and what
        it has sent until then arrives when the network finds it again.
        """
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._checker.take(TakenAway(self.group, self.name, tuple(self._owned)))
        self._owned.clear()
        if not killed:
            with suppress(*AWAY, CommitFailedError):
                await self._consumer.close()
        closing = asyncio.get_running_loop().create_task(
            self._client.close(0.0), name=f"{self.name} is killed"
        )
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)

    # What its consumer says

    async def _assigned(self, _: object, partitions: Sequence[TopicPartition]) -> None:
        await self._callback()
        self._checker.take(Assigned(self.group, self.name, tuple(partitions)))
        for partition in partitions:
            self._assignments += 1
            self._owned[partition] = self._assignments
            self._copied.pop(partition, None)

    async def _taken_away(self, _: object, partitions: Sequence[TopicPartition]) -> None:
        await self._callback()
        taken = tuple(each for each in partitions if each in self._owned)
        self._checker.take(TakenAway(self.group, self.name, taken))
        for partition in partitions:
            self._owned.pop(partition, None)
            self._copied.pop(partition, None)

    async def _callback(self) -> None:
        self._checker.take(CallbackBegan(self.group, self.name))
        await asyncio.sleep(self._random.choice([0.0, 0.0, 0.01, 0.3]))
        self._checker.take(CallbackEnded(self.group, self.name))

    # What it does

    async def _run(self) -> None:
        is_committed = True
        while not self._stops:
            try:
                records = await self._consumer.poll(self._random.randint(1, 40), timeout=_POLL)
                for record in records:
                    partition = TopicPartition(record.topic, record.partition)
                    self._checker.take(Delivered(self.group, self.name, partition, record.offset))
                await self._copy(records)
                is_committed = is_committed and not records
                if not is_committed and self._chain.commits != "auto":
                    await self._commit()
                    is_committed = True
            except (CommitFailedError, MaxPollExceededError):
                continue  # others go on from the last commit, or this member commits behind its next poll
            except KafkaError as error:
                if not isinstance(error, AWAY) and not getattr(error, "retriable", False):
                    self.violations.append(RuleViolation("member failed", f"{self.name}: {error!r}"))
                await asyncio.sleep(_RETRY)

    async def _copy(self, records: Sequence[Record]) -> None:
        """Returns when every record is acknowledged; in between, partitions may go, and come again."""
        owned = dict(self._owned)
        left = [(record.key, record.value) for record in records]
        if left:
            # A program works on what it got, and may well be interrupted in that.
            await asyncio.sleep(self._random.choice(_WORKS))
        while left:
            receipts = [await self._client.produce(self._target, value, key=key) for key, value in left]
            left = [
                record
                for record, receipt in zip(left, receipts, strict=True)
                if not await _is_delivered(receipt)
            ]
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            if partition in self._owned and self._owned[partition] == owned.get(partition):
                self._copied[partition] = record.offset + 1

    async def _commit(self) -> None:
        offsets = dict(self._copied)
        await self._consumer.commit(offsets if self._chain.commits == "explicit" else None)
        self._checker.take(Committed(self.group, self.name, offsets))


async def _is_delivered(receipt: Awaitable[object]) -> bool:
    try:
        await receipt
    except KafkaError:
        return False
    return True


@dataclass
class _Link:
    """A group as it is now."""

    group: str
    source: str
    target: str
    members: list[ChainMember] = field(default_factory=list)


class GroupWorkload:
    """All groups of a chain, with members that come and go until it is told to settle."""

    def __init__(
        self,
        runtime: SimRuntime,
        bootstrap: str,
        nodes: Sequence[str],
        chain: Chain,
        checker: GroupChecker,
    ) -> None:
        """`nodes` are the machines of the cluster."""
        self.machines: list[str] = []
        """Where members run now; it changes under the hands of those who look at it."""
        self.vanished = self.left = 0
        self._runtime = runtime
        self._bootstrap = bootstrap
        self._nodes = nodes
        self._chain = chain
        self._checker = checker
        self._random = generator(runtime.seed, "groups")
        self._links = [_Link(*link) for link in chain.links]
        self._count = 0
        self._settles = asyncio.Event()
        self._changing: asyncio.Task[None] | None = None
        self._ending: list[asyncio.Task[None]] = []
        self._all: list[ChainMember] = []

    def start(self) -> None:
        for link in self._links:
            for _ in range(self._random.randint(1, 3)):
                self._add(link)
        self._changing = asyncio.get_running_loop().create_task(self._change(), name="members come and go")

    def violations(self) -> list[RuleViolation]:
        return [violation for member in self._all for violation in member.violations]

    async def _change(self) -> None:
        pause = self._chain.stays / (2 * len(self._links))
        while not await self._settled_within(self._random.expovariate(1 / pause)):
            link = self._random.choice(self._links)
            if not link.members or (len(link.members) < _MOST_MEMBERS and self._random.random() < 0.5):
                self._add(link)
            else:
                self._remove(link, self._random.choice(link.members))

    async def _settled_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._settles.wait()
        except TimeoutError:
            return False
        return True

    def _add(self, link: _Link) -> None:
        self._count += 1
        name = f"member-{self._count}"
        member = ChainMember(
            name,
            link.group,
            link.source,
            link.target,
            self._runtime,
            self._bootstrap,
            self._chain,
            self._checker,
        )
        member.start()
        link.members.append(member)
        self.machines.append(name)
        self._all.append(member)

    def _remove(self, link: _Link, member: ChainMember) -> None:
        link.members.remove(member)
        self.machines.remove(member.name)
        if self._random.random() < 0.5:
            self.vanished += 1
            ending = self._vanish(member)
        else:
            self.left += 1
            ending = member.leave()
        self._ending.append(asyncio.get_running_loop().create_task(ending, name=f"{member.name} ends"))

    async def _vanish(self, member: ChainMember) -> None:
        network, mode = self._runtime.network, self._random.choice(_VANISHING)
        first, *others = self._random.sample(self._nodes, len(self._nodes))
        try:
            network.cut(member.name, first, mode)
            # If that is its coordinator, the member goes on for a moment, and its commits are on their way for long.
            await self._settled_within(self._random.choice(_GOES_ON))
            for node in others:
                network.cut(member.name, node, mode)
            # Where connections break, a process that lives on would only try to connect, again and again.
            await member.vanish(killed=mode == "reset")
            # What it has sent in vain arrives late: others may have its partitions by then.
            await self._settled_within(self._random.choice(_SILENCES))
        finally:
            for node in self._nodes:
                network.heal(member.name, node)

    async def settle(self) -> None:
        """From now on nobody comes or goes; every group has a member."""
        self._settles.set()
        assert self._changing is not None
        await self._changing
        for link in self._links:
            if not link.members:
                self._add(link)

    async def close(self) -> None:
        """Everyone leaves."""
        self._settles.set()
        members = [member for link in self._links for member in link.members]
        for link in self._links:
            link.members.clear()
        await asyncio.gather(*(member.leave() for member in members), *self._ending)
