"""What Apache Kafka 4.3.1's own assignors answer: kafka_assignments.jsonl, one case a line.

Cases named "random" were drawn at random and run through Kafka's assignors. Where the outcome there depends on the
order of a hash map, their member ids are such that this order is the sorted one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.assignors import ASSIGNORS, MemberSubscription, TopicLayout

_FILE = Path(__file__).with_name("kafka_assignments.jsonl")


@dataclass(frozen=True)
class Vector:
    case: str
    assignor: str
    members: tuple[MemberSubscription, ...]
    topics: dict[str, TopicLayout]
    expected: dict[str, Any]

    def __str__(self) -> str:
        return self.case


def vectors(assignor: str) -> list[Vector]:
    return [vector for vector in _read() if vector.assignor == assignor]


def _read() -> Iterator[Vector]:
    for line in _FILE.read_text().splitlines():
        known = json.loads(line)
        name = known["assignor"]
        members = tuple(_member(name, member_id, facts) for member_id, facts in known["members"].items())
        topics = {topic: _layout(facts) for topic, facts in known["topics"].items()}
        yield Vector(known["case"], name, members, topics, known["expected"])


def _member(assignor: str, member_id: str, facts: dict[str, Any]) -> MemberSubscription:
    owned = tuple((topic, number) for topic, number in facts.get("owned", ()))
    generation = facts.get("generation", -1)
    makes = ASSIGNORS.get(assignor)
    return MemberSubscription(
        member_id=member_id,
        topics=tuple(facts["topics"]),
        instance_id=facts.get("instance"),
        rack=facts.get("rack"),
        owned=owned,
        generation=generation,
        user_data=makes.user_data(owned, generation) if makes is not None and generation >= 0 else None,
    )


def _layout(facts: int | list[list[str]]) -> TopicLayout:
    if isinstance(facts, int):
        return TopicLayout(facts)
    return TopicLayout(len(facts), tuple(frozenset(racks) for racks in facts))


def pairs(expected: dict[str, Any]) -> dict[str, list[tuple[str, int]]]:
    return {member: [(topic, number) for topic, number in assigned] for member, assigned in expected.items()}
