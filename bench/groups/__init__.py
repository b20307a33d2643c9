"""How soon a group reads, and how long a partition stands still when a member leaves, next to confluent-kafka.

On Apache Kafka, with group.initial.rebalance.delay.ms=0 and the same heartbeat interval for both clients and both
protocols. Times are those of a program: from the moment before the members are made to the first record of the last
of them (join), and the longest time between two records of one partition while one of ten members leaves: of a
partition that goes to another member (pause), and of one that its member keeps (stay).

Every member is a process, for both clients alike, and so is what writes a record to each partition all the time, at a
steady rate; members begin at its end. They note when they were given a record, and gaps are computed afterwards.
There are so many partitions that each member that stays gets one of those of the member that leaves: the pause ends
with the last of nine, and not with one or two by chance. Members learn of a rebalance with their next heartbeat, so a
pause depends on when in that interval a member leaves: both clients' do so at the same times, evenly spread over it.

The embedded cluster is measured by itself, with members that are nothing but connections.
"""

from __future__ import annotations

import os
import statistics
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from bench.groups.deliveries import QUIET, Gaps
from bench.groups.feeding import create_topic
from bench.groups.members import HEARTBEAT_MS, MODES
from bench.groups.raw import join_to_stable
from bench.groups.workers import Group, Worker, start_workers
from bench.harness import Figure, Result, interleaved, progress
from bench.processes import OTTLA, running
from tests.interop.apache import ApacheKafka

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
LIBRARIES = ("ottla", "confluent")
_GOLDEN = (5**0.5 - 1) / 2
"""Its multiples, modulo 1, are spread evenly however many there are."""


@dataclass(frozen=True)
class Scale:
    """How large the groups are."""

    many: int
    """Members that join at once."""
    members: int
    """Members of which one leaves."""
    leaves: int
    """How often one does in each group; it comes back in between."""
    raw: int

    @property
    def partitions(self) -> int:
        """So many that they go evenly among all members, and among all but one."""
        return self.members * (self.members - 1)


WHOLE = Scale(many=20, members=10, leaves=3, raw=500)
QUICK = Scale(many=2, members=2, leaves=1, raw=20)


Members = Mapping[str, Sequence[Worker]]
"""The processes of both clients."""


def run(repeats: int) -> Result:
    result = Result("groups")
    scale = WHOLE if repeats > 1 else QUICK
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        bootstrap = stack.enter_context(ApacheKafka(1, KAFKA)).bootstrap
        count = max(scale.many, scale.members)
        members = {
            library: stack.enter_context(start_workers(library, bootstrap, count)) for library in LIBRARIES
        }
        (feed,) = stack.enter_context(start_workers("feed", bootstrap, 1))
        # One topic for all: a broker that creates the logs of ninety partitions is busy for a while.
        topic = create_topic(bootstrap, scale.partitions)
        feed.ask("start", topic=topic, partitions=scale.partitions)
        for name, joining in {"join_1": 1, "join_20": scale.many}.items():
            _compare(result, name, repeats, partial(_join, members, topic, scale.partitions, joining))
        for mode in MODES:
            _pauses(result, members, topic, mode, scale, repeats)
    after = os.getloadavg()[0]
    result.notes.append(f"load average: {load:.1f}, {after:.1f}; beside other work, gaps are the machine's")
    _embedded(result, scale, repeats)
    return result


def _compare(result: Result, name: str, repeats: int, measure: Callable[[str], float]) -> None:
    """One figure per library, and their ratio."""
    cases = {library: partial(measure, library) for library in LIBRARIES}
    for case in cases.values():
        case()  # the first group of a process finds files and topics that nobody has opened before
    samples = interleaved(cases, repeats, f"groups: {name}")
    for library, values in samples.items():
        result.figures[f"{name}_{library}"] = Figure("ms", tuple(value * 1000 for value in values))
    result.ratios[name] = statistics.median(samples["ottla"]) / statistics.median(samples["confluent"])


def _join(members: Members, topic: str, partitions: int, joining: int, library: str) -> float:
    """Seconds until the last of the members has its first record."""
    with Group(members[library][:joining], topic, partitions, "eager") as group:
        began = group.join(*range(joining))
        return group.until_all_read() - began


def _pauses(result: Result, members: Members, topic: str, mode: str, scale: Scale, repeats: int) -> None:
    found: dict[str, list[Gaps]] = {library: [] for library in LIBRARIES}
    for library in LIBRARIES:
        _leaves(members[library], topic, mode, replace(scale, leaves=1), first=0)  # as with joins
    for repeat in range(repeats):
        progress(f"groups: pause, {mode}: {repeat + 1} of {repeats}")
        for library in LIBRARIES:
            found[library] += _leaves(members[library], topic, mode, scale, first=repeat * scale.leaves)
    samples = {"pause": {library: [each.moved for each in gaps] for library, gaps in found.items()}}
    if MODES[mode].keeps:
        samples["stay"] = {library: [each.stayed for each in gaps] for library, gaps in found.items()}
    for what, by_library in samples.items():
        for library, values in by_library.items():
            figure = Figure("ms", tuple(value * 1000 for value in values))
            result.figures[f"{what}_{mode}_{library}"] = figure
        medians = {library: statistics.median(values) for library, values in by_library.items()}
        result.ratios[f"{what}_{mode}"] = medians["ottla"] / medians["confluent"]


def _leaves(members: Sequence[Worker], topic: str, mode: str, scale: Scale, first: int) -> list[Gaps]:
    """The gaps around the leaving of one member, and of another one when that is back."""
    leaver = scale.members
    found = []
    with Group(members[:leaver], topic, scale.partitions, mode) as group:
        group.join(*range(scale.members))
        group.until_spread(scale.members)
        for turn in range(scale.leaves):
            if turn:
                group.join(leaver)
                group.until_spread(scale.members)
            time.sleep((first + turn) * _GOLDEN % 1 * HEARTBEAT_MS / 1000)
            leaver -= 1
            left = group.leave(leaver)
            group.until_spread(scale.members - 1)
            found.append(group.timeline(since=left - QUIET).gaps(at=left))
    return found


def _embedded(result: Result, scale: Scale, repeats: int) -> None:
    samples = []
    config = ["--config", "group.initial.rebalance.delay.ms=0"]
    for repeat in range(repeats):
        progress(f"groups: {scale.raw} members on the embedded cluster: {repeat + 1} of {repeats}")
        with running([*OTTLA, *config]) as broker:
            samples.append(join_to_stable(broker.bootstrap, f"group-{uuid.uuid4().hex[:8]}", scale.raw))
    result.figures["join_500_s"] = Figure("s", tuple(samples))
    result.ratios["join_500_s"] = statistics.median(samples)
