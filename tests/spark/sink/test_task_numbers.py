"""Which task this is: by what Spark says in the worker, compared with what the driver knows."""

from __future__ import annotations

import pytest

from ottla.spark.options.parsing import OptionError
from ottla.spark.sink.exactly_once.errors import SinkError
from ottla.spark.sink.task_numbers import number_in_stream
from ottla.spark.sink.transactional import TaskNumber
from tests.spark.sink.tasks import BATCH_ID, QUERY_ID, running_task

TOLD = {BATCH_ID: "7", QUERY_ID: "q"}


def test_it_is_the_partition_of_a_batch_of_a_query() -> None:
    with running_task(3, TOLD):
        assert number_in_stream(None) == number_in_stream("q", 7) == TaskNumber("q", 7, 3)


def test_where_spark_does_not_say_it_the_driver_may() -> None:
    with running_task(0, {}):
        assert number_in_stream("q", 7) == TaskNumber("q", 7, 0)
        for known in ((None, None), ("q", None), (None, 7)):
            with pytest.raises(SinkError, match="does not say of which query and micro-batch"):
                number_in_stream(*known)


def test_two_that_disagree_are_an_error() -> None:
    with running_task(0, TOLD):
        with pytest.raises(SinkError, match="belongs to query other, and this task to query q"):
            number_in_stream("other")
        with pytest.raises(SinkError, match="called with batch id 8 in micro-batch 7"):
            number_in_stream("q", 8)


def test_outside_of_a_task_there_is_no_number() -> None:
    with pytest.raises(SinkError, match="this is none"):
        number_in_stream("q", 7)


def test_a_task_that_may_have_a_twin_is_refused() -> None:
    refusal = pytest.raises(OptionError, match=r"Set spark\.speculation to false, or ottla\.delivery to")
    with running_task(0, {**TOLD, "spark.speculation": "TRUE"}), refusal:
        number_in_stream("q", 7)
    with running_task(0, {**TOLD, "spark.speculation": "false"}):
        number_in_stream("q", 7)
