"""What Apache Kafka 4.3.1 answered about configs, on record in two files next to this one.

kafka_answers.jsonl: what became of the cases of cases.py; `after` are the resource's overrides where it was altered.
kafka_described.jsonl: what DescribeConfigs said of a topic, a broker, a group and a subscription without any configs
("plain"), and what it and CreateTopics said otherwise with what cases.py sets.
`python -m tests.broker.configs.record` makes both anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.broker.configs.cases import Case

ANSWERS = Path(__file__).with_name("kafka_answers.jsonl")
DESCRIBED = Path(__file__).with_name("kafka_described.jsonl")

Line = dict[str, Any]


def load(file: Path) -> list[Line]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def save(file: Path, lines: Iterable[Line]) -> None:
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def answer_to_line(case: Case, code: int, message: str | None, after: dict[str, str | None]) -> Line:
    return {
        "kind": int(case.kind),
        "name": case.name,
        "how": "create" if case.create else "whole" if case.whole else "incremental",
        "before": dict(case.before),
        "changes": [[name, int(operation), value] for name, operation, value in case.changes],
        "code": code,
        "message": message,
        "after": after,
    }
