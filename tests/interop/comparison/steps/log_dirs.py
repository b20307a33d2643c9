"""DescribeLogDirs and AlterReplicaLogDirs of a broker with one log directory."""

from __future__ import annotations

from typing import Any

from ottla.wire.messages import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from tests.interop.comparison.requests import batch, given, just, produce
from tests.interop.comparison.script import Build, Step, ask, section
from tests.interop.comparison.world import World

TOPIC, OTHER, NONE = "dirs-a", "dirs-b", "dirs-none"
# Unknown both: the first has room for what Kafka calls a log on the move, the second has not.
LONG, TOO_LONG = "l" * 213, "l" * 214

Wanted = tuple[str, list[int]]


def describe(*topics: Wanted) -> Build:
    named = DescribeLogDirsRequest.DescribableLogDirTopic
    return just(DescribeLogDirsRequest(topics=[named(topic=topic, partitions=p) for topic, p in topics]))


def learn_log_dir(world: World, answer: Any) -> None:
    (result,) = answer.results
    world.log_dir = result.log_dir


def _alter(*moves: tuple[str, tuple[Wanted, ...]]) -> AlterReplicaLogDirsRequest:
    request = AlterReplicaLogDirsRequest
    return request(
        dirs=[
            request.AlterReplicaLogDir(
                path=path,
                topics=[
                    request.AlterReplicaLogDirTopic(name=topic, partitions=partitions)
                    for topic, partitions in topics
                ],
            )
            for path, topics in moves
        ]
    )


def stay(*topics: Wanted, behind: str = "") -> Build:
    """Into the directory that the broker has, or another way to write its path."""
    return lambda world: _alter((world.log_dir + behind, topics))


def go(path: str, *topics: Wanted) -> Build:
    return just(_alter((path, topics)))


def both(first: str, second: str, *topics: Wanted) -> Build:
    """The same into two directories; the empty path stands for the one that there is."""
    return lambda world: _alter((first or world.log_dir, topics), (second or world.log_dir, topics))


def known(label: str, build: Build) -> list[Step]:
    return ask(label, build, 1, 2)


DESCRIBED = section(
    "describe log dirs",
    given(TOPIC, OTHER, partitions=2),
    ask("what is in them", produce(TOPIC, batch(b"a", b"b")), 9),
    ask("what is in them too", produce(TOPIC, batch(b"c"), partition=1), 9),
    ask("of one partition", describe((TOPIC, [0])), *range(1, 6), remember=learn_log_dir),
    ask("of a topic", describe((TOPIC, [0, 1])), 1, 5),
    ask("of empty logs", describe((OTHER, [0, 1])), 1, 5),
    ask("of two topics", describe((TOPIC, [0]), (OTHER, [1])), 5),
    ask("of a partition twice", describe((TOPIC, [1, 1])), 5),
    ask("of a topic twice", describe((TOPIC, [0]), (TOPIC, [0, 1])), 5),
    ask("of an unknown partition", describe((TOPIC, [0, 9, -1])), 5),
    ask("of unknown partitions alone", describe((TOPIC, [9])), 1, 5),
    ask("of an unknown topic", describe((NONE, [0])), 1, 5),
    ask("of known and unknown topics", describe((NONE, [0]), (OTHER, [0])), 5),
    ask("of a wrong name", describe(("a b", [0]), ("", [0])), 5),
    ask("of no partitions", describe((TOPIC, [])), 5),
    ask("of nothing", describe(), 1, 5),
    ask("of all", just(DescribeLogDirsRequest(topics=None)), *range(1, 6)),
)

ALTERED = section(
    "alter replica log dirs",
    known("to where it is", stay((TOPIC, [0]))),
    known("several to where they are", stay((TOPIC, [0, 1]), (OTHER, [0]))),
    known("to a path with a slash behind", stay((TOPIC, [0]), behind="/")),
    known("to a path with a dot behind", stay((TOPIC, [0]), behind="/.")),
    known("to another path", go("/nowhere", (TOPIC, [0, 1]))),
    known("to a relative path", go("nowhere", (TOPIC, [0]))),
    known("to an empty path", go("", (TOPIC, [0]))),
    known("to the root", go("/", (TOPIC, [0]))),
    known("an unknown partition", stay((TOPIC, [0, 9]))),
    known("a partition below zero", stay((TOPIC, [-1]))),
    known("an unknown topic", stay((NONE, [0]))),
    known("an unknown topic to another path", go("/nowhere", (NONE, [0]))),
    known("an empty name", stay(("", [0]))),
    known("a wrong name", stay(("a b", [0]))),
    known("a long name", stay((LONG, [0]))),
    known("a name that is too long", stay((TOO_LONG, [0]))),
    known("a name that is too long to another path", go("/nowhere", (TOO_LONG, [0]))),
    known("a name that is too long with its partition", stay((LONG, [10]))),
    known("a partition twice", stay((TOPIC, [0, 0]))),
    known("a topic twice", stay((TOPIC, [0]), (TOPIC, [1]))),
    known("to two paths, the right one last", both("/nowhere", "", (TOPIC, [0]))),
    known("to two paths, the wrong one last", both("", "/nowhere", (TOPIC, [0]))),
    known("a topic without partitions", stay((TOPIC, []))),
    known("no topics", stay()),
    known("nothing", just(AlterReplicaLogDirsRequest())),
    ask("where they are after all of it", describe((TOPIC, [0, 1]), (OTHER, [0])), 5),
)
