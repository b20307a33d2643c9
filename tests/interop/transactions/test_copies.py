"""Copies of a topic in transactions, while brokers or copiers are bounced: every record is there, once, in order.

The transactional copy of Kafka's system tests. `make copies` runs all of it with as many records as there
(COPY_RECORDS=N); a reader of committed records follows the copy and another reads it at the end.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product

import pytest

from tests.interop import confluent
from tests.interop.brokers import Broker
from tests.interop.transactions.bounced import (
    DURABLE,
    CommittedReader,
    bounce_brokers,
    committed_numbers,
    make_durable,
)
from tests.interop.transactions.copier import Copier

IS_WHOLE = "OTTLA_COPY_RECORDS" in os.environ
RECORDS = int(os.environ.get("OTTLA_COPY_RECORDS", "1500"))
WITHIN_S = 300.0 + RECORDS / 100
SIZE = 750 if IS_WHOLE else 50
BOUNCES = (1, 2, 3) if IS_WHOLE else (2,)
"""When copiers are bounced: so many fifths of the records have been copied."""


@dataclass
class Copy:
    """Copiers at work on a topic full of numbers, and a reader of what they write."""

    bootstrap: str
    source: str
    target: str
    copiers: list[Copier]
    following: CommittedReader
    ordered: bool
    seeded: int = 0

    def seed(self, count: int) -> None:
        """So many numbers more, and all that are left where that would be less than as many again."""
        first, left = self.seeded, RECORDS - self.seeded
        self.seeded += count if left >= 2 * count else left
        numbers = [str(number).encode() for number in range(first, self.seeded)]
        confluent.produce(self.bootstrap, self.source, numbers, within=120, idempotent=True)

    def go_on(self, count: int) -> None:
        """There is more to copy, until some of it is copied."""
        before = self.seeded
        self.seed(count)
        self.following.wait_for(before + 1, WITHIN_S)

    def check(self) -> None:
        """Until all is copied; each number once, for the reader that followed and for one that comes afterwards."""
        self.following.wait_for(RECORDS, WITHIN_S)
        for copier in self.copiers:
            copier.stop()
        self._check(committed_numbers(self.bootstrap, self.target))
        self._check(self.following.values)

    def _check(self, values: list[int]) -> None:
        assert len(values) == len(set(values)), "records were copied twice"
        assert sorted(values) == list(range(RECORDS)), "records are missing"
        if self.ordered:
            assert values == list(range(RECORDS))


@contextmanager
def copying(broker: Broker, client: str, ordered: bool) -> Iterator[Copy]:
    """As in the system tests: one partition to one where the order counts, else two to three with two copiers."""
    sources, targets = (1, 1) if ordered else (2, 3)
    source, target = broker.create_topic(sources, DURABLE), broker.create_topic(targets, DURABLE)
    group = f"copy-{uuid.uuid4().hex[:12]}"
    make_durable(broker, group)
    with ExitStack() as stack:
        following = stack.enter_context(CommittedReader(broker.bootstrap, target))
        copiers = [
            stack.enter_context(
                Copier(client, broker.bootstrap, group, f"{group}-{number}", source, target, str(SIZE))
            )
            for number in range(sources)
        ]
        yield Copy(broker.bootstrap, source, target, copiers, following, ordered)


def bounce_copiers(copiers: list[Copier], hard: bool) -> None:
    for copier in copiers:
        if hard:
            copier.kill()
        else:
            copier.stop()
        copier.start()


IN_EVERY_RUN = {(True, "ottla", "confluent-kafka"), (False, "apache", "ottla")}
"""Whether brokers are bounced, the kind of cluster, the client."""


def cases(*, of_brokers: bool) -> list[object]:
    """Kind of cluster, client, hard, ordered: all of them, of which one for each cluster is in every run.

    There the client is not of the cluster's house: each is tried against what others have written.
    """
    found: list[object] = []
    for kind, client, hard, ordered in product(
        ("ottla", "apache"), ("confluent-kafka", "ottla"), (True, False), (True, False)
    ):
        in_every_run = hard and not ordered and (of_brokers, kind, client) in IN_EVERY_RUN
        mark = [pytest.mark.kafka] if kind == "apache" else []
        found.append(
            pytest.param(
                *(kind, client, hard, ordered),
                id=f"{kind}-by-{client}-{'hard' if hard else 'clean'}-{'ordered' if ordered else 'unordered'}",
                marks=mark if in_every_run else [pytest.mark.kafka_full],
            )
        )
    return found


@pytest.mark.parametrize(
    ("failing3", "client", "hard", "ordered"), cases(of_brokers=False), indirect=["failing3"]
)
def test_every_record_is_copied_once_while_copiers_are_bounced(
    failing3: Broker, client: str, hard: bool, ordered: bool
) -> None:
    with copying(failing3, client, ordered) as copy:
        copy.seed(RECORDS)
        for share in BOUNCES:
            copy.following.wait_for(RECORDS * share // 5, WITHIN_S)
            bounce_copiers(copy.copiers, hard)
        copy.check()


@pytest.mark.parametrize(
    ("failing3", "client", "hard", "ordered"), cases(of_brokers=True), indirect=["failing3"]
)
def test_every_record_is_copied_once_while_brokers_are_bounced(
    failing3: Broker, client: str, hard: bool, ordered: bool
) -> None:
    nodes = failing3.node_ids
    share = RECORDS // (len(nodes) + 1)
    with copying(failing3, client, ordered) as copy:
        copy.go_on(share)
        # The copiers are quicker than nodes come back: what is copied while a node is down is written then.
        bounce_brokers(
            failing3, nodes, hard, [copy.source, copy.target], while_down=lambda: copy.go_on(share)
        )
        copy.check()
