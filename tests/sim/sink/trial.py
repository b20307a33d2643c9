"""One trial of the exactly-once sink: a cluster, Spark as a model, a reader and the nemesis.

    report = try_sink(17)
    assert not report.violations, report

What writes goes round with the seed: a query with a data source, one with foreachBatch, and batch writes. When the
nemesis is done, everything heals, nothing happens to processes any more, and the query comes to its end within a
bounded time. Some queries are followed by another one that goes on with the sink.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.coordinator.internal_topics import TRANSACTIONS_TOPIC
from ottla.client.client import AsyncClient
from ottla.client.topic_partition import TopicPartition
from ottla.errors import KafkaError, UnknownTopicOrPartitionError
from ottla.runtime import Random
from ottla.sim.checks import RuleViolation
from ottla.sim.nemesis import Nemesis, draw_plan
from ottla.sim.runtime import SimRuntime, generator
from ottla.sim.transaction_checks import TransactionHistory
from ottla.sim.transaction_clients import TransactionReader
from ottla.sim.transaction_faults import TRANSACTION_KINDS
from ottla.sim.transaction_trial import begin_with_version, raise_version
from ottla.sim.trial import ACTIVE, TrialReport, simulate, until, until_in_sync
from ottla.spark.sink.exactly_once.control_records import BARRIER_KEY, BatchDecision, SlotMarker
from ottla.spark.sink.exactly_once.control_topic import slots_of
from ottla.spark.sink.exactly_once.driver import start_batch
from ottla.spark.sink.exactly_once.names import SinkNames
from tests.sim.sink.batch_writes import NO_NAME, BatchWriters
from tests.sim.sink.checks import BatchName, SinkHistory, check_sink
from tests.sim.sink.jobs import FAILED, LATE, LOST, OUTPUT, SKIPPED, Executors, Job, split
from tests.sim.sink.processes import KILLED, STANDS_STILL, SinkWorld, SparkProcess
from tests.sim.sink.queries import (
    BESIDE,
    CRASHED,
    FORGOTTEN,
    INCOMPLETE,
    RECOVERED,
    REFUSED,
    RESHAPED,
    Form,
    StreamingQuery,
    operate,
    started,
)
from tests.sim.sink.settings import NODES, TOPICS, SinkSettings

NAMES: Final = SinkNames("sink")
RAISED, SUCCEEDED = "version is raised", "another query goes on"
SINK_FAULTS: Final = (
    KILLED,
    STANDS_STILL,
    CRASHED,
    BESIDE,
    LOST,
    FAILED,
    LATE,
    INCOMPLETE,
    SKIPPED,
    RESHAPED,
    REFUSED,
    RECOVERED,
    FORGOTTEN,
    SUCCEEDED,
    NO_NAME,
    RAISED,
)
"""What becomes of processes, beside what the nemesis does."""
_HEALS_WITHIN: Final = 120.0
_AGAIN: Final = 1.0


def try_sink(seed: int, *, traced: bool = False) -> TrialReport:
    """Runs the trial of a seed to its end."""
    random = generator(seed, "trial of the sink")
    settings = SinkSettings.draw(seed, random)
    report = TrialReport(seed, settings)

    async def body(runtime: SimRuntime) -> None:
        await _SinkTrial(runtime, report, settings, random).run()

    return simulate(report, body, traced=traced)


class _SinkTrial:
    def __init__(
        self, runtime: SimRuntime, report: TrialReport, settings: SinkSettings, random: Random
    ) -> None:
        self._runtime = runtime
        self._report = report
        self._settings = settings
        self._random = random
        self._history = SinkHistory(TransactionHistory(tuple(TOPICS)))
        self._sinks = [NAMES]
        self._is_read = False

    async def run(self) -> None:
        async with self._settings.cluster(self._runtime) as cluster:
            await begin_with_version(cluster, self._runtime, self._settings.version)
            world = SinkWorld(
                self._runtime,
                cluster.bootstrap,
                [f"node-{number + 1}" for number in range(NODES)],
                self._settings.plan(),
                self._history.transactions,
                sink=self._settings.sink_plan(),
                told=self._history,
            )
            try:
                await self._go_through(cluster, world)
            except (TimeoutError, KafkaError) as error:
                self._violated("not well again", f"{type(error).__name__}: {error}; {_condition(cluster)}")
            finally:
                world.is_settled = True
            world.settle()
            self._report.violations += world.violations
            self._report.violations += [
                RuleViolation("node failed", f"node {node_id}: {why}")
                for node_id, why in cluster.failures.items()
            ]
            if not self._report.violations:
                self._report.violations += check_sink(self._history)
            self._report.struck.update(world.struck)
            self._report.acknowledged = self._history.acknowledged
            self._report.read = sum(len(reader.records) for reader in self._history.transactions.readers)
            self._report.digest = self._digest()
        self._report.seconds = asyncio.get_running_loop().time()

    async def _go_through(self, cluster: AsyncCluster, world: SinkWorld) -> None:
        executors = Executors(world)
        tail = TransactionReader("reader-1", world, is_committed=True)
        reading = world.spawn(tail.run(lambda: self._is_read), "reader-1")
        writing = world.spawn(self._write(world, executors), "what writes")
        try:
            await self._suffer(cluster, world)
            await self._heal(cluster, world, executors, writing)
            await self._look(cluster, world, tail)
            self._is_read = True
            await reading
        finally:
            self._is_read = True
            await world.end()
            await tail.close()

    # What writes

    async def _write(self, world: SinkWorld, executors: Executors) -> None:
        form = self._settings.form
        if form == "batch writes":
            writers = BatchWriters(world, executors)
            self._sinks = writers.names
            # Each name has its driver's id as soon as it was looked for.
            self._history.widest.update(dict.fromkeys(writers.names, 0))
            await writers.run()
            return
        query_form: Form = "data source" if form == "data source" else "foreachBatch"
        query = StreamingQuery("first", NAMES, query_form, world, executors)
        self._query = query
        if self._settings.is_succeeded:
            query.ends_with(self._random.randint(2, 6))
            await query.run()
            await self._hand_over(world)
            world.struck[SUCCEEDED] += 1
            query = StreamingQuery("second", NAMES, query_form, world, executors)
        self._query = query
        if world.is_settled:
            query.settle()
        await query.run()

    async def _hand_over(self, world: SinkWorld) -> None:
        """The sink has to be forgotten before another query may use it."""
        is_forgotten = False
        while not is_forgotten:
            is_forgotten = await operate(world, NAMES, "forget")
            await asyncio.sleep(_AGAIN)

    def _settle(self, world: SinkWorld) -> None:
        world.is_settled = True
        if self._settings.form != "batch writes" and self._query.last_batch is None:
            self._query.settle()

    # What goes wrong

    async def _suffer(self, cluster: AsyncCluster, world: SinkWorld) -> None:
        control = (NAMES if self._settings.form != "batch writes" else SinkNames("pool-0")).control_topic
        topic = self._random.choice((TRANSACTIONS_TOPIC, TRANSACTIONS_TOPIC, OUTPUT, control, control))
        nemesis = Nemesis(self._runtime, cluster, topic, world.machines, TRANSACTION_KINDS)
        self._report.events, self._report.struck = nemesis.events, nemesis.struck
        longest = self._settings.longest
        active = max(ACTIVE, longest * 1.3 + 20.0)
        raising = asyncio.get_running_loop().create_task(
            self._raise_version(cluster, world, active / 2), name="the version is raised"
        )
        try:
            await nemesis.carry_out(draw_plan(self._random, active, longest, TRANSACTION_KINDS), active)
            await raising
        finally:
            raising.cancel()
            await asyncio.gather(raising, return_exceptions=True)

    async def _raise_version(self, cluster: AsyncCluster, world: SinkWorld, after: float) -> None:
        """As when all brokers have been upgraded, while transactions of the older version are open."""
        if not self._settings.rises:
            return
        await asyncio.sleep(after)
        self._report.events.append(await raise_version(cluster, self._runtime, self._settings.common()))
        world.struck[RAISED] += 1

    # How it ends

    async def _heal(
        self, cluster: AsyncCluster, world: SinkWorld, executors: Executors, writing: asyncio.Task[None]
    ) -> None:
        """The query comes to its end, and so do all processes that others have given up."""
        self._settle(world)
        for topic in (*TOPICS, TRANSACTIONS_TOPIC):
            await until_in_sync(cluster, topic, _HEALS_WITHIN)
        await until(writing.done, "that everything is written", _HEALS_WITHIN)
        await writing
        others = [each for each in world.running if each.get_name() != "reader-1"]
        await until(lambda: all(each.done() for each in others), "that all processes end", _HEALS_WITHIN)
        world.look_at_ended()
        await asyncio.gather(*world.late)
        await self._leave_something_open(world, executors)
        for names in self._sinks:
            if not await operate(world, names, "finish") and self._history.widest.get(names):
                self._violated("not recovered", names.sink_id)

    async def _leave_something_open(self, world: SinkWorld, executors: Executors) -> None:
        """A last driver is gone when its tasks have prepared what they were given: nothing of it is ever seen."""
        names = self._sinks[0]
        process = SparkProcess("last-driver", world)
        called_at = asyncio.get_running_loop().time()
        start = await process.run(
            start_batch(process.client, names, timeout_ms=self._settings.transaction_timeout)
        )
        started(world, start, called_at)
        query_id = "last" if start.last is None else start.last.query_id
        batch_id = 0 if start.last is None else start.last.batch_id + 1
        name = BatchName("last", 0)
        tasks = self._settings.most_tasks
        rows = tuple(f"last/0/{number}" for number in range(tasks))
        self._history.rows[name], self._history.at_most_once[name] = rows, None
        await executors.run(Job(start, query_id, batch_id, name, split(rows, tasks)))
        await process.kill()
        await asyncio.gather(*world.late)

    async def _look(self, cluster: AsyncCluster, world: SinkWorld, tail: TransactionReader) -> None:
        """At what there is in the end."""
        async with AsyncClient(
            cluster.bootstrap, runtime=self._runtime.at("admin"), **self._settings.common()
        ) as client:
            listed = await client.admin.list_transactions()
            self._history.known_ids = sorted(listed)
            self._history.open_ids = sorted(name for name, each in listed.items() if each.state == "Ongoing")
            await self._read_control_topics(client)
        partitions = [
            TopicPartition(topic, index) for topic, count in TOPICS.items() for index in range(count)
        ]

        def is_stable() -> bool:
            led = [cluster.partition(*each) for each in partitions]
            return all(each.last_stable_offset == each.log.log_end_offset for each in led)

        await until(is_stable, "that every transaction ends", _HEALS_WITHIN)
        ends = {each: cluster.partition(*each).high_watermark for each in partitions}
        await until(lambda: tail.has_reached(ends), "that the reader reaches the ends", _HEALS_WITHIN)
        tail.log.is_complete = True
        again = TransactionReader("reader-2", world, is_committed=True)
        # A consumer knows its positions from its first poll on.
        first_poll = iter((False,))
        try:
            async with asyncio.timeout(_HEALS_WITHIN):
                await again.run(lambda: next(first_poll, True) and again.has_reached(ends))
            again.log.is_complete = True
        finally:
            await again.close()

    async def _read_control_topics(self, client: AsyncClient) -> None:
        for names in self._sinks:
            try:
                slots = await slots_of(client, names)
            except UnknownTopicOrPartitionError:
                continue
            found = await _values(client, names.decisions)
            self._history.decisions[names] = [BatchDecision.decode(value, names) for value in found]
            for slot in range(min(slots, self._history.widest.get(names, 0))):
                partition = names.markers(slot)
                self._history.markers[partition] = [
                    SlotMarker.decode(value, names) for value in await _values(client, partition)
                ]

    def _violated(self, rule: str, what: str) -> None:
        self._report.violations.append(RuleViolation(rule, what))

    def _digest(self) -> str:
        told = hashlib.sha256(self._runtime.network.trace.digest().encode())
        for commit in self._history.commits:
            told.update(f"{commit}\n".encode())
        for reader in self._history.transactions.readers:
            told.update(f"{reader}\n".encode())
        for event in self._report.events:
            told.update(f"{event}\n".encode())
        return told.hexdigest()


async def _values(client: AsyncClient, partition: TopicPartition) -> list[bytes | None]:
    """All committed records of a partition that have a meaning."""
    config = client.config.replace(isolation_level="read_committed")
    ends = await client.admin.list_offsets([partition], isolation="read_committed")
    end = ends[partition].offset or 0
    if not end:
        return []
    async with client._consume((partition,), config, start="earliest", stop={partition: end}) as consumer:
        return [record.value async for record in consumer if record.key != BARRIER_KEY]


def _condition(cluster: AsyncCluster) -> str:
    """What a person wants to see first of a cluster that is not well."""
    lines = [f"not in sync: {cluster.under_replicated()}, without a leader: {cluster.offline()}"]
    for node_id, node in sorted(cluster.nodes.items()):
        for (topic, index), replica in sorted(node.replicas.partitions.items()):
            if replica.is_leader and replica.last_stable_offset != replica.log.log_end_offset:
                lines.append(
                    f"{topic}-{index} on node {node_id}: stable {replica.last_stable_offset}, high watermark "
                    f"{replica.high_watermark}, end {replica.log.log_end_offset}"
                )
    return "\n    ".join(lines)
