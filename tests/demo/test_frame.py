"""What a frame says is of one moment, and its numbers agree with each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from demo.frame import Batches, Counts, State, consistent
from demo.orders import ENRICHED, REVENUE
from tests.demo.frames import frames

COUNT = st.integers(0, 100_000)


def batch(sink: str, *, read: int, written: int = 0, dead: int = 0) -> dict[str, object]:
    return {"event": "batch", "sink": sink, "read": read, "written": written, "dead": dead, "ms": 800}


@given(COUNT, COUNT, COUNT, COUNT)
def test_no_hop_is_ahead_of_the_one_before(acked: int, enriched: int, dead: int, summed: int) -> None:
    counts = consistent(acked, enriched, dead, summed)
    assert counts.summed <= counts.enriched
    assert counts.enriched + counts.dead <= counts.orders
    assert min(counts.lag_of_enriching, counts.lag_of_summing) >= 0


@given(frames())
def test_the_counters_of_a_frame_never_contradict_each_other(frame: object) -> None:
    from demo.frame import Frame

    assert isinstance(frame, Frame)
    counts = frame.counts
    assert counts.summed <= counts.enriched <= counts.orders - counts.dead
    assert frame.enriching.count or not counts.enriched + counts.dead
    assert frame.summing.count or not counts.summed
    assert all(rate >= 0 for each in frame.rates for rate in (each.now, *each.history))


def test_what_children_say_late_is_taken_from_what_others_have_said() -> None:
    """The revenue of rows is reported before the micro-batch that has written them."""
    state = State(of=100, rate=10, faults=True)
    state.hear({"event": "orders", "sent": 100, "acked": 40}, 1.0)
    state.hear(batch(REVENUE, read=50), 1.1)
    frame = state.frame(1.2)
    assert frame.counts == Counts(orders=50, enriched=50, dead=0, summed=50)
    assert frame.enriching.count == 1


def test_micro_batches_are_added_up() -> None:
    state = State(of=100, rate=10, faults=True)
    state.hear({"event": "orders", "sent": 100, "acked": 90}, 1.0)
    for _ in range(2):
        state.hear(batch(ENRICHED, read=30, written=29, dead=1), 2.0)
    frame = state.frame(2.0)
    assert frame.counts == Counts(orders=90, enriched=58, dead=2, summed=0)
    assert frame.enriching == Batches(2, 800)
    assert (frame.counts.lag_of_enriching, frame.counts.lag_of_summing) == (30, 58)


def test_a_rate_is_of_the_last_seconds() -> None:
    state = State(of=10_000, rate=1_000, faults=True)
    for second in range(9):
        state.hear({"event": "orders", "sent": 0, "acked": 1_000 * second}, float(second))
        state.frame(float(second))
    (orders, *_) = state.frame(8.0).rates
    assert orders.now == 1_000
    assert orders.history[-4:] == (1_000.0,) * 4
    for second in range(9, 14):
        orders = state.frame(float(second)).rates[0]
    assert orders.now == 0


def test_all_is_written_when_nothing_is_left_or_nothing_comes_any_more() -> None:
    state = State(of=10, rate=1, faults=True)
    state.hear({"event": "placed", "orders": 10, "malformed": 0}, 1.0)
    state.enter("finish", 1.0)
    assert not state.all_is_written(2.0)
    state.hear(batch(ENRICHED, read=10, written=10), 3.0)
    assert not state.all_is_written(60.0)
    assert state.all_is_written(120.0)
    state.hear(batch(REVENUE, read=10), 3.5)
    assert state.all_is_written(3.5)


def test_what_has_been_reached_is_an_event() -> None:
    state = State(of=10, rate=1, faults=True)
    state.hear({"event": "waiting", "what": "Java to start"}, 1.0)
    state.hear({"event": "reached", "what": "Java runs"}, 2.0)
    frame = state.frame(2.0)
    assert frame.waiting_for == "Java to start"
    assert [(each.at, each.text) for each in frame.events] == [(2.0, "Java runs")]
