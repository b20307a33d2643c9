"""A member of a group, in a process of its own: of either client, polled by a thread in the same way.

What the harness wants is a command (`Member.handle`): to join, to leave, to say what is being read and what was.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer

import ottla
from bench.groups.deliveries import Deliveries

HEARTBEAT_MS = 500
_SESSION_MS = 10_000
_POLL_S = 0.1
_DEADLINE = 60.0


@dataclass(frozen=True)
class Mode:
    """How a group rebalances."""

    protocol: str
    assignor: str
    keeps: bool
    """Whether members keep what they have while others leave."""


MODES = {
    "eager": Mode("classic", "range", keeps=False),
    "cooperative": Mode("classic", "cooperative-sticky", keeps=True),
    "848": Mode("consumer", "", keeps=True),
}


@dataclass(frozen=True)
class Joining:
    """What a member joins."""

    topic: str
    group: str
    mode: str


class Member(ABC):
    """One consumer at a time."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._deliveries = Deliveries()
        self._stops = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def handle(self, do: str, **options: Any) -> object:
        """Does what the harness wants, and returns what it wants to know."""
        if self._error is not None:
            raise RuntimeError("the member has failed") from self._error
        if do == "join":
            self.close()
            self._deliveries, self._stops = Deliveries(), threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(Joining(**options), self._deliveries, self._stops)
            )
            self._thread.start()
        elif do == "leave":
            self._stops.set()
        elif do == "end":
            self.close()
        elif do == "first":
            return self._deliveries.first
        elif do == "runs":
            return list(self._deliveries.runs.copy().items())
        elif do == "since":
            return self._deliveries.since(options["time"])
        else:
            raise ValueError(f"a member cannot {do!r}")
        return None

    def close(self) -> None:
        """Leaves the group, and waits until it has left."""
        self._stops.set()
        if self._thread is not None:
            self._thread.join(_DEADLINE)
            if self._thread.is_alive():
                raise TimeoutError(f"the member did not leave within {_DEADLINE:g} s")
            self._thread = None

    def _run(self, joining: Joining, deliveries: Deliveries, stops: threading.Event) -> None:
        try:
            self._consume(joining, deliveries, stops)
        except BaseException as error:
            self._error = error
            raise

    @abstractmethod
    def _consume(self, joining: Joining, deliveries: Deliveries, stops: threading.Event) -> None:
        """Joins, reads until it is to stop, leaves."""


class Confluent(Member):
    def _consume(self, joining: Joining, deliveries: Deliveries, stops: threading.Event) -> None:
        mode = MODES[joining.mode]
        config: dict[str, Any] = {
            "bootstrap.servers": self._bootstrap,
            "log_level": 0,
            "group.id": joining.group,
            "auto.offset.reset": "latest",
            "fetch.queue.backoff.ms": 1,
        }
        if mode.protocol == "consumer":
            config["group.protocol"] = "consumer"
        else:
            config |= {
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "session.timeout.ms": _SESSION_MS,
                "partition.assignment.strategy": mode.assignor,
            }
        consumer = Consumer(config)
        try:
            consumer.subscribe([joining.topic])
            while not stops.is_set():
                message = consumer.poll(_POLL_S)
                if message is not None and message.error() is None:
                    partition = message.partition()
                    assert partition is not None
                    deliveries.add(partition, time.monotonic())
        finally:
            consumer.close()


class Ottla(Member):
    def _consume(self, joining: Joining, deliveries: Deliveries, stops: threading.Event) -> None:
        mode = MODES[joining.mode]
        options: dict[str, Any] = {}
        if mode.protocol == "consumer":
            options["group_protocol"] = "consumer"
        else:
            options |= {
                "heartbeat_interval_ms": HEARTBEAT_MS,
                "session_timeout_ms": _SESSION_MS,
                "partition_assignment_strategy": mode.assignor,
            }
        with (
            ottla.Client(self._bootstrap, **options) as client,
            client.consume(joining.topic, group=joining.group, start="latest") as consumer,
        ):
            while not stops.is_set():
                for record in consumer.poll(timeout=_POLL_S):
                    deliveries.add(record.partition, time.monotonic())
