"""What goes wrong in the demo, and when: it announces each fault, orders it, and follows it until it is mended.

The conductor starts no process and waits for none: it is told what the children say and how far the orders are, and
returns what they are to be told. A fault that hits nothing is no fault: it is `missed`, and the demo has failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from demo.children import Message
from demo.frame import NodeState, State

Stage: TypeAlias = Literal["to come", "announced", "struck", "mended", "missed"]

_LEAD_S: Final = 3.0
"""So long before it happens a fault is announced."""
DOWN_S: Final = 6.0
"""So long a node stays away: others have noticed by then, and lead its partitions."""


@dataclass(frozen=True)
class Command:
    """What a child is to be told."""

    child: Literal["job", "cluster"]
    text: str


class WorkerFault:
    """A Python worker of Spark is killed in the middle of a task."""

    def __init__(self, at: int, lead: float) -> None:
        self.at = at
        self.stage: Stage = "to come"
        self._lead = lead
        self._strikes = 0.0

    def advance(self, state: State, now: float) -> list[Command]:
        if self.stage == "to come" and state.counts.orders >= self.at - self._lead * state.rate:
            self.stage, self._strikes = "announced", now + self._lead
            state.note(
                now, f"in {self._lead:.0f} s: kill -9 of a Python worker of Spark, in a task", "announced"
            )
        if self.stage == "announced" and now >= self._strikes:
            self.stage = "struck"
            return [Command("job", "kill worker")]
        return []

    def hear(self, message: Message, state: State, now: float) -> None:
        match message["event"]:
            case "worker killed":
                state.note(now, f"killed Python worker {message['pid']}: {_task(message)} failed", "broken")
            case "task retried":
                self.stage = "mended"
                what = f"{_task(message)} ran again: attempt {message['attempt']} succeeded"
                state.note(now, what, "mended")
            case "no worker killed":
                self.stage = "missed"
                state.note(now, f"the kill has hit nothing: {message['why']}", "broken")


class NodeFault:
    """A broker is killed, and started again some seconds later."""

    def __init__(self, at: int, lead: float) -> None:
        self.at = at
        self.stage: Stage = "to come"
        self._lead = lead
        self._strikes = 0.0
        self._node = 0
        self._killed: float | None = None
        self._restarts = False
        self._led = 0
        self._given_away = False

    def advance(self, state: State, now: float) -> list[Command]:
        due = state.counts.orders >= self.at - self._lead * state.rate
        if self.stage == "to come" and due and _whole(state):
            victim = max(state.nodes, key=lambda node: node.leads)
            self._node, self._led = victim.id, victim.leads
            self.stage, self._strikes = "announced", now + self._lead
            led = f"leader of {victim.leads} of {state.partitions} partitions"
            state.note(now, f"in {self._lead:.0f} s: kill of broker {self._node}, {led}", "announced")
        if self.stage == "announced" and now >= self._strikes:
            self.stage = "struck"
            return [Command("cluster", f"kill {self._node}")]
        if self._killed is not None and not self._restarts and now >= self._killed + DOWN_S:
            self._restarts = True
            state.note(now, f"broker {self._node} is started again", "announced")
            return [Command("cluster", f"start {self._node}")]
        return []

    def hear(self, message: Message, state: State, now: float) -> None:
        """Of `nodes` what `state` has made of it."""
        match message["event"]:
            case "node killed":
                self._killed = now
                state.note(
                    now, f"killed broker {self._node}: connections cut, no word to the others", "broken"
                )
            case "nodes" if self.stage == "struck" and self._killed is not None:
                self._look(state, now)

    def _look(self, state: State, now: float) -> None:
        node = next(each for each in state.nodes if each.id == self._node)
        if not node.up and not node.leads and not self._given_away:
            self._given_away = True
            others = " and ".join(str(each.id) for each in state.nodes if each.id != self._node)
            state.note(now, f"brokers {others} lead its {self._led} partitions now", "mended")
        if self._restarts and node.up and node.in_sync == state.partitions:
            self.stage = "mended"
            what = f"in sync with all {state.partitions} partitions again"
            state.note(now, f"broker {self._node} is back and has caught up: {what}", "mended")


class Conductor:
    """The faults of a run: a worker at a third of the orders, a node at two thirds."""

    def __init__(self, orders: int, rate: int, *, faults: bool = True) -> None:
        self.faults: list[WorkerFault | NodeFault] = []
        if faults:
            third = max(1, orders // 3)
            lead = min(_LEAD_S, third / 2 / rate)
            self.faults = [WorkerFault(third, lead), NodeFault(2 * third, lead)]

    def hear(self, message: Message, state: State, now: float) -> None:
        for fault in self.faults:
            fault.hear(message, state, now)

    def advance(self, state: State, now: float) -> list[Command]:
        """The next fault begins when the one before is over: each is seen by itself."""
        for fault in self.faults:
            if fault.stage not in ("mended", "missed"):
                return fault.advance(state, now)
        return []

    @property
    def is_done(self) -> bool:
        return all(fault.stage in ("mended", "missed") for fault in self.faults)

    @property
    def missed(self) -> bool:
        return any(fault.stage == "missed" for fault in self.faults)


def _task(message: Message) -> str:
    return f"task {message['task']} of stage {message['stage']} ({message['query']})"


def _whole(state: State) -> bool:
    """Whether no replica lags: a node that goes while another is not back takes records with it."""
    nodes: tuple[NodeState, ...] = state.nodes
    return bool(nodes) and all(node.up and node.in_sync == state.partitions for node in nodes)
