"""Random operations on a simulated cluster, while idempotent producers and long polls go on.

Whatever is done to the nodes, their links, their volume and the clock: nothing acknowledged is lost or stored twice,
every call returns, nothing fails where nobody looks, and nothing is left of a cluster that was closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from ottla import sim
from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.cluster.node import NodeFailedError
from ottla.errors import KafkaError
from ottla.net.channel import Channel
from ottla.wire.messages import ProduceResponse
from tests.broker.log.failing import FailingFileSystem
from tests.broker.worlds import batch, fetch_request, produce_request

NODES = (1, 2, 3)
PARTITIONS = 2
STEPS = 30
LONG = 2000.0
SHORT_LOG = {
    "metadata.log.max.record.bytes.between.snapshots": 2_000,
    "metadata.max.retention.bytes": 10_000,
}
"""So short that a node which was away for long begins with a snapshot of the metadata log."""
# Retriable, each of them: the next attempt may well meet another leader.
UNKNOWN_TOPIC, NOT_LEADER, TIMED_OUT, NOT_ENOUGH_REPLICAS, STORAGE = 3, 6, 7, 19, 56
OUT_OF_ORDER = 45
"""From a leader that was replaced, and has not heard of it: it lacks what its successor has acknowledged."""
Failures = (OSError, TimeoutError, KafkaError)


class Caller:
    """Somebody with a connection to one node after the other."""

    def __init__(self, runtime: sim.SimRuntime, cluster: AsyncCluster, random: Random) -> None:
        self.runtime, self.cluster, self.random = runtime, cluster, random
        self.is_done = False
        self._channel: Channel | None = None

    async def channel(self) -> Channel:
        if self._channel is None or self._channel.is_closed:
            if not self.cluster.nodes:
                raise ConnectionRefusedError("no node runs")
            node = self.random.choice(list(self.cluster.nodes.values()))
            self._channel = await Channel.open(self.runtime, node.host, node.port)
        return self._channel

    def hang_up(self) -> None:
        if self._channel is not None:
            self._channel.close()

    async def run(self) -> None:
        while not self.is_done:
            try:
                await self.once()
            except Failures:
                self.hang_up()
                await asyncio.sleep(self.random.choice([0.001, 0.05]))
        self.hang_up()

    async def once(self) -> None:
        raise NotImplementedError


class Producer(Caller):
    """Sends one batch until it is acknowledged, then the next."""

    def __init__(self, runtime: sim.SimRuntime, cluster: AsyncCluster, random: Random, number: int) -> None:
        super().__init__(runtime, cluster, random)
        self.id, self.partition = 1000 + number, number % PARTITIONS
        self.acknowledged: list[tuple[bytes, int]] = []

    @property
    def prefix(self) -> bytes:
        return b"%d " % self.id

    async def once(self) -> None:
        sequence = len(self.acknowledged)
        value = self.prefix + b"%d" % sequence
        now = int(self.runtime.clock.time() * 1000)
        records = batch(value, timestamp=now, producer_id=self.id, producer_epoch=0, base_sequence=sequence)
        request = produce_request("orders", records, self.partition, timeout_ms=1000)
        answer = await (await self.channel()).request(request, 9, self.random.choice([0.002, 0.5, 5]))
        assert isinstance(answer, ProduceResponse)
        (result,) = answer.responses[0].partition_responses
        if result.error_code == 0:
            self.acknowledged.append((value, result.base_offset))
            await asyncio.sleep(self.random.choice([0, 0.01, 0.1]))
        else:
            retriable = (UNKNOWN_TOPIC, NOT_LEADER, TIMED_OUT, NOT_ENOUGH_REPLICAS, OUT_OF_ORDER, STORAGE)
            assert result.error_code in retriable
            raise TimeoutError


class Reader(Caller):
    """Long polls, of which many are given up."""

    async def once(self) -> None:
        topic = self.random.choice(["orders", "passing"])
        request = fetch_request(topic, 0, self.random.randrange(PARTITIONS), 60_000, 1_000_000)
        channel = await self.channel()
        asyncio.get_running_loop().call_later(self.random.random(), channel.close)
        await channel.request(request, 12, self.random.choice([0.01, 1, 5]))


class Operator:
    """Does anything to the cluster at any time, and never waits for the last thing to be over."""

    def __init__(
        self,
        runtime: sim.SimRuntime,
        cluster: AsyncCluster,
        random: Random,
        volumes: dict[int, FailingFileSystem],
    ) -> None:
        self.runtime, self.cluster, self.random, self.volumes = runtime, cluster, random, volumes
        self.under_way: list[asyncio.Task[None]] = []

    async def work(self) -> None:
        operations = OPERATIONS if not self.volumes else [*OPERATIONS, *[Operator.fail_volume] * 10]
        for _ in range(STEPS):
            operation = self.random.choice(operations)
            self.under_way.append(asyncio.create_task(self._tried(operation, self.random.choice(NODES))))
            await asyncio.sleep(self.random.choice([0, 0.0005, 0.002, 0.02, 0.3, 2]))

    async def calm(self) -> None:
        """Everything heals, every call returns, every node runs."""
        self.runtime.network.heal_all()
        for volume in self.volumes.values():
            volume.mend()
        await self.returned()
        with suppress(ValueError):  # it runs
            await self.cluster.start_controller()
        for node_id in NODES:
            if node_id not in self.cluster.nodes:
                await self.cluster.start_node(node_id)
            self.cluster.resume_node(node_id)
            self.cluster.heal_controller(node_id)
            self.cluster.heal_link(node_id, node_id % len(NODES) + 1)

    async def returned(self) -> None:
        await asyncio.wait_for(asyncio.gather(*self.under_way), LONG)

    async def _tried(self, operation: Operation, node_id: int) -> None:
        try:
            done = operation(self, node_id)
            if done is not None:
                await done
        except (*Failures, ValueError):
            pass  # a node that runs already, a leader that is not alive, a node that was stopped while it started
        except NodeFailedError:
            assert self.volumes
        except RuntimeError as refusal:
            if not str(refusal).startswith(
                ("no node runs", "the cluster is closed", "the controller is stopped")
            ):
                raise

    def cut(self, node_id: int) -> None:
        place = self.random.choice(["controller", "localhost"])
        self.runtime.network.cut(place, f"node-{node_id}", self.random.choice(["silent", "one way", "reset"]))

    def fail_volume(self, node_id: int) -> None:
        """One of the next changes of a partition's files fails: a producer is refused, or a node stops."""
        volume, left = self.volumes[node_id], self.random.randrange(1, 8)

        def fails(call: str, path: str) -> bool:
            nonlocal left
            left -= 1
            if not left:
                volume.mend()
            return not left

        volume.fail_if(fails)

    async def stop_impatiently(self, node_id: int) -> None:
        await asyncio.wait_for(self.cluster.stop_node(node_id), self.random.choice([0.001, 0.01, 0.1]))


Operation = Callable[[Operator, int], Awaitable[None] | None]

OPERATIONS: list[Operation] = [
    lambda on, node: on.cluster.move_leader("orders", on.random.randrange(PARTITIONS), node),
    lambda on, node: on.cluster.stop_node(node),
    lambda on, node: on.cluster.stop_node(node, clean=False),
    lambda on, node: on.stop_impatiently(node),
    lambda on, node: on.cluster.start_node(node),
    lambda on, node: on.cluster.start_node(node),
    lambda on, node: on.cluster.start_node(node),
    lambda on, node: on.cluster.pause_node(node),
    lambda on, node: on.cluster.resume_node(node),
    lambda on, node: on.cluster.resume_node(node),
    lambda on, node: on.cluster.cut_controller(node),
    lambda on, node: on.cluster.heal_controller(node),
    lambda on, node: on.cluster.heal_controller(node),
    lambda on, node: on.cluster.fence_node(node),
    lambda on, node: on.cluster.stop_controller(),
    lambda on, node: on.cluster.stop_controller(clean=False),
    lambda on, node: on.cluster.start_controller(),
    lambda on, node: on.cluster.start_controller(),
    lambda on, node: on.cluster.start_controller(),
    lambda on, node: on.cluster.start_controller(),
    lambda on, node: on.cluster.create_topic("passing", PARTITIONS),
    lambda on, node: on.cluster.delete_topic("passing"),
    lambda on, node: on.cluster.clock.advance(on.random.choice([0.5, 10, 40])),
    lambda on, node: on.cluster.clock.advance(3600),
    lambda on, node: on.cut(node),
    lambda on, node: on.cluster.cut_link(node, node % len(NODES) + 1, one_way=on.random.random() < 0.5),
    lambda on, node: on.cluster.heal_link(node, node % len(NODES) + 1),
    lambda on, node: on.runtime.network.heal_all(),
]


async def in_chaos(
    runtime: sim.SimRuntime, *, closed_in_the_middle: bool, failing_volumes: bool = False
) -> int:
    """How much was acknowledged."""
    random = Random(runtime.seed)
    cluster = AsyncCluster(len(NODES), topics={"orders": PARTITIONS}, config=SHORT_LOG, runtime=runtime)
    volumes = {node_id: FailingFileSystem() for node_id in NODES} if failing_volumes else {}
    for node_id, volume in volumes.items():
        cluster.volumes.use(node_id, volume)
    await cluster.start()
    producers = [Producer(runtime, cluster, Random(random.random()), number) for number in range(4)]
    callers: list[Caller] = [
        *producers,
        *(Reader(runtime, cluster, Random(random.random())) for _ in range(3)),
    ]
    calling = [asyncio.create_task(caller.run()) for caller in callers]
    operator = Operator(runtime, cluster, random, volumes)
    await operator.work()
    if closed_in_the_middle:
        await cluster.close()
        await operator.returned()
    else:
        await operator.calm()
        before = sum(len(producer.acknowledged) for producer in producers)
        await cluster.wait_for(
            lambda: sum(len(producer.acknowledged) for producer in producers) > before + 100,
            "new records",
            LONG,
        )
    for caller in callers:
        caller.is_done = True
    await asyncio.wait_for(asyncio.gather(*calling), LONG)
    if not closed_in_the_middle:
        check_contents(cluster, producers)
        await cluster.close()
    await check_nothing_is_left(runtime)
    return sum(len(producer.acknowledged) for producer in producers)


def check_contents(cluster: AsyncCluster, producers: list[Producer]) -> None:
    for producer in producers:
        held = [(record.value, record.offset) for record in cluster.dump("orders", producer.partition)]
        own = [(value, offset) for value, offset in held if value and value.startswith(producer.prefix)]
        # An attempt that nobody waited for any more may have been the last.
        assert own[: len(producer.acknowledged)] == producer.acknowledged
        assert len(own) - len(producer.acknowledged) in (0, 1)
    for number in range(PARTITIONS):
        partition = cluster.partition("orders", number)
        assert partition.log.epochs.latest == partition.leader_epoch


async def check_nothing_is_left(runtime: sim.SimRuntime) -> None:
    runtime.network.heal_all()
    await asyncio.sleep(300)
    assert not runtime.network._memory.established
    assert not runtime.clock._timers


def run(seed: int, **options: Any) -> int:
    def main(runtime: sim.SimRuntime) -> Coroutine[Any, Any, int]:
        return in_chaos(runtime, **options)

    return sim.run(main, seed=seed)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_acknowledged_is_lost_or_stored_twice(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert run(seed, closed_in_the_middle=False) > 100
    assert not caplog.records


@pytest.mark.parametrize("seed", range(4))
def test_a_cluster_that_is_closed_in_the_middle_leaves_nothing(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        run(seed, closed_in_the_middle=True)
    assert not caplog.records


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("closed", [False, True], ids=["to the end", "closed in the middle"])
def test_a_volume_that_fails_now_and_then_stops_nodes_and_loses_nothing(
    seed: int, closed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        run(seed, closed_in_the_middle=closed, failing_volumes=True)
    said = [record.getMessage() for record in caplog.records]
    # Which writes fail follows from the seed: those that stop a node are said by it, and nothing else fails.
    assert [message for message in said if not message.startswith("node ")] == []
