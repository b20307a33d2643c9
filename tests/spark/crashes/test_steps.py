"""A Python process of the sink is killed at every step, and the query started again: every row once.

One Spark for all of them; drivers that are killed as a whole, executors, and Apache Kafka are in
tests/interop/crashes (`make crash-matrix`).
"""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException

from tests.spark.crashes.conftest import Copying
from tests.spark.crashes.sink_on_broker import lose_a_decided_transaction, sink_id_in
from tests.spark.crashes.steps import STEPS


@pytest.mark.parametrize("step", list(STEPS))
def test_a_query_whose_process_was_killed_writes_every_row_once(copying: Copying, step: str) -> None:
    kill(copying, step)
    copying.put("3.txt", "d")
    copying.run()
    assert copying.written == [b"a", b"b", b"c", b"d"]


def test_the_complete_result_of_a_killed_batch_is_written_once(copying: Copying) -> None:
    counts = copying.lines.groupBy("value").count().selectExpr("concat(value, count) as value")
    copying.orders.give(STEPS["4-decided"])
    with pytest.raises(StreamingQueryException):
        copying.run(counts, mode="complete")
    copying.put("3.txt", "a")
    copying.run(counts, mode="complete")
    assert copying.written == [b"a1", b"a2", b"b1", b"b1", b"c1", b"c1"]


def test_a_batch_that_was_not_decided_may_run_again_with_more_tasks(copying: Copying) -> None:
    kill(copying, "4-checked")
    copying.run(copying.lines.repartition(5, "value"))
    assert copying.written == [b"a", b"b", b"c"]


def test_a_batch_that_was_decided_and_is_not_complete_has_to_have_the_tasks_that_it_had(
    copying: Copying,
) -> None:
    kill(copying, "4-decided")
    lose_a_decided_transaction(copying.kafka.bootstrap, sink_id_in(copying.checkpoint))
    with pytest.raises(
        StreamingQueryException, match=r"was decided with 2 tasks, .* and is run again with 5: "
    ):
        copying.run(copying.lines.repartition(5, "value"))
    copying.run()
    assert copying.written == [b"a", b"b", b"c"]


def kill(copying: Copying, step: str) -> None:
    copying.orders.give(STEPS[step])
    with pytest.raises(StreamingQueryException):
        copying.run()
    assert copying.orders.are_carried_out
