"""What is known of the demo at one moment, and where it comes from: what the child processes say.

`State.hear` takes what a child says; `State.frame` is a picture of the whole. What is shown is a frame and nothing
else, so its numbers are of one moment, and agree with each other (`consistent`): children say things with a delay,
each its own, but what has come out of one hop must have been in the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from demo.children import Message
from demo.orders import ENRICHED, REVENUE

Phase: TypeAlias = Literal["cluster", "spark", "flow", "finish", "check", "passed", "failed"]
Mood: TypeAlias = Literal["plain", "announced", "broken", "mended"]

HISTORY_S: Final = 120
_QUIET_S: Final = 90.0
"""Queries that have reported no micro-batch for so long have nothing more to write: one takes seconds, and on a busy
machine longer."""
_RATE_S: Final = 4
"""Rows per second are of so many seconds: more than a micro-batch takes."""


@dataclass(frozen=True)
class Event:
    """Something that has happened."""

    at: float
    """Seconds since the demo began."""
    text: str
    mood: Mood = "plain"


@dataclass(frozen=True)
class NodeState:
    """A broker."""

    id: int
    up: bool
    leads: int
    in_sync: int


@dataclass(frozen=True)
class Counts:
    """Orders at each hop."""

    orders: int = 0
    enriched: int = 0
    dead: int = 0
    summed: int = 0

    @property
    def lag_of_enriching(self) -> int:
        return self.orders - self.enriched - self.dead

    @property
    def lag_of_summing(self) -> int:
        return self.enriched - self.summed


def consistent(acked: int, enriched: int, dead: int, summed: int) -> Counts:
    """What must be true at least: what was read of a topic had been written to it."""
    enriched = max(enriched, summed)
    return Counts(max(acked, enriched + dead), enriched, dead, summed)


@dataclass(frozen=True)
class Batches:
    """The micro-batches of a query that are done."""

    count: int = 0
    last_ms: int = 0


@dataclass(frozen=True)
class Rates:
    """Orders a second at one hop: now, and in each second of the past."""

    now: float = 0.0
    history: tuple[float, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What the check has found; no problems means that everything agrees."""

    orders: int
    enriched: int
    dead: int
    lost: int
    duplicates: int
    totals: int
    cents: int
    problems: tuple[str, ...] = ()

    @property
    def balance(self) -> str:
        sign = "=" if self.orders == self.enriched + self.dead else "≠"
        return f"in {self.orders:,} {sign} out {self.enriched:,} + dead letters {self.dead:,}"


@dataclass(frozen=True)
class Frame:
    """One moment."""

    phase: Phase
    elapsed: float
    waited: float
    """In this phase."""
    of: int
    rate: int
    faults: bool
    counts: Counts = Counts()
    enriching: Batches = Batches()
    summing: Batches = Batches()
    rates: tuple[Rates, Rates, Rates, Rates] = (Rates(), Rates(), Rates(), Rates())
    """Of the fields of `counts`, in their order."""
    nodes: tuple[NodeState, ...] = ()
    partitions: int = 0
    tasks: tuple[int, int, int] = (0, 0, 0)
    """Done, failed, active."""
    waiting_for: str = ""
    fault: str = ""
    """What is broken just now, or is about to be."""
    checked: int = 0
    revenue: tuple[tuple[str, int], ...] = ()
    """Cents by country."""
    events: tuple[Event, ...] = ()
    verdict: Verdict | None = None


@dataclass
class State:
    """What the children have said so far. Times are seconds since the demo began."""

    of: int
    rate: int
    faults: bool
    phase: Phase = "cluster"
    began: float = 0.0
    """When this phase did."""
    bootstrap: str = ""
    acked: int = 0
    batches: dict[str, Batches] = field(default_factory=lambda: {ENRICHED: Batches(), REVENUE: Batches()})
    written: int = 0
    dead: int = 0
    summed: int = 0
    nodes: tuple[NodeState, ...] = ()
    partitions: int = 0
    tasks: tuple[int, int, int] = (0, 0, 0)
    last_batch: float = 0.0
    """When a micro-batch was reported."""
    waiting_for: str = ""
    fault: str = ""
    ready: bool = False
    placed: bool = False
    checked: int = 0
    revenue: dict[str, int] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    verdict: Verdict | None = None
    _seconds: list[Counts] = field(default_factory=list)

    def enter(self, phase: Phase, now: float) -> None:
        self.phase, self.began, self.waiting_for = phase, now, ""

    def note(self, now: float, text: str, mood: Mood = "plain") -> None:
        self.events.append(Event(now, text, mood))

    def hear(self, message: Message, now: float) -> None:
        match message["event"]:
            case "cluster":
                self.bootstrap = message["bootstrap"]
            case "orders":
                self.acked = message["acked"]
            case "placed":
                self.acked, self.placed = message["orders"], True
            case "batch":
                self.last_batch = now
                self._hear_batch(message)
            case "nodes":
                self.nodes = tuple(NodeState(*each) for each in message["nodes"])
                self.partitions = message["partitions"]
            case "tasks":
                self.tasks = (message["done"], message["failed"], message["active"])
            case "waiting":
                self.waiting_for = message["what"]
            case "reached":
                self.note(now, message["what"])
            case "ready":
                self.ready = True

    def _hear_batch(self, message: Message) -> None:
        before = self.batches[message["sink"]]
        self.batches[message["sink"]] = Batches(before.count + 1, message["ms"])
        if message["sink"] == ENRICHED:
            self.written += message["written"]
            self.dead += message["dead"]
        else:
            self.summed += message["read"]

    def all_is_written(self, now: float) -> bool:
        """Or never will be: the proof says what is missing."""
        counts = self.counts
        left = counts.lag_of_enriching or counts.lag_of_summing
        return not left or now - max(self.last_batch, self.began) > _QUIET_S

    @property
    def counts(self) -> Counts:
        return consistent(self.acked, self.written, self.dead, self.summed)

    def frame(self, now: float) -> Frame:
        counts = self.counts
        self._remember(now, counts)
        names = ("orders", "enriched", "dead", "summed")
        orders, enriched, dead, summed = (self._rates(name, now) for name in names)
        return Frame(
            phase=self.phase,
            elapsed=now,
            waited=now - self.began,
            of=self.of,
            rate=self.rate,
            faults=self.faults,
            counts=counts,
            enriching=_at_least_one(self.batches[ENRICHED], counts.enriched + counts.dead),
            summing=_at_least_one(self.batches[REVENUE], counts.summed),
            rates=(orders, enriched, dead, summed),
            nodes=self.nodes,
            partitions=self.partitions,
            tasks=self.tasks,
            waiting_for=self.waiting_for,
            fault=self.fault,
            checked=self.checked,
            revenue=tuple(sorted(self.revenue.items())),
            events=tuple(self.events),
            verdict=self.verdict,
        )

    def _remember(self, now: float, counts: Counts) -> None:
        """What was known at each whole second."""
        before = self._seconds[-1] if self._seconds else Counts()
        self._seconds += [before] * (int(now) - len(self._seconds))
        if len(self._seconds) == int(now):
            self._seconds.append(counts)

    def _rates(self, name: str, now: float) -> Rates:
        """The last is of now, those before of whole seconds, so that what is drawn of the past stands still."""
        values = [getattr(counts, name) for counts in self._seconds]
        first = max(1, len(values) - HISTORY_S)
        history = tuple(_rate(values, second) for second in range(first, len(values)))
        since = max(0, int(now) - _RATE_S)
        late = now - since
        current = (getattr(self.counts, name) - values[since]) / late if late > 0 else 0.0
        return Rates(max(0.0, current), history)


def _rate(values: list[int], second: int) -> float:
    since = max(0, second - _RATE_S)
    return max(0.0, (values[second] - values[since]) / (second - since))


def _at_least_one(batches: Batches, rows: int) -> Batches:
    """Rows are there when a micro-batch is committed, a moment before that is reported."""
    return batches if batches.count or not rows else Batches(1, batches.last_ms)
