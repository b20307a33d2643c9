"""A soak: numbers are fed in, stages are kept running, faults strike; in the end everything is counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import ottla
from ottla.broker import Cluster
from tests.interop.apache import ApacheKafka
from tests.interop.brokers import ApacheBroker, Broker, EmbeddedBroker
from tests.interop.transactions.bounced import DURABLE, CommittedReader, committed_numbers
from tests.spark.soak.faults import Faults
from tests.spark.soak.stages import Copy, Stage
from tests.spark.soak.watch import PARTITIONS, Sample, SoakError, Watch, compare

Kind = Literal["ottla", "apache"]
_CONFIG: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "transaction.state.log.num.partitions": "5",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
_ALERT: Final = {
    # A node that is silent for a second is missed; Apache Kafka keeps its own times.
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "100",
    "replica.lag.time.max.ms": "1000",
}
_EVERY_S: Final = 1.0
"""How often the loop looks whether stages run."""
_FEED: Final = 20
_FEED_EVERY_S: Final = 0.2
_NEVER_MS: Final = 24 * 3_600_000
_STUCK_S: Final = 300.0
"""So long may no number arrive in the last topic while some are fed: every fault, and every start, ends sooner."""
_DRAIN_S: Final = 600.0


@dataclass(frozen=True)
class Summary:
    """What a soak has come to."""

    fed: int
    faults: dict[str, int]
    starts: int
    failures: int
    most: Sample


class Feeder:
    """Writes 0, 1, 2 and so on to a topic, in a thread, with an idempotent producer: each is there once."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.count = 0
        """How many are stored."""
        self._bootstrap, self._topic = bootstrap, topic
        self._is_over = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._running = self._pool.submit(self._run)

    def stop(self) -> int:
        self._is_over.set()
        self._running.result()
        self._pool.shutdown()
        return self.count

    def _run(self) -> None:
        # It never gives a number up, since what it had given up might be there all the same.
        with ottla.Client(self._bootstrap, delivery_timeout_ms=_NEVER_MS, linger_ms=0) as kafka:
            while not self._is_over.wait(_FEED_EVERY_S):
                for number in range(self.count, self.count + _FEED):
                    kafka.produce(self._topic, b"%d" % number)
                kafka.flush(_NEVER_MS / 1000)
                self.count += _FEED


@contextmanager
def cluster(kind: Kind) -> Iterator[Broker]:
    """Three nodes."""
    if kind == "ottla":
        with Cluster(brokers=3, config={**_CONFIG, **_ALERT}) as embedded:
            yield EmbeddedBroker(embedded)
    else:
        with ApacheKafka(nodes=3, properties=_CONFIG) as apache:
            yield ApacheBroker(apache)


def soak(
    seconds: float,
    folder: Path,
    *,
    kind: Kind = "ottla",
    seed: int = 0,
    fault_every: float = 20.0,
    look_every: float = 30.0,
    report: Callable[[str], None] = lambda line: None,
) -> Summary:
    """SoakError if a number is lost or doubled, nothing goes on, or something grows beyond its bound."""
    with ExitStack() as stack:
        broker = stack.enter_context(cluster(kind))
        topics = [broker.create_topic(PARTITIONS, DURABLE) for _ in range(3)]
        copies = [
            Copy("stage-1", "local[2,4]", topics[0], topics[1]),
            Copy("stage-2", "local-cluster[2,1,1024]", topics[1], topics[2]),
        ]
        stages = [Stage(copy, broker.bootstrap, folder) for copy in copies]
        for stage in stages:
            stack.callback(stage.kill)
        following = stack.enter_context(CommittedReader(broker.bootstrap, topics[2]))
        feeder = Feeder(broker.bootstrap, topics[0])
        stack.callback(feeder.stop)
        soaking = _Soak(stages, feeder, following, Watch(broker.bootstrap, stages), look_every, report)
        soaking.run_until(lambda: len(following.values) > 0, _DRAIN_S, "the first number to arrive")
        faults = Faults(broker, stages, topics, seed)
        soaking.strike(faults, seconds, fault_every)
        fed = feeder.stop()
        report(f"{fed:,} numbers are fed; what is under way is waited for")
        soaking.run_until(lambda: len(following.values) >= fed, _DRAIN_S, f"all {fed} numbers to arrive")
        soaking.look()
        for stage in stages:
            stage.kill()
        for topic in topics[1:]:
            compare(topic, fed, committed_numbers(broker.bootstrap, topic))
        starts, failures = sum(each.starts for each in stages), sum(each.failures for each in stages)
        return Summary(fed, dict(faults.struck), starts, failures, soaking.watch.most)


class _Soak:
    """The loop: it keeps stages running, looks and reports, and notices when nothing moves."""

    def __init__(
        self,
        stages: Sequence[Stage],
        feeder: Feeder,
        following: CommittedReader,
        watch: Watch,
        look_every: float,
        report: Callable[[str], None],
    ) -> None:
        self.watch = watch
        self._stages = stages
        self._feeder = feeder
        self._following = following
        self._look_every = look_every
        self._report = report
        self._began = self._looked = self._moved = time.monotonic()
        self._arrived = 0

    def run_until(self, is_done: Callable[[], bool], within: float, what: str) -> None:
        deadline = time.monotonic() + within
        while not is_done():
            if time.monotonic() > deadline:
                raise SoakError(f"waited {within:g} s for {what}: {len(self._following.values)} have arrived")
            self.turn()

    def strike(self, faults: Faults, seconds: float, every: float) -> None:
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            struck = faults.strike(self.sleep)
            self._report(f"{self._elapsed}  {struck}")
            self.sleep(min(now + every, end) - time.monotonic())

    def sleep(self, seconds: float) -> None:
        """With turns of the loop."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.turn()

    def turn(self) -> None:
        for stage in self._stages:
            stage.keep_running()
        now = time.monotonic()
        if now - self._looked >= self._look_every:
            self.look()
        if (arrived := len(self._following.values)) > self._arrived:
            self._arrived, self._moved = arrived, now
        elif now - self._moved > _STUCK_S and self._feeder.count > arrived:
            raise SoakError(
                f"no number has arrived for {_STUCK_S:g} s: {arrived} of {self._feeder.count} are there"
            )
        time.sleep(_EVERY_S)

    def look(self) -> None:
        self._looked = time.monotonic()
        starts = ", ".join(f"{each.name} {each.starts} starts" for each in self._stages)
        self._report(
            f"{self._elapsed}  {self._feeder.count:,} fed, {len(self._following.values):,} "
            f"arrived; {starts}; {self.watch.look()}"
        )

    @property
    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began:6.0f} s"
