"""What the generators share: the dice, the names of a script's topics, and a step with its words.

A step is data, so that a script can be played again without some of its steps. What a broker chooses for itself
(topic ids, sessions, producer ids) is asked of the world when the step is sent.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from ottla.wire import Message, Uuid, WireStruct, api_for_key, api_named
from ottla.wire.schema import StructSchema
from tests.interop.comparison.requests import UNKNOWN_ID
from tests.interop.comparison.script import Build, Step
from tests.interop.comparison.world import World

T = TypeVar("T")

PREFIX: Final = "fuzztest"
"""Stands in every topic name; the player puts a name of the same length there, which no other script has."""
PLAIN, ODD, UNKNOWN = f"{PREFIX}-a", f"{PREFIX}-b", f"{PREFIX}-none"
MADE: Final = f"{PREFIX}-m"
"""A topic that scripts make and delete."""
PLAIN_PARTITIONS: Final = 2
TIME: Final = 1_600_000_000_000
"""2020: the time of most records."""
FUTURE: Final = 2_000_000_000_000
"""2033: the time of what a producer with an id writes, so that its id does not expire while the script runs."""

# The first version that Apache Kafka 4 serves, where that is not 0.
_LOWEST: Final = {
    "Produce": 3,
    "Fetch": 4,
    "ListOffsets": 1,
    "OffsetForLeaderEpoch": 2,
    "CreateTopics": 2,
    "DeleteTopics": 1,
    "DescribeConfigs": 1,
    "DescribeAcls": 1,
    "OffsetFetch": 1,
}


@dataclass(frozen=True)
class FuzzStep(Step):
    """A step of a random script."""

    waits: bool = False
    """Whether its request is made from earlier answers; the others are sent without waiting for any."""
    settles: bool = False
    """Whether it changes metadata: the player then waits until the broker itself knows."""


class Draw(random.Random):
    """The dice of one script, and what the script knows of itself while it is written."""

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.sessions: dict[str, int] = {}
        """The epoch that each fetch session expects, as far as the script can tell."""
        self.sequences: dict[tuple[str, int, int], tuple[int, int]] = {}
        """The epoch and the next sequence of each producer of a partition."""
        self.expired = 5_000_010
        """The next producer that is to be forgotten."""
        self.has_append_time = False
        """Whether the clock has a say in the times of the second topic."""

    def one(self, *values: T) -> T:
        return self.choice(values)

    def mostly(self, usual: T, *others: T, chance: float = 0.75) -> T:
        return usual if self.random() < chance else self.choice(others)

    def often(self, chance: float) -> bool:
        return self.random() < chance

    def some(self, values: Sequence[T], most: int = 3) -> list[T]:
        """One or more of the values; the same one may come twice."""
        return [self.choice(values) for _ in range(self.randint(1, most))]

    def topic(self) -> str:
        return self.mostly(self.one(PLAIN, PLAIN, ODD), UNKNOWN, "", MADE, chance=0.92)

    def known_topic(self) -> str:
        return self.one(PLAIN, PLAIN, ODD)

    def partition(self) -> int:
        return self.mostly(self.one(0, 0, 1), 7, -1, chance=0.93)

    def version(self, api: str) -> int:
        return self.choice(versions_of(api))


def versions_of(api: str) -> range:
    stable = api_named(api).stable_versions
    return range(_LOWEST.get(api, stable.low), stable.high + 1)


def step(
    words: str,
    version: int,
    build: Build,
    *,
    waits: bool = False,
    settles: bool = False,
    answered: bool = True,
    session: str | None = None,
    producer: str | None = None,
) -> FuzzStep:
    """A step; what it opens is remembered under the name of the session or the producer."""

    def remember(world: World, answer: object) -> None:
        if session is not None:
            world.values[session] = getattr(answer, "session_id", 0)
        if producer is not None:
            world.values[producer] = getattr(answer, "producer_id", -1)

    keeps = session is not None or producer is not None
    return FuzzStep(
        words,
        version,
        build,
        remember=remember if keeps else None,
        answered=answered,
        waits=waits,
        settles=settles,
    )


def plain_step(draw: Draw, request: Message, words: str, *, settles: bool = False) -> FuzzStep:
    """A request that does not depend on earlier answers, at any version."""
    api = api_for_key(request.API_KEY).name
    return step(f"{api} {words}", draw.version(api), lambda _world: request, settles=settles)


def fitted(message: Message, version: int) -> Message:
    """The message with every field at its default that this version does not have."""
    _fit(message, message.SCHEMA.body, version)
    return message


def _fit(struct: WireStruct, schema: StructSchema, version: int) -> None:
    default = struct.__class__()
    for field in schema.fields:
        value = getattr(struct, field.attribute)
        if version not in field.versions or (value is None and version not in field.nullable):
            setattr(struct, field.attribute, getattr(default, field.attribute))
        elif isinstance(field.type, StructSchema):
            for each in value if isinstance(value, list) else [value]:
                if each is not None:
                    _fit(each, field.type, version)


def topic_id(world: World, topic: str) -> Uuid:
    """The id of a topic, one that no topic has for a name that none has."""
    return UNKNOWN_ID if topic == UNKNOWN else world.topic_id(topic)
