"""An example that runs: `ottla pipeline run` in a process of its own, what it is fed, and what confluent-kafka reads.

The example is copied, since its checkpoint is beside its file. Its topics have the names that the file gives them, so
they are made anew for every test.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from confluent_kafka import KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.interop import confluent, nodes, supervise
from tests.interop.pipelines.comparison import differences
from tests.interop.pipelines.example import Example, Feed, Row
from tests.interop.waiting import eventually
from tests.spark.crashes.steps import Kill, KillOrders, hooked
from tests.spark.deployment.processes import ROOT, environment

Ending = Literal["killed", "terminated"]
"""Of the first run, in the midst of a micro-batch: at once with its JVM, or when that micro-batch is through."""
Enough = Callable[[Mapping[str, Sequence[Row]]], bool]
_WITHIN_S: Final = 300.0
_KILLED: Final = 128 + signal.SIGKILL
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
}
_STOPPING: Final = ": stopping"
SHORT_LIVED: Final = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For an environment: a JVM that runs for half a minute takes half of its time for compiling what is soon over."""
_ORIGIN: Final = "ottla.dead_letter."


class RunningPipeline:
    """One run of the command."""

    def __init__(self, process: supervise.Supervised, log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    @property
    def log(self) -> str:
        """Its end."""
        return self._log.read_text(errors="replace")[-8000:]

    def wait(self) -> int:
        """The exit code: 128 + the signal that has ended it, if one has."""
        return self._process.wait(_WITHIN_S)

    def terminate(self) -> None:
        """SIGTERM to the command, and to no process that it has started."""
        os.kill(self._process.pid, signal.SIGTERM)


class ExampleRuns:
    """One example on one broker and one Spark."""

    def __init__(self, example: Example, bootstrap: str, folder: Path, master: str) -> None:
        self.example = example
        self._bootstrap = bootstrap
        self._folder = folder
        self._master = master
        self._orders = KillOrders(folder)
        self._count = 0
        shutil.copytree(
            ROOT / "examples" / example.name,
            folder / example.name,
            ignore=shutil.ignore_patterns("checkpoint", "__pycache__"),
        )
        remake_topics(bootstrap, example)

    def feed(self, portion: int) -> None:
        for part in self.example.portions[portion]:
            feed(self._bootstrap, part)

    @contextmanager
    def running(self) -> Iterator[RunningPipeline]:
        log = self._folder / f"log-{self._count}"
        self._count += 1
        file = self._folder / self.example.name / "pipeline.toml"
        command = [sys.executable, "-m", "ottla", "pipeline", "run", str(file), "--master", self._master]
        for name, value in {**_SETTINGS, "spark.local.dir": str(self._folder)}.items():
            command += ["--conf", f"{name}={value}"]
        # What is killed leaves files behind.
        env = environment(KAFKA=self._bootstrap, TMPDIR=str(self._folder), **SHORT_LIVED)
        env |= hooked(self._folder, env.get("PYTHONPATH"))
        with log.open("wb") as out:
            process = supervise.Supervised(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)
        try:
            yield RunningPipeline(process, log)
        finally:
            process.close()

    def restarted(self, ending: Ending, step: Kill) -> None:
        """Everything goes in, and the first of two runs ends in the middle of it."""
        self.feed(0)
        with self.running() as first:
            self._wait_for_rows(first, lambda found: all(found.values()), "the first rows of every topic")
            if ending == "killed":
                self._orders.give(step.of("driver"))
                self.feed(1)
                eventually(lambda: first.is_over, "the driver to be killed", _WITHIN_S)
                assert self._orders.are_carried_out, first.log
                assert first.wait() == _KILLED
            else:
                self._orders.give(step.of("held"))
                self.feed(1)
                eventually(lambda: self._orders.are_carried_out or first.is_over, "the step", _WITHIN_S)
                first.terminate()
                eventually(lambda: _STOPPING in first.log or first.is_over, "the signal to arrive", _WITHIN_S)
                self._orders.let_go()
                assert first.wait() == 0, first.log
        self.feed(2)
        with self.running() as second:
            self.feed(3)
            expected = {topic: len(rows) for topic, rows in self.example.expected.items()}
            self._wait_for_rows(
                second,
                lambda found: all(len(rows) >= expected[topic] for topic, rows in found.items()),
                f"{expected} rows",
            )
            second.terminate()
            assert second.wait() == 0, second.log

    def _wait_for_rows(self, run: RunningPipeline, enough: Enough, what: str) -> None:
        def come() -> bool:
            assert not run.is_over, run.log
            return enough(read(self._bootstrap, self.example.expected))

        try:
            eventually(come, what, _WITHIN_S, every=0.5)
        except TimeoutError as error:
            told = differences(
                self.example.expected,
                read(self._bootstrap, self.example.expected),
                in_order=self.example.in_order,
            )
            raise AssertionError("\n".join([str(error), *told, run.log])) from error

    def check(self) -> None:
        """What has come out is what had to."""
        example = self.example
        found = read(self._bootstrap, example.expected)
        told = differences(example.expected, found, in_order=example.in_order)
        assert not told, "\n".join(told)
        if example.dead_letters is not None:
            _check_origins(self._bootstrap, example.dead_letters)


def read(bootstrap: str, topics: Iterable[str]) -> dict[str, list[Row]]:
    """What confluent-kafka reads of each with read_committed, partition by partition."""
    return {
        topic: [Row(message.key(), message.value()) for message in confluent.committed(bootstrap, topic)]
        for topic in topics
    }


def _check_origins(bootstrap: str, topic: str) -> None:
    """Every dead letter says where it is from, each of another record, and that record is there."""
    origins = {}
    for message in confluent.committed(bootstrap, topic):
        headers = _headers(message)
        place = tuple(headers[_ORIGIN + name] for name in ("topic", "partition", "offset"))
        assert headers[_ORIGIN + "error"]
        assert place not in origins
        origins[place] = Row(message.key(), message.value())
    sources = {source for source, _, _ in origins}
    there = {
        (source, str(message.partition()), str(message.offset())): Row(message.key(), message.value())
        for source in sources
        for message in confluent.committed(bootstrap, source)
    }
    assert origins.items() <= there.items()


def _headers(message: Message) -> dict[str, str]:
    headers = message.headers() or []
    assert isinstance(headers, list)
    return {name: value.decode() for name, value in headers if isinstance(value, bytes)}


def feed(bootstrap: str, records: Iterable[Feed]) -> None:
    """Returns when all are acknowledged; those of one key keep their order."""
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    producer = Producer(settings)
    errors: list[KafkaException] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            errors.append(KafkaException(error))

    for topic, row in records:
        producer.produce(topic, row.value, row.key, on_delivery=delivered)
    left = producer.flush(60)
    assert left == 0, f"{left} records are not acknowledged"
    if errors:
        raise errors[0]


def remake_topics(bootstrap: str, example: Example) -> None:
    """Empty ones, and no trace of the sinks of an earlier run."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def old() -> list[str]:
        control = f"ottla-sink-{example.name}-"
        return [
            name
            for name in admin.list_topics(timeout=60).topics
            if name in example.topics or name.startswith(control)
        ]

    if there := old():
        for deletion in admin.delete_topics(there, operation_timeout=60).values():
            deletion.result(timeout=60)
        eventually(lambda: not old(), f"{there} to be gone", 60)
    wanted = [
        NewTopic(name, num_partitions=count, replication_factor=1) for name, count in example.topics.items()
    ]
    for creation in admin.create_topics(wanted, operation_timeout=60).values():
        creation.result(timeout=60)
    for name, count in example.topics.items():
        nodes.wait_until_served(bootstrap, name, count)
