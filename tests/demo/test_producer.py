"""The producer sends each order once, and says how many are stored."""

from __future__ import annotations

import ottla
from demo.orders import ORDERS, Order, is_malformed
from demo.producer import place
from ottla.broker import Cluster


def test_every_order_is_sent_once_and_some_are_malformed(kafka: Cluster) -> None:
    reported: list[tuple[int, int]] = []
    with ottla.Client(kafka.bootstrap) as client:
        malformed = place(client, 2_500, 20_000, lambda sent, acked: reported.append((sent, acked)))
    values = [record.value or b"" for record in kafka.dump(ORDERS)]
    sent = [Order.from_json(value).id for value in values if value.endswith(b"}")]
    assert sorted(sent) == [number for number in range(2_500) if not is_malformed(number)]
    assert len(values) - len(sent) == malformed == 5
    assert reported[-1] == (2_500, 2_500)
    assert all(acked <= sent for sent, acked in reported)
    assert reported == sorted(reported)
