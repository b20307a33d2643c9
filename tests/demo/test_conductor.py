"""Faults are announced, ordered once, and followed until they are mended; one that hits nothing is no success."""

from __future__ import annotations

from demo.children import Message
from demo.conductor import DOWN_S, Command, Conductor
from demo.frame import State

WHOLE = [[1, True, 4, 12], [2, True, 5, 12], [3, True, 3, 12]]
KILLED: Message = {
    "event": "worker killed",
    "pid": 4711,
    "query": "enriched",
    "stage": 45,
    "task": 1,
    "error": "gone",
}
RETRIED: Message = {"event": "task retried", "query": "enriched", "stage": 45, "task": 1, "attempt": 2}


class Run:
    """A conductor and what it is told."""

    def __init__(self, *, faults: bool = True) -> None:
        self.state = State(of=900, rate=10, faults=faults)
        self.conductor = Conductor(900, 10, faults=faults)
        self.nodes(WHOLE)

    def orders(self, count: int, now: float) -> list[Command]:
        self.state.hear({"event": "orders", "sent": count, "acked": count}, now)
        return self.conductor.advance(self.state, now)

    def hear(self, message: Message, now: float = 0.0) -> None:
        self.state.hear(message, now)
        self.conductor.hear(message, self.state, now)

    def nodes(self, nodes: list[list[int]], now: float = 0.0) -> None:
        self.hear({"event": "nodes", "partitions": 12, "nodes": nodes}, now)

    @property
    def said(self) -> str:
        return self.state.events[-1].text if self.state.events else ""

    def mend_worker(self) -> None:
        self.orders(300, 30.0)
        self.orders(330, 33.0)
        self.hear(KILLED)
        self.hear(RETRIED)


def test_a_worker_is_killed_at_a_third_of_the_orders_after_an_announcement() -> None:
    run = Run()
    assert run.orders(260, 26.0) == []
    assert run.said == ""
    assert run.orders(270, 27.0) == []
    assert run.said == "in 3 s: kill -9 of a Python worker of Spark, in a task"
    assert run.orders(290, 29.0) == []
    assert run.orders(300, 30.0) == [Command("job", "kill worker")]
    assert run.orders(310, 31.0) == []


def test_what_the_kill_has_hit_and_its_repair_are_said() -> None:
    run = Run()
    run.orders(300, 30.0)
    run.hear(KILLED)
    assert run.said == "killed Python worker 4711: task 1 of stage 45 (enriched) failed"
    assert not run.conductor.is_done
    run.hear(RETRIED)
    assert run.said == "task 1 of stage 45 (enriched) ran again: attempt 2 succeeded"
    assert run.conductor.faults[0].stage == "mended"


def test_a_kill_that_hits_nothing_is_no_fault() -> None:
    run = Run()
    run.orders(300, 30.0)
    run.hear({"event": "no worker killed", "why": "there was none"})
    assert run.conductor.missed
    assert run.said == "the kill has hit nothing: there was none"


def test_the_node_that_leads_most_is_killed_at_two_thirds_and_started_again() -> None:
    run = Run()
    run.mend_worker()
    assert run.orders(570, 57.0) == []
    assert run.said == "in 3 s: kill of broker 2, leader of 5 of 12 partitions"
    assert run.orders(600, 60.0) == [Command("cluster", "kill 2")]
    run.hear({"event": "node killed", "node": 2}, 60.1)
    assert run.said == "killed broker 2: connections cut, no word to the others"
    run.nodes([[1, True, 6, 12], [2, False, 0, 0], [3, True, 6, 12]], 62.0)
    assert run.said == "brokers 1 and 3 lead its 5 partitions now"
    assert run.orders(650, 65.0) == []
    assert run.orders(670, 60.1 + DOWN_S) == [Command("cluster", "start 2")]
    assert run.orders(680, 68.0) == []
    run.nodes([[1, True, 6, 12], [2, True, 0, 7], [3, True, 6, 12]], 68.0)
    assert run.conductor.faults[1].stage == "struck"
    run.nodes([[1, True, 6, 12], [2, True, 0, 12], [3, True, 6, 12]], 69.0)
    assert run.said == "broker 2 is back and has caught up: in sync with all 12 partitions again"
    assert run.conductor.is_done
    assert not run.conductor.missed


def test_no_node_is_killed_while_another_is_not_in_sync() -> None:
    run = Run()
    run.mend_worker()
    run.nodes([[1, True, 4, 12], [2, True, 5, 12], [3, True, 3, 11]])
    assert run.orders(900, 90.0) == []
    assert not run.said.startswith("in 3 s: kill of broker")
    run.nodes(WHOLE)
    run.orders(900, 91.0)
    assert run.orders(900, 94.0) == [Command("cluster", "kill 2")]


def test_no_node_is_killed_while_the_worker_is_not_replaced() -> None:
    run = Run()
    run.orders(300, 30.0)
    run.orders(330, 33.0)
    run.hear(KILLED)
    assert run.orders(900, 90.0) == []


def test_without_faults_there_is_nothing_to_do() -> None:
    run = Run(faults=False)
    assert run.orders(900, 90.0) == []
    assert run.conductor.is_done
    assert not run.state.events


def test_few_orders_leave_little_time_for_announcements() -> None:
    state, conductor = State(of=30, rate=10, faults=True), Conductor(30, 10)
    state.hear({"event": "orders", "sent": 5, "acked": 5}, 0.5)
    conductor.advance(state, 0.5)
    assert state.events[-1].mood == "announced"
    assert conductor.advance(state, 1.0) == [Command("job", "kill worker")]
