"""What goes wrong in a soak: each kind in turn, in an order that a seed gives; each ends before the next begins."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from tests.interop import confluent
from tests.interop.brokers import Broker
from tests.interop.transactions.producer import STATE_TOPIC
from tests.interop.waiting import eventually
from tests.spark.crashes.sink_on_broker import move_coordinators
from tests.spark.soak.stages import TIMEOUT_MS, Stage

_PAUSE_S: Final = TIMEOUT_MS / 1000 + 2
_NODE_PAUSE_S: Final = 3.0
"""Longer than the others wait for a node that is silent."""
_IN_SYNC_S: Final = 120.0

Sleep = Callable[[float], None]


class Faults:
    """`strike` carries one out, and says what it was."""

    def __init__(self, broker: Broker, stages: Sequence[Stage], topics: Sequence[str], seed: int) -> None:
        self.struck: Counter[str] = Counter()
        self._broker = broker
        self._stages = stages
        self._topics = topics
        self._random = random.Random(seed)
        self._turns = self._in_turn()
        self._kinds: dict[str, Callable[[Sleep], str | None]] = {
            "worker": self._kill_worker,
            "executor": self._kill_executor,
            "driver": self._kill_driver,
            "node stop": self._stop_node,
            "node kill": self._kill_node,
            "node pause": self._pause_node,
            "coordinator move": self._move_coordinators,
            "process pause": self._pause_stage,
        }

    def strike(self, sleep: Sleep) -> str:
        """`sleep` is for what lasts. A kind that finds no victim now is passed over."""
        while True:
            kind = next(self._turns)
            victim = self._kinds[kind](sleep)
            if victim is not None:
                self.struck[kind] += 1
                return f"{kind}: {victim}"

    def _in_turn(self) -> Iterator[str]:
        while True:
            kinds = list(self._kinds)
            self._random.shuffle(kinds)
            yield from kinds

    # Processes of Spark

    def _kill_worker(self, sleep: Sleep) -> str | None:
        found = [(stage, pid) for stage in self._stages for pid in stage.workers()]
        return self._kill_one(found)

    def _kill_executor(self, sleep: Sleep) -> str | None:
        found = [(stage, pid) for stage in self._stages for pid in stage.executors()]
        return self._kill_one(found)

    def _kill_one(self, found: list[tuple[Stage, int]]) -> str | None:
        if not found:
            return None
        stage, pid = self._random.choice(found)
        stage.signal([pid], signal.SIGKILL)
        return f"process {pid} of {stage.name}"

    def _kill_driver(self, sleep: Sleep) -> str:
        stage = self._random.choice(self._stages)
        stage.kill()
        return stage.name

    def _pause_stage(self, sleep: Sleep) -> str | None:
        """All processes of a stage, for longer than its transactions may last."""
        stage = self._random.choice(self._stages)
        pids = [each.pid for each in stage.processes()]
        if not pids:
            return None
        stage.signal(pids, signal.SIGSTOP)
        try:
            sleep(_PAUSE_S)
        finally:
            stage.signal(pids, signal.SIGCONT)
        return f"{stage.name} for {_PAUSE_S:g} s"

    # Nodes

    def _stop_node(self, sleep: Sleep) -> str:
        return self._bounce(self._broker.stop_node)

    def _kill_node(self, sleep: Sleep) -> str:
        def kill(node: int) -> None:
            self._broker.kill_node(node)
            self._broker.wait_until_fenced(node)

        return self._bounce(kill)

    def _bounce(self, end: Callable[[int], None]) -> str:
        node = self._random.choice(self._broker.node_ids)
        self._wait_until_in_sync()
        try:
            end(node)
        finally:
            self._broker.start_node(node)
        self._wait_until_in_sync()
        return f"node {node}"

    def _pause_node(self, sleep: Sleep) -> str:
        node = self._random.choice(self._broker.node_ids)
        self._wait_until_in_sync()
        self._broker.pause_node(node)
        try:
            sleep(_NODE_PAUSE_S)
        finally:
            self._broker.resume_node(node)
        self._wait_until_in_sync()
        return f"node {node} for {_NODE_PAUSE_S:g} s"

    def _move_coordinators(self, sleep: Sleep) -> str | None:
        """Of the driver's id and of two tasks' of a stage."""
        stage = self._random.choice(self._stages)
        sink_id = stage.sink_id
        if sink_id is None:
            return None
        self._wait_until_in_sync()
        move_coordinators(self._broker, sink_id)
        return f"sink {sink_id} of {stage.name}"

    def _wait_until_in_sync(self) -> None:
        """A node that goes while another is not back takes records with it that only both had."""
        for topic in (*self._topics, STATE_TOPIC):
            eventually(partial(self._is_in_sync, topic), f"{topic} to be in sync", _IN_SYNC_S)

    def _is_in_sync(self, topic: str) -> bool:
        bootstrap, nodes = self._broker.bootstrap, sorted(self._broker.node_ids)
        partitions = range(confluent.partitions(bootstrap, topic))
        return all(confluent.in_sync(bootstrap, topic, each) == nodes for each in partitions)
