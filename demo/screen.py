"""A frame as lines of text, for a console of at least 80 columns and 24 lines.

Every line is made to fit: nothing wraps, and what does not fit is cut. Where there is more room, there are more
events, longer histories, the SQL of the pipelines, and later the revenue by country.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from rich.text import Text

from demo.frame import HISTORY_S, Frame, Mood, NodeState, Phase, Rates
from demo.orders import DEAD, ENRICHED, MALFORMED_EVERY, ORDERS, PIPELINES, REVENUE, money

WIDTH: Final = 80
HEIGHT: Final = 24
_ROOM_FOR_MORE: Final = 36
_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ROUND: Final = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_STEPS: Final = "▁▂▃▄▅▆▇█"
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_STYLES: Final[dict[Mood, str]] = {
    "plain": "",
    "announced": "yellow",
    "broken": "bold red",
    "mended": "green",
}
_DIM: Final = "bright_black"
_STARTING: Final[tuple[Phase, ...]] = ("cluster", "spark")


def lines(frame: Frame, width: int, height: int) -> list[Text]:
    """At most `height` lines, none wider than `width`."""
    # A window may be made smaller while the demo runs: it gets what fits into it.
    room = max(width, WIDTH)
    fixed = [_title(frame, room), *_progress(frame, room)]
    fixed += _plan(frame, room) if frame.phase in _STARTING else _hops(frame, room)
    fixed += _brokers(frame, room)
    if height >= _ROOM_FOR_MORE:
        fixed += _pipelines(room) if frame.phase in _STARTING else _revenue(frame, room)
    found = [*fixed, *_events(frame, room, height - len(fixed))][:height]
    for line in found:
        line.plain = "".join(each if each.isprintable() else " " for each in line.plain)
        line.truncate(width, overflow="ellipsis")
    return found


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _title(frame: Frame, width: int) -> Text:
    what = "while a Spark worker and a broker are killed" if frame.faults else "and nothing is killed"
    left = Text.assemble((" Ottla demo", "bold"), f"  exactly once, {what}")
    return _apart(left, Text(f"{clock(frame.elapsed)} "), width)


# The three lines below the title: how far it is, or what the proof has found


def _progress(frame: Frame, width: int) -> list[Text]:
    if frame.verdict is not None:
        return _proof(frame)
    turn = _SPINNER[int(frame.elapsed * 10) % len(_SPINNER)]
    now = Text.assemble((f" {turn} ", "bold cyan"), phase_text(frame))
    if frame.phase in _STARTING:
        return [now, _moving(frame, width), Text()]
    marks = [(f"{mark}", at) for mark, at in fault_marks(frame)]
    return [now, _bar(frame.counts.orders / frame.of, width - 2, "cyan"), _marks(marks, frame.of, width - 2)]


def phase_text(frame: Frame) -> str:
    counts = frame.counts
    match frame.phase:
        case "cluster":
            return "Starting three brokers"
        case "spark":
            waiting = f": waiting for {frame.waiting_for}" if frame.waiting_for else ""
            return f"Starting Spark, {frame.waited:.0f} s{waiting}"
        case "flow":
            left = max(0, frame.of - counts.orders) / frame.rate
            fault = f"; {frame.fault}" if frame.fault else ""
            return f"{counts.orders:,} of {frame.of:,} orders are in, about {left:.0f} s to go{fault}"
        case "finish":
            left = counts.lag_of_enriching + counts.lag_of_summing
            waiting = frame.fault or (f"Spark has {left:,} rows to write" if left else "Spark ends")
            return f"All {frame.of:,} orders are in: {waiting}"
        case "check":
            return f"Checking: confluent-kafka has read {frame.checked:,} committed records"
        case "passed":
            return "Proved"
        case "failed":
            return "FAILED"


def fault_marks(frame: Frame) -> list[tuple[str, int]]:
    """Where on the way through the orders something is killed."""
    third = max(1, frame.of // 3)
    return [("a Spark worker is killed", third), ("a broker is killed", 2 * third)] if frame.faults else []


def _moving(frame: Frame, width: int) -> Text:
    """Nothing is known of how long it takes: a block that goes to and fro."""
    room, block = width - 2, 8
    place = int(frame.elapsed * 8) % (2 * (room - block))
    place = min(place, 2 * (room - block) - place)
    bar = Text(" ")
    bar.append("━" * place, _DIM)
    bar.append("█" * block, "cyan")
    bar.append("━" * (room - block - place), _DIM)
    return bar


def _bar(share: float, room: int, style: str) -> Text:
    filled = min(1.0, max(0.0, share)) * room
    whole, rest = int(filled), int((filled - int(filled)) * 8)
    bar = Text(" ")
    bar.append("█" * whole, style)
    if whole < room and rest:
        bar.append(_EIGHTHS[rest], style)
    bar.append("━" * (room - whole - (1 if whole < room and rest else 0)), _DIM)
    return bar


def _marks(marks: Sequence[tuple[str, int]], of: int, room: int) -> Text:
    line = Text(" ")
    for what, at in marks:
        place = 1 + int(at / of * room)
        line.append(" " * max(0, place - line.cell_len))
        line.append("▲ ", "yellow")
        line.append(what, _DIM)
        line.append("  ")
    return line


def _proof(frame: Frame) -> list[Text]:
    verdict = frame.verdict
    assert verdict is not None
    style, what = ("bold green", "PASSED") if frame.phase == "passed" else ("bold red", "FAILED")
    counted = Text.assemble(
        (f" {what} ", style), "by the count of confluent-kafka, which reads what is committed:"
    )
    numbers = Text.assemble(
        f"   {verdict.balance}   ",
        (f"lost {verdict.lost:,}   duplicates {verdict.duplicates:,}", style),
    )
    if verdict.problems:
        more = f" (and {len(verdict.problems) - 1} more)" if len(verdict.problems) > 1 else ""
        return [counted, numbers, Text(f"   {verdict.problems[0]}{more}", "red")]
    sums = f"   {verdict.totals:,} windows of revenue, {money(verdict.cents)}: each agrees to the cent"
    return [counted, numbers, Text(sums)]


# What is to be seen, before there is anything


def _plan(frame: Frame, width: int) -> list[Text]:
    faults = "a Python worker of Spark is killed in the middle of a task, then a broker"
    steps = [
        f"{frame.of:,} orders go into Kafka, {frame.rate:,} a second; 1 in {MALFORMED_EVERY} is malformed",
        "Spark adds the customer's name and country to each (demo/enrich.toml)",
        "and sums up revenue by country and 10 seconds (demo/revenue.toml)",
        faults if frame.faults else "nothing is killed (--no-faults)",
        "another client, confluent-kafka, counts what went in and what came out",
    ]
    return [
        _rule("what happens", width),
        *(Text(f" {number} {step}") for number, step in enumerate(steps, start=1)),
    ]


def _pipelines(width: int) -> list[Text]:
    """The SQL of both, as it is in their files."""
    found: list[Text] = []
    for path in PIPELINES:
        found.append(_rule(f"demo/{path.name}", width))
        found += [Text(f" {line}") for line in sql(path).splitlines()]
    return found


@cache
def sql(path: Path) -> str:
    """What a pipeline makes of its sources."""
    return str(tomllib.loads(path.read_text())["transform"]["sql"]).strip()


# The way of an order

_NAME, _COUNT, _RATE, _LAG, _NUMBER, _TOOK = 14, 10, 8, 9, 7, 8
_OTHERS = 1 + _NAME + _COUNT + _RATE + 2 + _LAG + _NUMBER + _TOOK


def _hops(frame: Frame, width: int) -> list[Text]:
    counts, rates = frame.counts, frame.rates
    room = min(HISTORY_S, width - _OTHERS - 2)
    top = _scale([rate for each in rates for rate in each.history[-room:]])
    drawn = f"{room} s, █ = {top:,.0f}"
    if len(drawn) + len("last ") <= room:
        drawn = f"last {drawn}"
    header = (
        f" {'topic':{_NAME}}{'orders':>{_COUNT}}{'a second':>{_RATE + 2}}  {drawn:{room}}"
        f"{'lag':>{_LAG - 2}}{'batch':>{_NUMBER}}{'took':>{_TOOK}}"
    )
    rows = [
        (ORDERS, counts.orders, rates[0], "", "", ""),
        (
            ENRICHED,
            counts.enriched,
            rates[1],
            f"{counts.lag_of_enriching:,}",
            str(frame.enriching.count),
            _seconds(frame.enriching.last_ms),
        ),
        (DEAD, counts.dead, rates[2], "", "", ""),
        (
            REVENUE,
            counts.summed,
            rates[3],
            f"{counts.lag_of_summing:,}",
            str(frame.summing.count),
            _seconds(frame.summing.last_ms),
        ),
    ]
    found = [_rule("orders on their way", width), Text(header, _DIM)]
    for name, count, rate, lag, number, took in rows:
        line = Text(f" {name:{_NAME}}{count:>{_COUNT},}{rate.now:>{_RATE + 2},.0f}  ")
        line.append(" " * room if name == DEAD else _sparks(rate, top, room), "cyan")
        line.append(f"{lag:>{_LAG - 2}}{number:>{_NUMBER}}{took:>{_TOOK}}")
        found.append(line)
    return found


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.1f} s" if ms else "-"


def _scale(rates: Sequence[float]) -> float:
    """The next round number."""
    most = max([100.0, *rates])
    power = 10 ** (len(str(int(most))) - 1)
    return next(float(power * step) for step in _ROUND if power * step >= most)


def _sparks(rates: Rates, top: float, room: int) -> str:
    """A column for each second; none for what was before."""
    columns = [_spark(rate / top) for rate in rates.history[-room:]]
    return "".join(columns).rjust(room)


def _spark(share: float) -> str:
    return _STEPS[min(len(_STEPS) - 1, int(share * len(_STEPS)))] if share > 0 else " "


# Brokers and Spark


def _brokers(frame: Frame, width: int) -> list[Text]:
    done, failed, active = frame.tasks
    legend = "█ leads  ▒ follows in sync  · not in sync"
    found = [_rule("brokers", width, legend)]
    found += [_broker(node, frame.partitions) for node in frame.nodes]
    found += [Text()] * (3 - len(frame.nodes))
    tasks = f"{done:,} tasks done, {active} running, "
    again = Text(f"{failed} failed and tried again", "bold red" if failed else "")
    found.append(Text.assemble(" Spark     ", tasks, again))
    return found


def _broker(node: NodeState, partitions: int) -> Text:
    state = Text("up    ", "green") if node.up else Text("DOWN  ", "bold red")
    follows = max(0, node.in_sync - node.leads)
    line = Text.assemble(f" broker {node.id}  ", state)
    line.append(f"leads {node.leads:>2} of {partitions} partitions, in sync with {node.in_sync:>2}   ")
    line.append("█" * node.leads, "green")
    line.append("▒" * follows, "green")
    line.append("·" * (partitions - node.leads - follows), "red")
    return line


def _revenue(frame: Frame, width: int) -> list[Text]:
    """A bar is as long as the country's share of the largest."""
    most = max((cents for _, cents in frame.revenue), default=0)
    found = [_rule("revenue so far, as read from the topic", width, f"longest bar = {money(most)}")]
    room = width - 31
    for country, cents in frame.revenue:
        line = Text(f" {country:{_NAME}}{money(cents):>14}")
        line.append(_bar(cents / most if most else 0, room, "cyan"))
        found.append(line)
    return found


# Events


def _events(frame: Frame, width: int, room: int) -> list[Text]:
    shown = frame.events[-(room - 1) :] if room > 1 else ()
    found = [_rule("events", width)] if room > 0 else []
    found += [
        Text.assemble((f" {clock(event.at):>5}  ", _DIM), (event.text, _STYLES[event.mood]))
        for event in shown
    ]
    return found


def _rule(title: str, width: int, right: str = "") -> Text:
    line = Text("── ", _DIM)
    line.append(title, "bold")
    line.append(" ")
    end = f" {right} ──" if right else ""
    line.append("─" * max(0, width - line.cell_len - len(end)), _DIM)
    line.append(end, _DIM)
    return line


def _apart(left: Text, right: Text, width: int) -> Text:
    left.truncate(max(0, width - right.cell_len - 1), overflow="ellipsis")
    return Text.assemble(left, " " * (width - left.cell_len - right.cell_len), right)
