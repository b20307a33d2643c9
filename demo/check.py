"""The proof, by another project's client: what has come out of what went in?

confluent-kafka reads all topics from their beginnings, committed records only. Every order that was placed must be in
`orders` once, and in `enriched` once, with its customer's name and country, or among the dead letters once, if it was
cut off; every window of revenue must be what the orders in it come to, and none may be missing or too many.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from demo.frame import Verdict
from demo.orders import (
    DEAD,
    ENRICHED,
    ORDERS,
    REVENUE,
    SHOP,
    Order,
    Total,
    Window,
    is_malformed,
    revenue_from_json,
)

_TIMEOUT_S: Final = 30.0
_MARKERS_S: Final = 30.0
_POLL_S: Final = 0.2
"""How long `consume` waits for a chunk to be full."""
_CHUNK: Final = 5_000
_SHOWN: Final = 5

Report = Callable[[int], None]


class CheckError(RuntimeError):
    """What is in the topics cannot be told: nothing is proved."""


def check(bootstrap: str, placed: Collection[int], report: Report = lambda records: None) -> Verdict:
    """Compares the topics with each other, and with the numbers of the orders that the producer has sent."""
    try:
        return _judge(_Reader(bootstrap, report), placed)
    except KafkaException as error:
        raise CheckError(f"check: {error}") from error


def _judge(reader: _Reader, placed: Collection[int]) -> Verdict:
    orders, malformed = sort_out(reader.read(ORDERS))
    enriched = list(reader.read(ENRICHED))
    dead = Counter(reader.read(DEAD))
    found = dict(revenue_from_json(value) for value in reader.read(REVENUE))

    due = Counter(number for number in placed if not is_malformed(number))
    came_in, ids = (
        Counter(order.id for order in orders),
        Counter(json.loads(value)["id"] for value in enriched),
    )
    lost = [*(due - ids).elements(), *(malformed - dead).elements()]
    extra = [*(ids - due).elements(), *(dead - malformed).elements()]
    went_in = len(orders) + malformed.total()
    problems = []
    # Each of those that are cut off has another number, and so another text.
    if came_in != due or len(malformed) != malformed.total() or went_in != len(placed):
        different = len(came_in) + len(malformed)
        problems.append(
            f"{len(placed):,} orders were acknowledged, {ORDERS!r} has {went_in:,}, {different:,} different ones"
        )
    if lost:
        problems.append(f"lost: {_some(lost)}")
    if extra:
        problems.append(f"too many: {_some(extra)}")
    problems += wrong_rows(orders, enriched)
    problems += differences(expected(orders), found)
    return Verdict(
        orders=went_in,
        enriched=len(enriched),
        dead=dead.total(),
        lost=len(lost),
        duplicates=len(extra),
        totals=len(found),
        cents=sum(total.cents for total in found.values()),
        problems=tuple(problems),
    )


def sort_out(values: Iterable[bytes]) -> tuple[list[Order], Counter[bytes]]:
    """The orders, and those that are cut off."""
    orders: list[Order] = []
    malformed: Counter[bytes] = Counter()
    for value in values:
        try:
            orders.append(Order.from_json(value))
        except ValueError:
            malformed[value] += 1
    return orders, malformed


def wrong_rows(orders: Iterable[Order], enriched: Iterable[bytes]) -> list[str]:
    """The enriched rows that are not what their orders should have become."""
    by_id = {order.id: order for order in orders}
    wrong = []
    for value in enriched:
        row: dict[str, Any] = json.loads(value)
        order = by_id.get(row["id"])
        if order is not None and not _is_of(row, order):
            wrong.append(f"order {order.id} became {value.decode()}")
    return [f"{len(wrong):,} rows are wrong: {'; '.join(wrong[:_SHOWN])}"] if wrong else []


def _is_of(row: dict[str, Any], order: Order) -> bool:
    customer = SHOP[order.customer]
    due = {
        "id": order.id,
        "customer": order.customer,
        "name": customer.name,
        "country": customer.country,
        "cents": order.cents,
    }
    return due == {name: row.get(name) for name in due}


def expected(orders: Iterable[Order]) -> dict[Window, Total]:
    """What Spark should have found."""
    totals: dict[Window, Total] = {}
    for order in orders:
        window = Window.of(order)
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


def _some(items: Sequence[object]) -> str:
    more = f" and {len(items) - _SHOWN:,} more" if len(items) > _SHOWN else ""
    return ", ".join(map(str, items[:_SHOWN])) + more


class _Reader:
    """Reads topics to their ends, and reports how many records there were so far."""

    def __init__(self, bootstrap: str, report: Report) -> None:
        self._report = report
        self._count = 0
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "check",
            "enable.auto.commit": False,
            # Spark writes in transactions, whose markers take offsets: the last of a partition may be no record's.
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            # It would be written across the screen.
            "log_level": 0,
        }

    def read(self, topic: str) -> Iterator[bytes]:
        """Every value of the topic that is committed, in the order of its partitions' offsets."""
        consumer = Consumer(self._settings)
        try:
            left = set(consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions)
            self._wait_for_markers(consumer, topic, left)
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in left])
            deadline = time.monotonic() + _TIMEOUT_S
            while left:
                messages = consumer.consume(_CHUNK, timeout=_POLL_S)
                if messages:
                    deadline = time.monotonic() + _TIMEOUT_S
                elif time.monotonic() > deadline:
                    raise CheckError(
                        f"check: {topic!r} has not ended after {_TIMEOUT_S:.0f} s without a record"
                    )
                for message in messages:
                    error, value, partition = message.error(), message.value(), message.partition()
                    if error is not None and error.code() == KafkaError._PARTITION_EOF:
                        left.discard(partition)
                    elif error is not None or value is None:
                        raise CheckError(f"check: {topic!r} has a message without a value: {error}")
                    else:
                        self._count += 1
                        yield value
                self._report(self._count)
        finally:
            consumer.close()

    def _wait_for_markers(self, consumer: Consumer, topic: str, partitions: Iterable[int]) -> None:
        """A commit is answered before its markers are written: until then its records are beyond what can be read."""
        whole = Consumer({**self._settings, "isolation.level": "read_uncommitted"})
        try:
            deadline = time.monotonic() + _MARKERS_S
            for place in (TopicPartition(topic, number) for number in partitions):
                while _end(consumer, place) < _end(whole, place):
                    if time.monotonic() > deadline:
                        raise CheckError(f"check: a transaction in {topic!r} has not ended")
                    time.sleep(_POLL_S)
        finally:
            whole.close()


def _end(consumer: Consumer, place: TopicPartition) -> int:
    """Where the partition ends for the isolation level of this consumer."""
    _, end = consumer.get_watermark_offsets(place, timeout=_TIMEOUT_S, cached=False)
    return end
