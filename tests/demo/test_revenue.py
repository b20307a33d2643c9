"""The revenue that the screen shows: the newest total of each window, by country."""

from __future__ import annotations

import ottla
from demo.orders import REVENUE, Total, Window
from demo.revenue import by_country, reading
from ottla.broker import Cluster
from tests.interop.waiting import eventually


def test_windows_of_a_country_are_added_up() -> None:
    totals = {
        Window(0, "Kenya"): Total(30, 12_345),
        Window(10_000, "Kenya"): Total(20, 155),
        Window(0, "Italy"): Total(10, 100),
    }
    assert by_country(totals) == {"Italy": 100, "Kenya": 12_500}


def test_of_a_window_the_newest_total_counts(kafka: Cluster) -> None:
    kafka.create_topic(REVENUE)
    with reading(kafka.bootstrap) as reader, ottla.Client(kafka.bootstrap) as client:
        for cents in (100, 250):
            row = b'{"country":"Kenya","start":"1970-01-01T00:00:10Z","orders":1,"cents":%d}' % cents
            client.produce(REVENUE, row, key=b"Kenya").result(30)
        eventually(lambda: reader.by_country() == {"Kenya": 250}, "the newest total")
