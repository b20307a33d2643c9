"""What is shown where there is no terminal."""

from __future__ import annotations

import pytest

from demo.frame import State, Verdict
from demo.orders import ENRICHED
from demo.view import Lines, conclude, opened, summary


def state() -> State:
    made = State(of=100, rate=10, faults=True)
    made.enter("flow", 1.0)
    made.hear({"event": "orders", "sent": 95, "acked": 90}, 2.0)
    made.hear({"event": "batch", "sink": ENRICHED, "read": 81, "written": 80, "dead": 1, "ms": 412}, 2.0)
    return made


def test_a_line_has_what_went_in_and_what_came_out() -> None:
    assert summary(state().frame(3.0)) == (
        "90 of 100 orders are in, about 1 s to go; enriched 80, dead letters 1, summed 0; "
        "1 and 0 micro-batches, the last in 412 and 0 ms; 0 brokers up"
    )


def test_while_spark_starts_a_line_has_what_is_waited_for() -> None:
    made = State(of=100, rate=10, faults=True)
    made.enter("spark", 1.0)
    made.hear({"event": "waiting", "what": "Java to start"}, 2.0)
    assert summary(made.frame(4.0)) == "Starting Spark, 3 s: waiting for Java to start"


def test_there_is_a_line_every_two_seconds_and_each_event_has_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines, made = Lines(), state()
    made.note(2.5, "a worker is killed")
    for now in (3.0, 3.5, 4.0, 5.0):
        lines.show(made.frame(now))
    said = capsys.readouterr().out.splitlines()
    assert [line[:11] for line in said] == ["demo: 0:02 ", "demo: 0:03 ", "demo: 0:05 "]
    assert said[0] == "demo: 0:02 a worker is killed"


def test_without_a_terminal_there_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    made = state()
    with opened() as view:
        view.show(made.frame(3.0))
    made.verdict = Verdict(100, 99, 1, 0, 0, 4, 12_345)
    made.enter("passed", 9.0)
    conclude(made.frame(9.0))
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"demo: 0:03 {summary(state().frame(3.0))}"
    assert said[1:] == [
        "demo: in 100 = out 99 + dead letters 1, lost 0, duplicates 0, 4 windows of revenue of €123.45: "
        "counted by confluent-kafka",
        "demo: passed, after 9 s",
    ]
