"""A look at every replica of a topic, again and again while a simulation runs: what holds at every moment.

One leader in each epoch; what one replica calls committed stays as it is, on that replica and on all others; the
latest leader has all of it; nothing is asked again and again. A history with the logs in the end (checks.py) would
show a part of that only, and late.

The watch reads what nodes have in memory and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.replication.partition import NO_EPOCH, Partition
from ottla.sim.checks import FinalLogs, LoggedRecord, RuleViolation
from ottla.sim.trace import Trace
from ottla.wire.batch_header import LOG_OVERHEAD, unpack_header
from ottla.wire.records import decode_fetch

_EVERY: Final = 0.1
_COUNTS: Final = 30
_MOST_ARRIVALS: Final = 3000
"""In as many looks as are counted: four times as many as ever come where nothing is asked again and again."""
_MAX_BYTES: Final = 1 << 24


class CommittedBatch(NamedTuple):
    """What tells a batch from any other."""

    base_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    checksum: int


class Watch:
    """Looks at the replicas of one topic. Violations are kept until the end, each once."""

    def __init__(self, cluster: AsyncCluster, topic: str, trace: Trace) -> None:
        self._cluster = cluster
        self._trace = trace
        self._counts: deque[int] = deque(maxlen=_COUNTS)
        self._topic = topic
        self._leaders: dict[tuple[int, int], int] = {}
        # By partition, the latest that any replica has heard of.
        self._epochs: dict[int, int] = {}
        # By partition, the batch at each offset that some replica has called committed.
        self._committed: dict[int, list[CommittedBatch]] = {}
        # By node and partition, how far a replica has been compared with that.
        self._compared: dict[tuple[int, int], int] = {}
        self._ignored: set[int] = set()
        self._violations: dict[RuleViolation, None] = {}
        self.on_violation: Callable[[], object] = lambda: None
        """Called with every look at which a rule does not hold."""
        self._task: asyncio.Task[None] | None = None

    @property
    def violations(self) -> list[RuleViolation]:
        return list(self._violations)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="watch")

    def ignore(self, index: int) -> None:
        """From here on what is committed in a partition may change: it was lost, or is compacted."""
        self._ignored.add(index)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self.look()
            self._look_at_traffic()
            await asyncio.sleep(_EVERY)

    def look(self) -> None:
        """At everything, now."""
        replicas = [
            (node_id, index, replica)
            for node_id, node in self._cluster.nodes.items()
            for (topic, index), replica in node.replicas.partitions.items()
            if topic == self._topic
        ]
        # First what is committed, and in which epoch, as far as any replica knows: a leader is judged by all of it.
        for node_id, index, replica in replicas:
            self._compare(node_id, index, replica)
            self._epochs[index] = max(self._epochs.get(index, NO_EPOCH), replica.leader_epoch)
        for node_id, index, replica in replicas:
            if replica.is_leader:
                self._look_at_leader(node_id, index, replica)

    def _look_at_traffic(self) -> None:
        self._counts.append(self._trace.count)
        arrived = self._counts[-1] - self._counts[0]
        if arrived > _MOST_ARRIVALS:
            self._report("busy without end", f"{arrived} arrivals in {_EVERY * _COUNTS:g} s")

    def _report(self, rule: str, what: str) -> None:
        self._violations[RuleViolation(rule, what)] = None
        self.on_violation()

    def _look_at_leader(self, node_id: int, index: int, replica: Partition) -> None:
        epoch = replica.leader_epoch
        other = self._leaders.setdefault((index, epoch), node_id)
        if other != node_id:
            self._report(
                "two leaders", f"nodes {other} and {node_id} both lead partition {index} in epoch {epoch}"
            )
        committed = len(self._committed.get(index, ()))
        if index in self._ignored:
            return
        if epoch == self._epochs[index] and replica.log.log_end_offset < committed:
            self._report(
                "leader lacks what is committed",
                f"node {node_id} leads partition {index} in epoch {epoch} and ends at {replica.log.log_end_offset}, "
                f"before offset {committed - 1} that was committed",
            )

    def _compare(self, node_id: int, index: int, replica: Partition) -> None:
        """What this replica calls committed with what any replica has ever called so."""
        if index in self._ignored:
            return
        end = replica.high_watermark
        offset = min(self._compared.get((node_id, index), 0), end)
        committed = self._committed.setdefault(index, [])
        for batch, last_offset in _batches(replica, offset, end):
            for at in range(max(offset, batch.base_offset), min(last_offset + 1, end)):
                if at == len(committed):
                    committed.append(batch)
                elif committed[at] != batch:
                    self._report(
                        "what is committed changed",
                        f"offset {at} of partition {index} was {committed[at]} and is {batch} on node {node_id}",
                    )
        self._compared[node_id, index] = end


def final_logs(cluster: AsyncCluster, topic: str, partitions: int) -> FinalLogs:
    """What every replica has below its high watermark."""
    return {
        index: {
            node_id: _records(node.replicas.partitions[topic, index])
            for node_id, node in sorted(cluster.nodes.items())
            if (topic, index) in node.replicas.partitions
        }
        for index in range(partitions)
    }


def _records(replica: Partition) -> list[LoggedRecord]:
    return [
        LoggedRecord(record.offset, record.value or b"", record.leader_epoch)
        for part in _parts(replica, replica.log.log_start_offset, replica.high_watermark)
        for record in decode_fetch(bytes(part), replica.topic, replica.index)
    ]


def _batches(replica: Partition, offset: int, end: int) -> Iterator[tuple[CommittedBatch, int]]:
    """The batches between two offsets, each with its last offset."""
    for part in _parts(replica, offset, end):
        position = 0
        while position < len(part):
            base, length, epoch, _, crc, _, delta, _, _, producer_id, producer_epoch, sequence, _ = (
                unpack_header(part, position)
            )
            yield CommittedBatch(base, epoch, producer_id, producer_epoch, sequence, crc), base + delta
            position += length + LOG_OVERHEAD


def _parts(replica: Partition, offset: int, end: int) -> Iterator[memoryview]:
    while offset < end:
        found = replica.log.read(offset, _MAX_BYTES, end, at_least_one=True)
        if not found.size:
            return
        yield from found.parts
        offset = found.next_offset
