"""`kafka.partitioner.class`: Java's classes and the client's own names."""

from __future__ import annotations

import pytest

from ottla.spark.option_values import OptionError
from ottla.spark.partitioner_option import partitioner


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("org.apache.kafka.clients.producer.RoundRobinPartitioner", "round_robin"),
        ("org.apache.kafka.clients.producer.internals.DefaultPartitioner", "default"),
        ("round_robin", "round_robin"),
        ("least_backup", "least_backup"),
        ("", "default"),
    ],
)
def test_names_stand_for_partitioners(given: str, name: str) -> None:
    assert partitioner({"partitioner.class": given}) == name


def test_without_the_option_it_is_the_default() -> None:
    assert partitioner({}) == "default"


@pytest.mark.parametrize("given", ["com.example.MyPartitioner", "consistent_random"])
def test_what_cannot_be_done_by_columns_is_refused_with_what_can(given: str) -> None:
    with pytest.raises(OptionError, match=rf"{given}.*round_robin.*column 'partition'"):
        partitioner({"partitioner.class": given})
