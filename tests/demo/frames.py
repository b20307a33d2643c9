"""Frames as the demo may come to show them, for tests: made of random things that its children say."""

from __future__ import annotations

from hypothesis import strategies as st

from demo.children import Message
from demo.frame import Frame, Phase, State, Verdict
from demo.orders import COUNTRIES, ENRICHED, REVENUE

PHASES: tuple[Phase, ...] = ("cluster", "spark", "flow", "finish", "check", "passed", "failed")
_COUNT = st.integers(0, 10_000_000)


def _batch(sink: str) -> st.SearchStrategy[Message]:
    return st.fixed_dictionaries(
        {
            "event": st.just("batch"),
            "sink": st.just(sink),
            "read": _COUNT,
            "written": _COUNT,
            "dead": st.integers(0, 100_000),
            "ms": st.integers(0, 600_000),
        }
    )


_NODES = st.integers(1, 40).flatmap(
    lambda partitions: st.fixed_dictionaries(
        {
            "event": st.just("nodes"),
            "partitions": st.just(partitions),
            "nodes": st.tuples(
                *(
                    st.tuples(st.just(number), st.booleans(), st.integers(0, partitions), st.just(partitions))
                    for number in (1, 2, 3)
                )
            ),
        }
    )
)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.fixed_dictionaries({"event": st.just("orders"), "sent": _COUNT, "acked": _COUNT}),
    _batch(ENRICHED),
    _batch(REVENUE),
    _NODES,
    st.fixed_dictionaries(
        {"event": st.just("tasks"), "done": _COUNT, "failed": _COUNT, "active": st.integers(0, 99)}
    ),
    st.fixed_dictionaries({"event": st.just("waiting"), "what": st.text(max_size=200)}),
    st.fixed_dictionaries({"event": st.just("reached"), "what": st.text(max_size=200)}),
)


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    """After some messages, each a while after the one before."""
    state = State(
        of=draw(st.integers(1, 10_000_000)), rate=draw(st.integers(1, 100_000)), faults=draw(st.booleans())
    )
    now = 0.0
    frame = state.frame(now)
    for message in draw(st.lists(MESSAGES, max_size=20)):
        now += draw(st.floats(0, 20))
        state.hear(message, now)
        state.enter(draw(st.sampled_from(PHASES[:5])), now)
        frame = state.frame(now)
    if draw(st.booleans()):
        state.revenue = {country: draw(_COUNT) for country in COUNTRIES}
    phase = draw(st.sampled_from(PHASES))
    if phase in ("passed", "failed"):
        problems = draw(st.lists(st.text(max_size=300), max_size=3)) if phase == "failed" else []
        orders, enriched, dead, lost, duplicates, totals, cents = (draw(_COUNT) for _ in range(7))
        state.verdict = Verdict(orders, enriched, dead, lost, duplicates, totals, cents, tuple(problems))
        state.enter(phase, now)
        frame = state.frame(now)
    return frame
