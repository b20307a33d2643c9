"""Random histories of one partition: appends, fetches, lost messages, deaths, clean elections, changes of the ISR.

The replicas, their logs and the follower's half of a fetch are the real ones; the network and the controller are a
few lines here. Every message waits until the history delivers it, late or never. After each step:

- what was committed once, on any replica, is so for good, byte for byte, and every member of the ISR has it
- so an acknowledged record is on whichever replica a clean election may choose
- an epoch has one leader, which alone writes in it; a replica's epoch never goes back, and neither do the epochs of
  the batches in a log

Each planted bug has to be found, which shows that the histories get as far as that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from ottla.broker.log.fs import MemoryFileSystem
from ottla.broker.log.validation import only_batch
from ottla.broker.metadata.image import PartitionImage
from ottla.broker.replication.fetcher import Followed, ReplicaFetcher
from ottla.broker.replication.partition import ACKS_ALL, FetchTimes, IsrChange, Partition
from ottla.errors import BrokerError, NotEnoughReplicasError
from ottla.runtime import MovableClock
from ottla.wire import Message, Uuid
from ottla.wire.batches import BatchHeader, batch_headers
from ottla.wire.messages import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from tests.broker.log.support import NOW, joined, make_batch, open_log

ORDERS = Uuid(b"orders".ljust(16))
REPLICAS = (1, 2, 3)
MAX_LAG = 10.0
NO_LEADER = -1
FENCED_LEADER_EPOCH, INVALID_REQUEST, INVALID_UPDATE_VERSION, INELIGIBLE_REPLICA = 74, 42, 95, 107
FETCH_BYTES = 1 << 20

CONFIGS = {
    "replica.fetch.backoff.ms": 1000,
    "replica.socket.timeout.ms": 30_000,
    "replica.fetch.max.bytes": FETCH_BYTES,
    "replica.fetch.response.max.bytes": FETCH_BYTES,
    "replica.fetch.wait.max.ms": 500,
    "replica.fetch.min.bytes": 1,
}


Step = tuple[str, tuple[Any, ...]]
"""The name of a step of a history, and its arguments."""


class Configs:
    def value(self, name: str) -> Any:
        return CONFIGS[name]


class ModelClock(MovableClock):
    """The time of the history."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class Broker:
    """As the controller knows it."""

    epoch: int = 1
    fenced: bool = False


@dataclass
class Decided:
    """A controller's answer to a proposal."""

    change: IsrChange
    code: int
    image: PartitionImage


class Controller:
    """Decides as Kafka's does, without ELR: the last member stays in an ISR, without a leader while it is gone."""

    def __init__(self) -> None:
        self.image = PartitionImage(REPLICAS, REPLICAS, 1, 0, 0)
        self.brokers = {replica: Broker() for replica in REPLICAS}

    def is_eligible(self, replica: int, epoch: int) -> bool:
        broker = self.brokers[replica]
        return not broker.fenced and epoch in (-1, broker.epoch)

    def alter(self, sender: int, change: IsrChange) -> Decided:
        image = self.image
        code = 0
        if change.leader_epoch != image.leader_epoch:
            code = FENCED_LEADER_EPOCH
        elif sender != image.leader or sender not in change.isr:
            code = INVALID_REQUEST
        elif change.partition_epoch != image.partition_epoch:
            code = INVALID_UPDATE_VERSION
        elif not all(map(self.is_eligible, change.isr, change.broker_epochs)):
            code = INELIGIBLE_REPLICA
        else:
            self.image = replace(image, isr=change.isr, partition_epoch=image.partition_epoch + 1)
        return Decided(change, code, self.image)

    def fence(self, replica: int) -> None:
        self.brokers[replica].fenced = True
        self._decide(tuple(each for each in self.image.isr if each != replica))

    def unfence(self, replica: int) -> None:
        self.brokers[replica].fenced = False
        if self.image.leader == NO_LEADER:
            self._decide(self.image.isr)

    def elect(self, replica: int) -> None:
        """A clean election."""
        assert replica in self.image.isr
        self._lead(replica, self.image.isr)

    def _decide(self, isr: tuple[int, ...]) -> None:
        isr = isr or self.image.isr
        leader = self.image.leader
        able = [each for each in REPLICAS if each in isr and not self.brokers[each].fenced]
        if leader not in able:
            leader = able[0] if able else NO_LEADER
        if leader != self.image.leader or isr != self.image.isr:
            self._lead(leader, isr)

    def _lead(self, leader: int, isr: tuple[int, ...]) -> None:
        old = self.image
        self.image = replace(
            old,
            isr=isr,
            leader=leader,
            leader_epoch=old.leader_epoch + (leader != old.leader),
            partition_epoch=old.partition_epoch + 1,
        )


@dataclass
class Sent:
    """A fetch on its way, and back."""

    fetcher: ReplicaFetcher
    followed: Followed
    leader: int
    broker_epoch: int
    asked: FetchRequest.FetchPartition
    result: FetchResponse.PartitionData | None = None


@dataclass
class Node:
    """A broker with its replica, or what a dead one has left on its disk."""

    id: int
    fs: MemoryFileSystem
    partition: Partition
    broker_epoch: int = 1
    is_alive: bool = True
    fetcher: ReplicaFetcher | None = None
    sent: Sent | None = None
    proposed: list[IsrChange] = field(default_factory=list)
    decided: list[Decided] = field(default_factory=list)
    brokers: dict[int, Broker] = field(default_factory=dict)
    seen: int = -1
    """How many changes of its partition were looked at."""
    content: bytes = b""

    @property
    def end(self) -> int:
        return self.partition.log.log_end_offset

    @property
    def leads(self) -> bool:
        """As far as it knows."""
        return self.is_alive and self.partition.is_leader


class Link:
    """What a follower asks beside its fetches, the leader answers at once."""

    def __init__(self, history: History) -> None:
        self._history = history

    async def request(self, leader: int, request: Message, version: int, timeout: float) -> Message:
        assert isinstance(request, ListOffsetsRequest)
        (query,) = request.topics[0].partitions
        log = self._history.nodes[leader].partition.log
        found = ListOffsetsResponse.ListOffsetsPartitionResponse(
            offset=log.log_end_offset if query.timestamp == -1 else log.log_start_offset
        )
        topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="orders", partitions=[found])
        return ListOffsetsResponse(topics=[topic])

    def hurry(self, leader: int) -> None:
        """Nothing is parked."""


class History:
    """What happens, step by step."""

    def __init__(self, min_in_sync: int) -> None:
        self.clock = ModelClock()
        self.controller = Controller()
        self.min_in_sync = min_in_sync
        self.nodes: dict[int, Node] = {}
        for replica in REPLICAS:
            self._start(replica, MemoryFileSystem(), 0)
        self.written = 0
        self.committed: list[bytes] = []
        """Batches of one record each."""
        self.waiting: list[tuple[Partition, int, bytes]] = []
        self.acknowledged: dict[int, bytes] = {}
        self.leaders: dict[int, int] = {}
        self.epochs = dict.fromkeys(REPLICAS, 0)

    # Nodes

    def _start(self, replica: int, fs: MemoryFileSystem, high_watermark: int) -> None:
        def is_eligible(broker_id: int, epoch: int) -> bool:
            broker = node.brokers[broker_id]
            return not broker.fenced and epoch in (-1, broker.epoch)

        partition = Partition(
            replica,
            "orders",
            ORDERS,
            0,
            open_log(fs),
            min_in_sync=self.min_in_sync,
            max_lag=MAX_LAG,
            high_watermark=high_watermark,
            is_eligible=is_eligible,
        )
        node = self.nodes[replica] = Node(replica, fs, partition)
        self.learn(replica)

    def kill(self, replica: int) -> None:
        self.nodes[replica].is_alive = False

    def restart(self, replica: int, knows_watermark: bool) -> None:
        """With its files, and with the high watermark of the last checkpoint, which may be old."""
        old = self.nodes[replica]
        if not self.controller.brokers[replica].fenced:
            self.controller.fence(replica)
        broker = self.controller.brokers[replica]
        broker.epoch += 1
        self.controller.unfence(replica)
        self._start(replica, old.fs, old.partition.high_watermark if knows_watermark else 0)
        self.nodes[replica].broker_epoch = broker.epoch

    def learn(self, replica: int) -> None:
        """The metadata log has come as far as the controller is."""
        node = self.nodes[replica]
        node.brokers = {each: replace(broker) for each, broker in self.controller.brokers.items()}
        partition = node.partition
        if partition.become(self.controller.image, self.clock.now):
            if node.fetcher is not None:
                node.fetcher.partitions.clear()
                node.fetcher = None
            if partition.image.has_leader and not partition.is_leader:
                node.fetcher = self._fetcher(node, partition.image.leader)
        partition.commit(self.clock.now)

    def _fetcher(self, node: Node, leader: int) -> ReplicaFetcher:
        fetcher = ReplicaFetcher(
            node.id,
            leader,
            Link(self),
            self.clock,
            Configs(),
            broker_epoch=lambda: node.broker_epoch,
            now_ms=lambda: NOW,
            on_fetched=lambda partition, appended, committed: None,
            running=asyncio.Event(),
            fail=lambda what, error: None,
        )
        fetcher.partitions[node.partition.key] = Followed(node.partition, node.partition.leader_epoch)
        return fetcher

    # Records

    def append(self, replica: int, acks: int) -> None:
        partition = self.nodes[replica].partition
        self.written += 1
        data = make_batch(value=b"%d" % self.written)
        try:
            appended = partition.append(only_batch(data), acks, NOW)
        except NotEnoughReplicasError:
            return
        if acks == ACKS_ALL:
            batch = joined(partition.log.read(appended.base_offset, 1, at_least_one=True))
            self.waiting.append((partition, appended.base_offset, batch))
        partition.commit(self.clock.now)

    # Fetches

    def fetch(self, replica: int) -> None:
        node = self.nodes[replica]
        fetcher = node.fetcher
        if fetcher is None or not fetcher.partitions:
            return
        (followed,) = fetcher.partitions.values()
        followed.not_before = 0.0
        fetcher._forget_session()
        request = fetcher._request(fetcher._ask())
        (asked,) = request.topics[0].partitions
        node.sent = Sent(fetcher, followed, fetcher.leader, node.broker_epoch, asked)

    def serve(self, replica: int, max_bytes: int) -> None:
        """The fetch of a follower arrives at its leader."""
        sent = self.nodes[replica].sent
        if sent is None or sent.result is not None or not self.nodes[sent.leader].is_alive:
            return
        leader = self.nodes[sent.leader]
        try:
            sent.result = self._serve(leader, replica, sent, max_bytes)
        except BrokerError as error:
            sent.result = FetchResponse.PartitionData(error_code=error.code)

    def _serve(self, leader: Node, replica: int, sent: Sent, max_bytes: int) -> FetchResponse.PartitionData:
        partition, asked = leader.partition, sent.asked
        partition.check_epoch(asked.current_leader_epoch)
        partition.check_leader()
        partition.check_follower(replica, sent.broker_epoch, names_epoch=True)
        result = FetchResponse.PartitionData(
            high_watermark=partition.high_watermark, log_start_offset=0, records=b""
        )
        if asked.last_fetched_epoch >= 0:
            epoch, end = partition.log.epochs.end_offset_for(
                asked.last_fetched_epoch, partition.log.log_end_offset
            )
            if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
                result.diverging_epoch = FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end)
                return result
        found = partition.fetch_as_follower(asked.fetch_offset, max_bytes, at_least_one=True)
        if found.parts:
            result.records = found.parts[0]
        partition.follower_fetched(
            replica, asked.fetch_offset, 0, FetchTimes(self.clock.now), sent.broker_epoch
        )
        change = partition.expand(replica)
        if change is not None:
            leader.proposed.append(change)
        partition.commit(self.clock.now)
        return result

    def receive(self, replica: int) -> None:
        """The response comes back to the follower, if it lives on."""
        node = self.nodes[replica]
        sent, node.sent = node.sent, None
        if sent is None or sent.result is None:
            return
        taking = sent.fetcher._take(sent.followed, sent.asked.fetch_offset, sent.result)
        with pytest.raises(StopIteration):
            taking.send(None)

    def lose_fetch(self, replica: int) -> None:
        self.nodes[replica].sent = None

    # The controller

    def fence(self, replica: int) -> None:
        """Its session ends, whether it is dead or only slow."""
        self.controller.fence(replica)

    def unfence(self, replica: int) -> None:
        self.controller.unfence(replica)

    def elect(self, replica: int) -> None:
        self.controller.elect(replica)

    def all_learn(self) -> None:
        for node in self.nodes.values():
            if node.is_alive:
                self.learn(node.id)

    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds
        for node in self.nodes.values():
            if node.is_alive:
                self.shrink(node.id)

    def replicate(self, replica: int) -> None:
        """A fetch that is not disturbed, and the one after it, which says how far it has come."""
        for _ in range(2):
            self.fetch(replica)
            self.serve(replica, FETCH_BYTES)
            self.receive(replica)

    def leave_behind(self, replica: int) -> None:
        """The others go on without one, which comes back with what it had."""
        self.fence(replica)
        self.all_learn()
        leader = self.controller.image.leader
        if leader != NO_LEADER and self.nodes[leader].leads:
            self.append(leader, ACKS_ALL)
            for other in self.nodes.values():
                if other.is_alive and other.id != replica:
                    self.replicate(other.id)
        self.unfence(replica)
        self.all_learn()

    # Who is in sync

    def shrink(self, replica: int) -> None:
        node = self.nodes[replica]
        change = node.partition.shrink(self.clock.now)
        if change is not None:
            node.proposed.append(change)

    def decide(self, replica: int, is_answered: bool) -> None:
        """A proposal arrives; without an answer, it is made again."""
        node = self.nodes[replica]
        node.proposed = [each for each in node.proposed if node.partition.pending is each]
        if node.proposed:
            decided = self.controller.alter(replica, node.proposed[0])
            if is_answered:
                node.decided.append(decided)
                del node.proposed[0]

    def answer(self, replica: int) -> None:
        node = self.nodes[replica]
        if not node.decided:
            return
        decided = node.decided.pop(0)
        if decided.code == INELIGIBLE_REPLICA:
            node.partition.refused(decided.change)
        elif decided.code == 0:
            image = decided.image
            node.partition.altered(decided.change, image.isr, image.leader_epoch, image.partition_epoch)
            node.partition.commit(self.clock.now)

    # What has to hold

    def check(self) -> None:
        for node in self.nodes.values():
            if node.seen != node.partition.changes:
                node.seen = node.partition.changes
                node.content = joined(node.partition.log.read(0, 1 << 24))
                headers = batch_headers(node.content)
                self._check_epochs(node, [header.leader_epoch for header in headers])
                self._check_committed(node, headers)
        self._acknowledge()
        committed = b"".join(self.committed)
        for member in self.controller.image.isr:
            assert self.nodes[member].content[: len(committed)] == committed, (
                f"{member} is in sync and has not all that is committed"
            )
        for offset, batch in self.acknowledged.items():
            assert self.committed[offset] == batch, "an acknowledged record is lost"

    def _check_epochs(self, node: Node, epochs: list[int]) -> None:
        partition = node.partition
        assert epochs == sorted(epochs), "a batch of an earlier leader behind one of a later leader"
        if not node.is_alive or partition.leader_epoch < 0:
            return
        assert partition.leader_epoch >= self.epochs[node.id], "the epoch of a replica has gone back"
        self.epochs[node.id] = partition.leader_epoch
        if partition.is_leader:
            leader = self.leaders.setdefault(partition.leader_epoch, node.id)
            assert leader == node.id, "an epoch has two leaders"
            written = epochs[partition.epoch_start_offset :]
            assert all(epoch == partition.leader_epoch for epoch in written), "a leader alone writes"

    def _check_committed(self, node: Node, headers: list[BatchHeader]) -> None:
        if not node.is_alive:
            return
        high_watermark = node.partition.high_watermark
        assert high_watermark <= node.end
        content = node.content
        position = 0
        for offset, header in enumerate(headers[:high_watermark]):
            assert header.base_offset == offset
            batch = content[position : position + header.size]
            position += header.size
            if offset < len(self.committed):
                assert self.committed[offset] == batch, "what was committed has changed"
            else:
                self.committed.append(batch)

    def _acknowledge(self) -> None:
        still = []
        for partition, offset, batch in self.waiting:
            node = self.nodes[partition.node_id]
            if node.partition is not partition or not node.is_alive or not partition.is_leader:
                continue  # it fails
            if partition.has_committed(offset + 1):
                assert self.acknowledged.setdefault(offset, batch) == batch
            else:
                still.append((partition, offset, batch))
        self.waiting = still

    # What may come next

    def possible(self) -> list[Step]:
        """The steps that change anything; those that lead on more often than those that end something."""
        steps: list[Step] = [("all_learn", ()), ("pass_time", (1.0,)), ("pass_time", (2 * MAX_LAG,))]
        alive = [node for node in self.nodes.values() if node.is_alive]
        for node in alive:
            replica = node.id
            if node.partition.is_leader:
                steps += [("append", (replica, acks)) for acks in (1, ACKS_ALL)] * 3
            if node.partition.image != self.controller.image:
                steps += [("learn", (replica,))] * 2
            if node.fetcher is not None and node.fetcher.partitions:
                steps += [("replicate", (replica,))] * 4
                if node.sent is None:
                    steps += [("fetch", (replica,))] * 2
            if any(node.partition.pending is change for change in node.proposed):
                steps += [("decide", (replica, True))] * 3 + [("decide", (replica, False))]
            if node.decided:
                steps += [("answer", (replica,))] * 2
            if len(alive) > 1:
                steps.append(("kill", (replica,)))
            steps += self._of_the_controller(replica)
        for node in self.nodes.values():
            steps += self._of_the_network(node)
            if not node.is_alive:
                steps += [("restart", (node.id, knows)) for knows in (False, True)]
                if not self.controller.brokers[node.id].fenced:
                    steps += [("fence", (node.id,))] * 4
        return steps

    def _of_the_controller(self, replica: int) -> list[Step]:
        if self.controller.brokers[replica].fenced:
            return [("unfence", (replica,))] * 2
        steps: list[Step] = [("fence", (replica,)), *[("leave_behind", (replica,))] * 2]
        if replica in self.controller.image.isr and replica != self.controller.image.leader:
            steps.append(("elect", (replica,)))
        return steps

    def _of_the_network(self, node: Node) -> list[Step]:
        if node.sent is None:
            return []
        if node.sent.result is None:
            return [("serve", (node.id, size)) for size in (1, FETCH_BYTES)] * 2
        if node.is_alive:
            return [("receive", (node.id,))] * 4 + [("lose_fetch", (node.id,))]
        return []

    def take(self, step: Step) -> None:
        name, arguments = step
        getattr(self, name)(*arguments)
        self.check()


class Histories(RuleBasedStateMachine):
    """Chooses the steps."""

    history: History

    @initialize(min_in_sync=st.integers(1, 2))
    def begin(self, min_in_sync: int) -> None:
        self.history = History(min_in_sync)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        self.history.take(data.draw(st.sampled_from(self.history.possible())))


def test_what_is_committed_stays_whatever_happens_to_the_replicas() -> None:
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=25,
            stateful_step_count=60,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def wander(seeds: range, steps: int = 60) -> None:
    """The same by a generator of random numbers: many more steps in the same time, and none of them simplified."""
    for seed in seeds:
        random = Random(seed)
        history = History(min_in_sync=1 + seed % 2)
        for _ in range(steps):
            history.take(random.choice(history.possible()))


def test_long_histories_hold() -> None:
    wander(range(100))


# Planted bugs


def watermark_of_the_committed_isr(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "maximal_isr", property(lambda self: self.image.isr))


def watermark_of_the_proposed_isr(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Partition,
        "maximal_isr",
        property(lambda self: self.image.isr if self.pending is None else self.pending.isr),
    )


def watermark_at_the_end_of_the_log(patch: pytest.MonkeyPatch) -> None:
    def commit(self: Partition, now: float) -> int:
        return self._advance(self.log.log_end_offset) if self.is_leader else 0

    patch.setattr(Partition, "commit", commit)


def joining_below_the_start_of_the_epoch(patch: pytest.MonkeyPatch) -> None:
    expand = Partition.expand

    def anywhere(self: Partition, replica: int) -> IsrChange | None:
        start, self.epoch_start_offset = self.epoch_start_offset, -1
        try:
            return expand(self, replica)
        finally:
            self.epoch_start_offset = start

    patch.setattr(Partition, "expand", anywhere)


def no_truncation(patch: pytest.MonkeyPatch) -> None:
    """A follower that does not name the epoch of its last batch never learns that its log parts from the leader's."""
    patch.setattr(Followed, "position", property(lambda self: (self.partition.log.log_end_offset, -1, 0)))


def responses_of_another_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        ReplicaFetcher,
        "_is_current",
        lambda self, followed, offset: followed.partition.log.log_end_offset == offset,
    )


@pytest.mark.parametrize(
    ("bug", "first"),
    [
        (watermark_of_the_committed_isr, 20),
        (watermark_of_the_proposed_isr, 0),
        (watermark_at_the_end_of_the_log, 0),
        (joining_below_the_start_of_the_epoch, 190),
        (no_truncation, 0),
        (responses_of_another_epoch, 430),
    ],
)
def test_a_planted_bug_is_found(
    bug: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first seed is near one that finds it: it would be found from any other too, later."""
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        wander(range(first, first + 2000))
