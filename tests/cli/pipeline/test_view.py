"""What is seen of a pipeline that runs: on screens of two sizes, in a pipe, as JSON."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ottla.cli.pipeline.view import JsonLines, Lines, Screen, opened, short
from ottla.spark.pipeline.model import Pipeline, TopicSink, TopicSource
from ottla.spark.pipeline.progress import BatchProgress


def pipeline(*sinks: str) -> Pipeline:
    return Pipeline(
        "revenue",
        kafka={"bootstrap.servers": "localhost:9092"},
        sources={"orders": TopicSource(topics=("orders",))},
        sinks={sink: TopicSink(topic=f"topic-of-{sink}", format="bytes") for sink in sinks},
        checkpoint="/checkpoints/revenue",
    )


def batch(sink: str = "totals", number: int = 12, **differing: Any) -> BatchProgress:
    given: dict[str, Any] = {
        "rows_in": 1_234_567,
        "rows_out": 1_234_000,
        "dead_letters": 567,
        "seconds": 2.5,
        "lag": 98_765_432,
        "state_rows": 4_000_000,
        "state_bytes": 900_000_000,
    }
    return BatchProgress(
        sink=sink, batch_id=number, timestamp="2026-01-31T12:00:00.000Z", **{**given, **differing}
    )


def drawn(screen: Screen, width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(screen)
    lines = captured.get().splitlines()
    assert all(len(line.rstrip()) <= width for line in lines), lines
    assert len(lines) < height, lines
    return lines


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_the_user_has_to_know_stays_on_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes in place goes back over its own lines, and over all that was written since."""
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    with opened(pipeline("totals"), as_json=False, log=Path("/tmp/spark.log")) as view:
        view.starting()
        view.warned("something is left to do")
        view.failed("it broke")
    seen = terminal.getvalue()
    up = "\x1b[1A"
    assert up in seen
    assert seen.rpartition(up)[2].endswith(
        "ottla: something is left to do\nottla: it broke\nottla: Spark's log is /tmp/spark.log\n"
    )


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (60, 12)])
@pytest.mark.parametrize("sinks", [1, 3, 30])
def test_a_screen_is_never_too_large(width: int, height: int, sinks: int) -> None:
    names = [f"a_sink_with_a_long_name_{number}" for number in range(sinks)]
    screen = Screen(pipeline(*names))
    screen.starting()
    drawn(screen, width, height)
    screen.show([], dict.fromkeys(names, "starting"), stopping=False)
    for number in range(20):
        screen.show([batch(name, number) for name in names], dict.fromkeys(names, "running"), stopping=False)
    drawn(screen, width, height)
    screen.show([], dict.fromkeys(names, "running"), stopping=True)
    drawn(screen, width, height)
    screen.ended(stopped=True)
    drawn(screen, width, height)


def test_a_screen_says_what_each_sink_has_done_and_does() -> None:
    screen = Screen(pipeline("totals"))
    screen.starting()
    assert "revenue  starting Spark" in drawn(screen, 80, 24)[0]
    screen.show([], {"totals": "starting"}, stopping=False)
    assert "starting the queries" in drawn(screen, 80, 24)[0]
    screen.show([batch(dead_letters=1)], {"totals": "running"}, stopping=False)
    lines = drawn(screen, 80, 24)
    assert "revenue  running" in lines[0]
    assert "exactly-once" in lines[0]
    assert lines[3].split() == [
        "totals",
        "12",
        "494k",
        "1.2M",
        "1.2M",
        "1",
        "2.5s",
        "98.8M",
        "4.0M,",
        "900MB",
    ]
    assert any("totals: 1 dead letter in batch 12" in line for line in lines)
    assert "topic-of-totals" in drawn(screen, 120, 40)[3]


def test_a_sink_that_waits_for_rows_has_read_what_there_is() -> None:
    screen = Screen(pipeline("totals"))
    screen.show([batch()], {"totals": "waiting"}, stopping=False)
    lines = drawn(screen, 80, 24)
    assert "waiting for rows" in lines[0]
    assert lines[3].split()[7] == "0"


def test_the_micro_batch_that_is_finished_is_named() -> None:
    screen = Screen(pipeline("totals"))
    screen.show([batch()], {"totals": "running"}, stopping=False)
    screen.show([], {"totals": "running"}, stopping=True)
    assert "stopping: finishing micro-batch 13 of totals" in drawn(screen, 80, 24)[0]
    screen.show([batch(number=13)], {"totals": "ending"}, stopping=True)
    assert "revenue  stopping  " in drawn(screen, 80, 24)[0]


def test_lines_are_for_micro_batches_with_rows_and_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(pipeline("totals"))
    lines.starting()
    lines.show([], {"totals": "starting"}, stopping=False)
    empty = batch(number=0, rows_in=0, rows_out=0, dead_letters=0)
    lines.show([empty, batch(number=1)], {"totals": "running"}, stopping=False)
    # Two within a second of the line before: they are one line, at the latest at the end.
    lines.show([batch(number=2), batch(number=3)], {"totals": "running"}, stopping=True)
    lines.ended(stopped=True)
    assert capsys.readouterr().out.splitlines() == [
        "revenue: starting Spark",
        "revenue: started: totals",
        "revenue: totals: batch 1: 1,234,567 rows in, 1,234,000 out, 567 dead letters, 493,827 rows/s, 2.50 s, "
        "lag 98,765,432, state 4,000,000 rows",
        "revenue: stopping: finishing micro-batch 4 of totals",
        "revenue: totals: batch 2-3: 2,469,134 rows in, 2,468,000 out, 1,134 dead letters, 493,827 rows/s, 2.50 s, "
        "lag 98,765,432, state 4,000,000 rows",
        "revenue: stopped: totals: 4 micro-batches, 3,703,701 rows in, 3,702,000 out, 1,701 dead letters",
    ]


def test_a_failure_is_one_paragraph_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    Lines(pipeline("totals")).failed("sink totals: no customer 13")
    assert capsys.readouterr() == ("", "ottla: sink totals: no customer 13\n")


def test_a_failure_in_json_says_where_more_is(capsys: pytest.CaptureFixture[str]) -> None:
    JsonLines(pipeline("totals"), Path("/tmp/spark.log")).failed("sink totals: no customer 13")
    event, said = capsys.readouterr()
    assert json.loads(event) == {
        "event": "failed",
        "pipeline": "revenue",
        "error": "sink totals: no customer 13",
        "log": "/tmp/spark.log",
    }
    assert said == "ottla: sink totals: no customer 13\n"


def test_json_has_an_object_for_each_event(capsys: pytest.CaptureFixture[str]) -> None:
    lines = JsonLines(pipeline("totals"))
    lines.starting()
    lines.show([batch()], {"totals": "running"}, stopping=False)
    lines.show([], {"totals": "running"}, stopping=True)
    lines.ended(stopped=True)
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["starting", "started", "batch", "stopping", "ended"]
    assert events[2]["rows_per_second"] == 493_826.8
    assert (events[2]["sink"], events[2]["batch_id"], events[2]["lag"]) == ("totals", 12, 98_765_432)
    assert events[4] == {
        "event": "ended",
        "pipeline": "revenue",
        "stopped": True,
        "sinks": {"totals": {"batches": 1, "rows_in": 1_234_567, "rows_out": 1_234_000, "dead_letters": 567}},
    }


def test_numbers_are_short() -> None:
    numbers = (0, 9_999, 12_345, 99_950, 999_499, 999_500, 1_234_567, 99_950_000, 2.5e9, 7e15)
    assert [short(each) for each in numbers] == [
        *("0", "9999", "12.3k", "100k", "999k", "1.0M", "1.2M", "100M", "2.5G", "7000T")
    ]
