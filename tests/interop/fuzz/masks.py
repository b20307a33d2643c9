"""What the fuzzer does not compare, what it does not ask, and where the two are known to differ.

The first table is made from what the normaliser leaves out or replaces. docs/fidelity.md shows all three
(`python -m tests.interop.fuzz.document` writes them), and a test keeps them equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.interop.comparison.differences import Difference
from tests.interop.comparison.normal import CLOCKS, LEFT_OUT, ORDERED, VARYING


@dataclass(frozen=True)
class Masked:
    """Fields of which the fuzzer compares less than their value."""

    fields: tuple[str, ...]
    compared: str
    reason: str


@dataclass(frozen=True)
class NotAsked:
    """What no script has."""

    what: str
    reason: str


MASKED: Final[tuple[Masked, ...]] = (
    Masked(tuple(sorted(LEFT_OUT)), "nothing", "how busy a broker is"),
    Masked(tuple(sorted(VARYING)), "whether it is set", "addresses, disks and ids of each cluster's own"),
    Masked(tuple(sorted(CLOCKS)), "times of today are one time", "the clock"),
    Masked(("topic_id",), "whose id it is", "drawn by each cluster"),
    Masked(("producer_id", "session_id"), "which request got it", "drawn by each broker"),
    Masked(("documentation",), "whether it is set; of topics only", "sentences for people"),
    Masked(
        ("lists of structs",), f"without their order, but for {' and '.join(sorted(ORDERED))}", "hash maps"
    ),
    Masked(("error messages",), "without addresses, folders and times of today", "as above"),
)

NOT_ASKED: Final[tuple[NotAsked, ...]] = (
    NotAsked(
        "requests of a transaction whose markers are on their way",
        "whether they are written is a matter of time: scripts wait for that",
    ),
    NotAsked("Produce with null records", "Apache Kafka fails inside and does not answer"),
    NotAsked("AlterConfigs that names a resource twice", "Apache Kafka fails inside and does not answer"),
    NotAsked("changes of broker configs that are not for validation only", "they would outlive their script"),
    NotAsked(
        "the record with the largest timestamp in a topic with LogAppendTime",
        "two appends may or may not fall into one millisecond",
    ),
    NotAsked("all topics at once (Metadata, DescribeTopicPartitions)", "scripts run side by side"),
)

KNOWN: Final[tuple[Difference, ...]] = (
    Difference(
        "DescribeConfigs *",
        ("results/1/configs/listeners/*", "results/1/configs/log.dirs/*"),
        "at their defaults",
        "a node of the embedded cluster has one listener and no files",
    ),
    Difference(
        "IncrementalAlterConfigs *'listeners', 3*",
        ("responses/*/error_code", "responses/*/error_message"),
        "what is left of them is refused or accepted",
        "the Apache Kafka that is compared is broker and controller in one, and must keep a listener for the "
        "controller; a node of the embedded cluster is a broker alone",
    ),
)
