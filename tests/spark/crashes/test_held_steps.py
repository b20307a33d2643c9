"""A process of the sink stops between two steps, the world changes, and it goes on: every row once, all the same.

Brokers restart and coordinators move; another driver takes the sink over, or another query.
"""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException

import ottla.spark
from tests.interop.brokers import EmbeddedBroker
from tests.spark.crashes.conftest import Copying
from tests.spark.crashes.sink_on_broker import coordinator_of, move_coordinators, sink_id_in
from tests.spark.crashes.steps import STEPS

_FENCED = "another driver has taken over sink"


def test_a_broker_that_restarts_behind_the_decision_loses_nothing(copying: Copying) -> None:
    broker = EmbeddedBroker(copying.kafka)
    (only,) = broker.node_ids
    with copying.held(STEPS["4-decided"]) as query:
        broker.stop_node(only)
        copying.orders.let_go()
        broker.start_node(only)
        copying.finish(query)
    assert copying.written == [b"a", b"b", b"c"]


@pytest.mark.kafka_cluster(brokers=3)
@pytest.mark.parametrize("step", ["4-decision-sent", "5-one-ended"])
def test_coordinators_that_move_in_mid_commit_lose_nothing(copying: Copying, step: str) -> None:
    with copying.held(STEPS[step]) as query:
        move_coordinators(EmbeddedBroker(copying.kafka), sink_id_in(copying.checkpoint))
        copying.orders.let_go()
        copying.finish(query)
    assert copying.written == [b"a", b"b", b"c"]


@pytest.mark.kafka_cluster(brokers=3)
def test_a_coordinator_that_is_killed_behind_the_decision_loses_nothing(copying: Copying) -> None:
    broker = EmbeddedBroker(copying.kafka)
    with copying.held(STEPS["4-decided"]) as query:
        victim = coordinator_of(broker, sink_id_in(copying.checkpoint), "0")
        broker.kill_node(victim)
        copying.orders.let_go()
        broker.wait_until_fenced(victim)
        broker.start_node(victim)
        copying.finish(query)
    assert copying.written == [b"a", b"b", b"c"]


def test_a_driver_beside_a_new_one_is_fenced_and_says_so(copying: Copying) -> None:
    with copying.held(STEPS["4-checked"]) as query:
        # What `recover` does first is what a new driver does: it takes the sink over.
        ottla.spark.recover(copying.options, sink_id_in(copying.checkpoint), "finish")
        copying.orders.let_go()
        with pytest.raises(StreamingQueryException, match=_FENCED):
            copying.finish(query)
    copying.run()
    assert copying.written == [b"a", b"b", b"c"]


def test_the_second_query_of_a_sink_id_fences_the_first(copying: Copying) -> None:
    shared = {"ottla.sink.id": "shared"}
    with copying.held(STEPS["4-checked"], shared) as first:
        copying.run(options={**shared, "checkpointLocation": str(copying.folder / "another")})
        copying.orders.let_go()
        with pytest.raises(StreamingQueryException, match=_FENCED):
            copying.finish(first)
    with pytest.raises(StreamingQueryException, match="sink 'shared' was used by query"):
        copying.run(options=shared)
    assert copying.written == [b"a", b"b", b"c"]
