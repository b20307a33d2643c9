"""The demo's pipelines are valid, and use the topics that the demo makes."""

from __future__ import annotations

from demo.orders import CUSTOMERS, DEAD, ENRICHED, ORDERS, PIPELINES, REVENUE, TOPICS
from demo.screen import sql
from ottla.spark.pipeline.model import Pipeline


def test_the_pipelines_go_from_orders_to_revenue() -> None:
    enrich, revenue = (Pipeline.from_file(path) for path in PIPELINES)
    assert enrich.sources["orders"].topics == (ORDERS,)
    assert enrich.sources["orders"].dead_letter == DEAD
    assert enrich.sources["customers"].topics == (CUSTOMERS,)
    assert enrich.sources["customers"].table
    assert [sink.topic for sink in enrich.sinks.values()] == [ENRICHED]
    assert revenue.sources["enriched"].topics == (ENRICHED,)
    assert [sink.topic for sink in revenue.sinks.values()] == [REVENUE]
    assert {ORDERS, CUSTOMERS, ENRICHED, DEAD, REVENUE} == set(TOPICS)


def test_both_write_exactly_once() -> None:
    for path in PIPELINES:
        assert Pipeline.from_file(path).delivery == "exactly-once"


def test_the_sql_that_is_shown_is_that_of_the_file() -> None:
    for path in PIPELINES:
        assert sql(path) == str(Pipeline.from_file(path).transform).strip()
