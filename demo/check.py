"""The last word, by another project's client: does what came out agree with what went in?

confluent-kafka reads both topics from their beginnings. Orders must be those that the producer says it has sent;
every total must be what the orders add up to, and none may be missing or too many.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from demo.orders import CUSTOMERS, ORDERS, REVENUE, WINDOW_MS, Order, Total, Window, revenue_from_json

_TIMEOUT_S = 30.0
# How long `consume` waits for a chunk to be full.
_POLL_S = 0.2
_CHUNK = 10_000
_SHOWN = 5


@dataclass(frozen=True)
class Verdict:
    """What was found; no problems means that everything agrees."""

    orders: int
    cents: int
    totals: int
    problems: list[str]


def check(bootstrap: str, orders: int, cents: int) -> Verdict:
    """Compares the topics with each other, and with what the producer has sent."""
    due = expected(Order.from_json(value) for value in read(bootstrap, ORDERS))
    found = dict(revenue_from_json(value) for value in read(bootstrap, REVENUE))
    stored = Total(sum(total.orders for total in due.values()), sum(total.cents for total in due.values()))
    problems = []
    if stored != Total(orders, cents):
        problems.append(f"{orders:,} orders of {cents:,} cents were produced, {ORDERS!r} has {stored}")
    return Verdict(stored.orders, stored.cents, len(found), problems + differences(due, found))


def expected(orders: Iterator[Order]) -> dict[Window, Total]:
    """What Spark should have found."""
    countries = {number: country for number, _, country in CUSTOMERS}
    totals: dict[Window, Total] = {}
    for order in orders:
        window = Window(order.at - order.at % WINDOW_MS, countries[order.customer])
        totals[window] = totals.get(window, Total(0, 0)).plus(order.cents)
    return totals


def differences(due: dict[Window, Total], found: dict[Window, Total]) -> list[str]:
    wrong = [window for window in sorted(due | found) if due.get(window) != found.get(window)]
    shown = [
        f"{window}: {found.get(window, 'nothing')} is in {REVENUE!r}, the orders come to "
        f"{due.get(window, 'nothing')}"
        for window in wrong[:_SHOWN]
    ]
    return shown + ([f"and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else [])


def read(bootstrap: str, topic: str) -> Iterator[bytes]:
    """Every value of the topic that is committed, in the order of its partitions' offsets."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "check",
        "enable.auto.commit": False,
        # Spark writes in transactions, whose marks take offsets: the last offset of a partition may be no record's.
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    consumer = Consumer(settings)
    try:
        left = set(consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in left])
        deadline = time.monotonic() + _TIMEOUT_S
        while left:
            messages = consumer.consume(_CHUNK, timeout=_POLL_S)
            if messages:
                deadline = time.monotonic() + _TIMEOUT_S
            elif time.monotonic() > deadline:
                raise TimeoutError(
                    f"{topic!r} gave nothing for {_TIMEOUT_S:.0f} s, with partitions {sorted(left)} still to come"
                )
            for message in messages:
                error, value, partition = message.error(), message.value(), message.partition()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    left.discard(partition)
                elif error is not None or value is None:
                    raise RuntimeError(f"{topic!r}: a message without a value: {error}")
                else:
                    yield value
    finally:
        consumer.close()
