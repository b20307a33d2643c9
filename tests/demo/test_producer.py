"""The producer sends each order once and says what they come to."""

from __future__ import annotations

import ottla
from demo.orders import ORDERS, Order
from demo.producer import place
from ottla.broker import Cluster


def test_every_order_is_sent_once_and_the_sum_is_theirs(kafka: Cluster) -> None:
    with ottla.Client(kafka.bootstrap) as client:
        cents = place(client, count=2_500, rate=20_000)
    sent = [Order.from_json(record.value or b"") for record in kafka.dump(ORDERS)]
    assert sorted(each.id for each in sent) == list(range(2_500))
    assert sum(each.cents for each in sent) == cents
