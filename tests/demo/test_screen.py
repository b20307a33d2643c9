"""The screen fits into every console from 80x24 on, and says what there is to say."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from demo.frame import Frame, State, Verdict
from demo.orders import ENRICHED, MALFORMED_EVERY, REVENUE
from demo.screen import lines
from tests.demo.frames import frames

SIZES = [(80, 24), (120, 40), (200, 60)]


def flowing() -> State:
    state = State(of=60_000, rate=1_500, faults=True)
    state.enter("flow", 20.0)
    state.hear(
        {"event": "nodes", "partitions": 12, "nodes": [[1, True, 7, 12], [2, False, 0, 0], [3, True, 5, 12]]},
        20,
    )
    state.hear({"event": "orders", "sent": 31_000, "acked": 30_000}, 40.0)
    batch = {"event": "batch", "sink": ENRICHED, "read": 28_000, "written": 27_944, "dead": 56, "ms": 912}
    state.hear(batch, 40.0)
    state.hear(
        {"event": "batch", "sink": REVENUE, "read": 26_000, "written": 16, "dead": 0, "ms": 1_210}, 40.0
    )
    state.hear({"event": "tasks", "done": 120, "failed": 1, "active": 2}, 40.0)
    state.note(40.0, "killed Python worker 4711 in task 1 of stage 45: the task failed", "broken")
    return state


def text(frame: Frame, width: int = 80, height: int = 24) -> list[str]:
    return [line.plain for line in lines(frame, width, height)]


@pytest.mark.parametrize(("width", "height"), SIZES)
@given(frame=frames())
def test_no_line_is_wider_and_no_frame_higher_than_the_console(frame: Frame, width: int, height: int) -> None:
    shown = lines(frame, width, height)
    assert len(shown) <= height
    assert max(line.cell_len for line in shown) <= width
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, color_system=None)
    for line in shown:
        console.print(line, no_wrap=True, crop=True, highlight=False)
    assert len(out.getvalue().splitlines()) == len(shown)


@given(frame=frames(), width=st.integers(1, 79), height=st.integers(1, 23))
def test_a_window_that_is_made_smaller_gets_what_fits(frame: Frame, width: int, height: int) -> None:
    shown = lines(frame, width, height)
    assert len(shown) <= height
    assert all(line.cell_len <= width for line in shown)


def test_a_row_has_what_a_hop_has_done() -> None:
    shown = text(flowing().frame(40.5))
    enriched = next(line for line in shown if line.startswith(" enriched"))
    assert "27,944" in enriched
    assert "2,000" in enriched  # the lag behind the orders
    assert enriched.endswith("1   0.9 s")
    assert next(line for line in shown if line.startswith(" revenue")).endswith("1   1.2 s")
    assert next(line for line in shown if line.startswith(" orders-dead")).split()[1] == "56"


@pytest.mark.parametrize("acked", [100, 60_000, 900_000])
@pytest.mark.parametrize("width", [80, 120])
def test_the_heads_of_columns_are_above_them_whatever_a_bar_stands_for(acked: int, width: int) -> None:
    state = State(of=10_000_000, rate=1_500, faults=True)
    state.enter("flow", 0.0)
    state.frame(1.0)
    state.hear({"event": "orders", "sent": acked, "acked": acked}, 2.0)
    shown = text(state.frame(3.0), width)
    (head,) = (line for line in shown if line.startswith(" topic"))
    (enriched,) = (line for line in shown if line.startswith(" enriched"))
    assert head.endswith("took")
    assert len(head) == len(enriched) <= width
    assert "s, █ = " in head


def test_bars_of_brokers_have_a_cell_for_each_partition() -> None:
    shown = text(flowing().frame(40.5))
    assert [line[-12:] for line in shown if line.startswith(" broker ")] == [
        "███████▒▒▒▒▒",
        "············",
        "█████▒▒▒▒▒▒▒",
    ]
    assert " broker 2  DOWN" in "\n".join(shown)
    assert any("█ leads  ▒ follows in sync  · not in sync" in line for line in shown)


def test_the_newest_events_are_shown() -> None:
    state = flowing()
    for number in range(50):
        state.note(41.0, f"event {number}")
    assert text(state.frame(42.0))[-1] == "  0:41  event 49"


def test_before_anything_flows_the_screen_says_what_is_waited_for_and_what_will_happen() -> None:
    state = State(of=60_000, rate=1_500, faults=True)
    state.enter("spark", 0.0)
    state.hear({"event": "waiting", "what": "Java to start"}, 3.0)
    shown = "\n".join(text(state.frame(7.0)))
    assert "Starting Spark, 7 s: waiting for Java to start" in shown
    assert f"60,000 orders go into Kafka, 1,500 a second; 1 in {MALFORMED_EVERY} is malformed" in shown
    assert text(state.frame(7.0)) != text(state.frame(7.2))  # it moves


def test_where_there_is_room_the_sql_of_the_pipelines_is_shown() -> None:
    state = State(of=60_000, rate=1_500, faults=True)
    shown = text(state.frame(1.0), 120, 40)
    assert any("LEFT JOIN customers" in line for line in shown)
    assert any("GROUP BY country, window(at, '10 seconds')" in line for line in shown)


def test_where_something_will_be_killed_is_marked_below_the_bar() -> None:
    shown = text(flowing().frame(40.5))
    bar, marks = shown[2], shown[3]
    assert bar.count("█") == 39  # half of it
    assert marks.index("▲") == 1 + 78 // 3
    assert "a Spark worker is killed" in marks
    assert "a broker is killed" in marks
    assert "▲" not in "\n".join(text(State(of=10, rate=1, faults=False).frame(1.0)))


def test_the_proof_is_in_the_same_frame() -> None:
    state = flowing()
    state.verdict = Verdict(60_000, 59_880, 120, 0, 0, 40, 604_701_582)
    state.enter("passed", 70.0)
    shown = "\n".join(text(state.frame(70.0)))
    assert " PASSED " in shown
    assert "in 60,000 = out 59,880 + dead letters 120   lost 0   duplicates 0" in shown
    assert "40 windows of revenue, €6,047,015.82: each agrees to the cent" in shown


def test_what_is_wrong_is_in_the_frame() -> None:
    state = flowing()
    state.verdict = Verdict(10, 9, 0, 1, 0, 1, 100, problems=("lost: 7", "and more"))
    state.enter("failed", 70.0)
    shown = "\n".join(text(state.frame(70.0)))
    assert " FAILED " in shown
    assert "in 10 ≠ out 9 + dead letters 0   lost 1" in shown
    assert "lost: 7 (and 1 more)" in shown


def test_the_revenue_of_countries_is_shown_where_there_is_room() -> None:
    state = flowing()
    state.revenue = {"Austria": 20_000, "Kenya": 10_000}
    assert "Kenya" not in "\n".join(text(state.frame(40.0)))
    large = text(state.frame(40.0), 120, 40)
    austria, kenya = (
        next(line for line in large if line.startswith(f" {name}")) for name in ("Austria", "Kenya")
    )
    assert austria.count("█") in (2 * kenya.count("█"), 2 * kenya.count("█") + 1)
    assert any("longest bar = €200.00" in line for line in large)
