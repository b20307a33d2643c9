"""The check finds whatever does not add up."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest

import ottla
from demo.check import CheckError, Report, check, differences, expected
from demo.frame import Verdict
from demo.orders import (
    DEAD,
    ENRICHED,
    ORDERS,
    REVENUE,
    SHOP,
    TOPICS,
    Order,
    Total,
    Window,
    is_malformed,
    order,
)
from ottla.broker import Cluster

NUMBERS = range(480, 530)
PLACED = [order(number, at=1_000 * number) for number in NUMBERS]
GOOD = [each for each in PLACED if not is_malformed(each.id)]
SUM = sum(each.cents for each in GOOD)

pytestmark = pytest.mark.kafka_cluster(topics=TOPICS)


def row(placed: Order) -> bytes:
    customer = SHOP[placed.customer]
    sent = json.loads(placed.as_json())
    return json.dumps({**sent, "name": customer.name, "country": customer.country}).encode()


def revenue(window: Window, total: Total) -> bytes:
    start = datetime.fromtimestamp(window.start / 1000, UTC).isoformat().replace("+00:00", "Z")
    fields = {"country": window.country, "start": start, "orders": total.orders, "cents": total.cents}
    return json.dumps(fields).encode()


@dataclass
class Topics:
    """What is in them; as it should be, unless a test says otherwise."""

    orders: list[bytes] = field(default_factory=lambda: [each.as_sent() for each in PLACED])
    enriched: list[bytes] = field(default_factory=lambda: [row(each) for each in GOOD])
    dead: list[bytes] = field(
        default_factory=lambda: [each.as_sent() for each in PLACED if is_malformed(each.id)]
    )
    totals: list[tuple[Window, Total]] = field(default_factory=lambda: [*expected(GOOD).items()])

    def judged(self, kafka: Cluster, report: Report = lambda records: None) -> Verdict:
        with ottla.Client(kafka.bootstrap) as client:
            for topic, values in ((ORDERS, self.orders), (ENRICHED, self.enriched), (DEAD, self.dead)):
                fill(client, topic, values)
            fill(client, REVENUE, [revenue(*each) for each in self.totals], partition=0)
        return check(kafka.bootstrap, NUMBERS, report)


def fill(client: ottla.Client, topic: str, values: Iterable[bytes], partition: int | None = None) -> None:
    for value in values:
        client.produce(topic, value, partition=partition)


def test_what_agrees_passes_and_of_a_window_the_last_total_counts(kafka: Cluster) -> None:
    right = expected(GOOD)
    early = [(window, Total(0, 0)) for window in right]
    verdict = Topics(totals=[*early, *right.items()]).judged(kafka)
    assert verdict == Verdict(len(PLACED), len(GOOD), 1, 0, 0, len(right), SUM)


def test_an_order_that_is_not_in_the_output_is_lost(kafka: Cluster) -> None:
    verdict = Topics(enriched=[row(each) for each in GOOD[1:]]).judged(kafka)
    assert (verdict.lost, verdict.duplicates) == (1, 0)
    assert verdict.problems == ("lost: 480",)


def test_an_order_that_is_there_twice_is_a_duplicate(kafka: Cluster) -> None:
    verdict = Topics(enriched=[row(each) for each in [*GOOD, GOOD[3]]]).judged(kafka)
    assert (verdict.lost, verdict.duplicates) == (0, 1)
    assert verdict.problems == ("too many: 483",)


def test_a_duplicate_does_not_make_up_for_a_loss(kafka: Cluster) -> None:
    verdict = Topics(enriched=[row(each) for each in [*GOOD[1:], GOOD[3]]]).judged(kafka)
    assert (verdict.lost, verdict.duplicates) == (1, 1)


@pytest.mark.parametrize(("times", "lost", "duplicates"), [(0, 1, 0), (2, 0, 1)])
def test_dead_letters_are_counted_as_well(kafka: Cluster, times: int, lost: int, duplicates: int) -> None:
    verdict = Topics(dead=times * Topics().dead).judged(kafka)
    assert (verdict.dead, verdict.lost, verdict.duplicates) == (times, lost, duplicates)
    assert verdict.problems


def test_an_order_that_was_lost_on_its_way_in_is_found(kafka: Cluster) -> None:
    arrived = GOOD[:-1]
    topics = Topics(
        orders=Topics().orders[:-1],
        enriched=[row(each) for each in arrived],
        totals=[*expected(arrived).items()],
    )
    verdict = topics.judged(kafka)
    assert (verdict.orders, verdict.lost, verdict.duplicates) == (49, 1, 0)
    assert verdict.problems == (
        "50 orders were acknowledged, 'orders' has 49, 49 different ones",
        "lost: 529",
    )


def test_an_order_that_came_in_twice_does_not_make_up_for_one_that_never_did(kafka: Cluster) -> None:
    """Whatever the pipelines make of both: their output agrees with their input."""
    arrived = [GOOD[0], *GOOD[:-1]]
    topics = Topics(
        orders=[each.as_sent() for each in [PLACED[0], *PLACED[:-1]]],
        enriched=[row(each) for each in arrived],
        totals=[*expected(arrived).items()],
    )
    verdict = topics.judged(kafka)
    assert (verdict.orders, verdict.lost, verdict.duplicates) == (50, 1, 1)
    assert verdict.problems == (
        "50 orders were acknowledged, 'orders' has 50, 49 different ones",
        "lost: 529",
        "too many: 480",
    )


def test_a_malformed_order_that_came_in_twice_is_found(kafka: Cluster) -> None:
    usual = Topics()
    verdict = Topics(orders=usual.orders[:-1] + usual.dead, dead=2 * usual.dead).judged(kafka)
    assert verdict.orders == len(PLACED)
    assert verdict.problems[0] == "50 orders were acknowledged, 'orders' has 50, 49 different ones"


def test_a_row_with_another_customers_name_is_found(kafka: Cluster) -> None:
    wrong = replace(GOOD[0], customer=(GOOD[0].customer + 1) % len(SHOP))
    verdict = Topics(enriched=[row(each) for each in [wrong, *GOOD[1:]]]).judged(kafka)
    (problem,) = verdict.problems
    assert problem.startswith("1 rows are wrong: order 480 became ")


def test_an_order_that_was_summed_twice_is_found(kafka: Cluster) -> None:
    verdict = Topics(totals=[*expected([*GOOD, GOOD[0]]).items()]).judged(kafka)
    (problem,) = verdict.problems
    assert problem.startswith("Window(start=480000, ")


def test_nothing_in_the_output_is_no_agreement(kafka: Cluster) -> None:
    verdict = Topics(enriched=[], dead=[], totals=[]).judged(kafka)
    assert verdict.lost == len(PLACED)
    assert verdict.problems


def test_what_is_not_committed_does_not_count(kafka: Cluster) -> None:
    with ottla.Client(kafka.bootstrap, transactional_id="another") as client:
        transaction = client.begin_transaction()
        client.produce(ENRICHED, row(GOOD[0]))
        client.flush()
        transaction.abort()
    assert Topics().judged(kafka).problems == ()


def test_what_is_committed_while_the_check_reads_counts(kafka: Cluster) -> None:
    """The topics before it are read by then: a commit may be answered, and its markers not yet be written."""
    with ottla.Client(kafka.bootstrap, transactional_id="late") as client:
        transaction = client.begin_transaction()
        client.produce(ENRICHED, row(GOOD[0]))
        client.flush()

        def commit(records: int) -> None:
            if not transaction.is_over:
                transaction.commit()

        topics = Topics(enriched=[row(each) for each in GOOD[1:]])
        assert topics.judged(kafka, commit).problems == ()


def test_a_transaction_that_does_not_end_proves_nothing(
    kafka: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    Topics().judged(kafka)
    monkeypatch.setattr("demo.check._MARKERS_S", 0.0)
    with ottla.Client(kafka.bootstrap, transactional_id="open") as client:
        transaction = client.begin_transaction()
        client.produce(DEAD, b"beyond it nothing can be read")
        client.flush()
        with pytest.raises(CheckError, match="a transaction in 'orders-dead' has not ended"):
            check(kafka.bootstrap, NUMBERS)
        transaction.abort()


def test_how_far_it_is_is_reported(kafka: Cluster) -> None:
    Topics().judged(kafka)
    reported: list[int] = []
    check(kafka.bootstrap, NUMBERS, reported.append)
    assert reported == sorted(reported)
    assert reported[-1] == len(PLACED) * 2 + len(expected(GOOD))


def test_windows_begin_at_whole_tens_of_seconds() -> None:
    country = SHOP[0].country
    orders = [Order(1, 0, 5, 9_999), Order(2, 0, 7, 10_000), Order(3, 0, 1, 19_999)]
    assert expected(orders) == {Window(0, country): Total(1, 5), Window(10_000, country): Total(2, 8)}


def test_of_many_differences_the_first_few_are_shown() -> None:
    wanted = {Window(start, "Kenya"): Total(1, 1) for start in range(20)}
    told = differences(wanted, {})
    assert len(told) == 6
    assert told[0].startswith("Window(start=0, country='Kenya'): nothing is in 'revenue'")
    assert told[-1] == "and 15 more"
