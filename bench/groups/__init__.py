"""How soon a group reads, and how long a partition stands still when a member leaves, next to confluent-kafka.

On Apache Kafka, with group.initial.rebalance.delay.ms=0 and the same heartbeat interval for both clients and both
protocols. Times are those of a program: from the moment before the members are made to the first record of the last
of them (join), and the longest time between two records of one partition while one of ten members leaves: of a
partition that goes to another member (pause), and of one that its member keeps (stay). Records are written to every
partition all the time, and both clients fetch with the same settings. The embedded cluster is measured by itself,
with members that are nothing but connections.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench.groups.feeding import Feed, create_topic
from bench.groups.members import HEARTBEAT_MS, MODES, Confluent, Deliveries, Library, Mode, Ottla
from bench.groups.raw import join_to_stable
from bench.harness import Figure, Result, interleaved, progress
from bench.processes import OTTLA, running
from tests.interop.apache import ApacheKafka

PARTITIONS = 20
_DEADLINE = 60.0
_QUIET = 1.0
KAFKA = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.assignment.interval.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "4",
}
LIBRARIES: dict[str, type[Library]] = {"ottla": Ottla, "confluent": Confluent}


@dataclass(frozen=True)
class Scale:
    """How large the groups are."""

    many: int
    """Members that join at once."""
    members: int
    """Members of which one leaves."""
    raw: int


WHOLE = Scale(many=20, members=10, raw=500)
QUICK = Scale(many=2, members=2, raw=20)


def run(repeats: int) -> Result:
    result = Result("groups")
    scale = WHOLE if repeats > 1 else QUICK
    with ApacheKafka(1, KAFKA) as kafka:
        for name, members in {"join_1": 1, "join_20": scale.many}.items():
            _compare(result, name, repeats, partial(_join, kafka.bootstrap, members))
        for name in MODES:
            _pauses(result, kafka.bootstrap, name, scale.members, repeats)
    _embedded(result, scale, repeats)
    return result


def _compare(result: Result, name: str, repeats: int, measure: Callable[[type[Library]], float]) -> None:
    """One figure per library, and their ratio."""
    cases = {library: partial(measure, kind) for library, kind in LIBRARIES.items()}
    for case in cases.values():
        case()  # the first group of a process finds files and topics that nobody has opened before
    samples = interleaved(cases, repeats, f"groups: {name}")
    for library, values in samples.items():
        result.figures[f"{name}_{library}"] = Figure("ms", tuple(value * 1000 for value in values))
    result.ratios[name] = statistics.median(samples["ottla"]) / statistics.median(samples["confluent"])


def _join(bootstrap: str, members: int, kind: type[Library]) -> float:
    """Seconds until the last of the members has its first record."""
    topic = create_topic(bootstrap, max(members, 1))
    with Feed(bootstrap, topic, max(members, 1)), kind(bootstrap, topic, MODES["eager"]) as library:
        started = time.perf_counter()
        for _ in range(members):
            library.add()
        _until(lambda: len(library.deliveries.first) == members, f"{members} members that read")
        return max(library.deliveries.first.values()) - started


def _pauses(result: Result, bootstrap: str, name: str, members: int, repeats: int) -> None:
    mode = MODES[name]
    moved: dict[str, list[float]] = {library: [] for library in LIBRARIES}
    stayed: dict[str, list[float]] = {library: [] for library in LIBRARIES}
    for repeat in range(repeats):
        progress(f"groups: pause, {name}: {repeat + 1} of {repeats}")
        for library, kind in LIBRARIES.items():
            gaps = _leave(bootstrap, members, kind, mode)
            moved[library].append(gaps[0] * 1000)
            stayed[library].append(gaps[1] * 1000)
    measured = {"pause": moved} | ({"stay": stayed} if mode.keeps else {})
    for what, samples in measured.items():
        for library, values in samples.items():
            result.figures[f"{what}_{name}_{library}"] = Figure("ms", tuple(values))
        ratio = statistics.median(samples["ottla"]) / statistics.median(samples["confluent"])
        result.ratios[f"{what}_{name}"] = ratio


def _leave(bootstrap: str, members: int, kind: type[Library], mode: Mode) -> tuple[float, float]:
    """The longest gaps around the leaving of one member: of partitions that move, and of those that stay."""
    topic = create_topic(bootstrap, PARTITIONS)
    with Feed(bootstrap, topic, PARTITIONS), kind(bootstrap, topic, mode) as library:
        for _ in range(members):
            library.add()
        _until(lambda: _is_spread(library.deliveries, members), f"{members} members that read")
        before = library.deliveries.readers()
        left = time.perf_counter()
        leaver = library.leave_one()
        others = members - 1
        _until(lambda: _is_spread(library.deliveries, others, without=leaver), f"{others} members that read")
        after = library.deliveries.readers()
    moves = [each for each in after if before[each] != after[each]]
    stays = [each for each in after if before[each] == after[each]]
    gap = partial(library.deliveries.longest_gap, since=left - _QUIET / 2)
    return max(map(gap, moves)), max(map(gap, stays), default=0.0)


def _is_spread(deliveries: Deliveries, members: int, without: int | None = None) -> bool:
    """Whether all partitions have flowed for a while, each to one reader, and all members read."""
    readers = deliveries.readers(since=time.perf_counter() - _QUIET)
    steady = deliveries.is_steady(since=time.perf_counter() - _QUIET)
    return (
        len(readers) == PARTITIONS
        and steady
        and len(set(readers.values())) == members
        and without not in readers.values()
    )


def _embedded(result: Result, scale: Scale, repeats: int) -> None:
    samples = []
    config = ["--config", "group.initial.rebalance.delay.ms=0"]
    for repeat in range(repeats):
        progress(f"groups: {scale.raw} members on the embedded cluster: {repeat + 1} of {repeats}")
        with running([*OTTLA, *config]) as broker:
            samples.append(join_to_stable(broker.bootstrap, f"group-{uuid.uuid4().hex[:8]}", scale.raw))
    result.figures["join_500_s"] = Figure("s", tuple(samples))
    result.ratios["join_500_s"] = statistics.median(samples)


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.perf_counter() + _DEADLINE
    while not condition():
        if time.perf_counter() > deadline:
            raise TimeoutError(f"waited {_DEADLINE:g} s in vain for {what}")
        time.sleep(0.005)
