"""A function as a partitioner: it is asked for each record, and its answer is checked."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.partitioners import ColumnsMode, FunctionPartitioner
from tests.client.partitioners.support import FixedLoad, idle, topic_of


class Index:
    """An integer of another library, as numpy's."""

    def __index__(self) -> int:
        return 2


def answering(answer: Any) -> FunctionPartitioner:
    def by_region(topic: str, key: bytes | None, value: bytes | None, partitions: int) -> Any:
        return answer

    return FunctionPartitioner(by_region)


def test_it_is_given_topic_key_value_and_the_number_of_partitions() -> None:
    asked: list[object] = []

    def function(topic: str, key: bytes | None, value: bytes | None, partitions: int) -> int:
        asked.append((topic, key, value, partitions))
        return partitions - 1

    topic = topic_of(FunctionPartitioner(function))
    assert topic.choose(b"k", b"v", 100, idle(3)) == 2
    assert topic.choose(None, None, 100, FixedLoad(5, available=(0,))) == 4
    assert asked == [("orders", b"k", b"v", 3), ("orders", None, None, 5)]


@pytest.mark.parametrize("answer", [-1, 3, 2**40])
def test_a_partition_that_is_not_there_is_an_error_that_names_the_function(answer: int) -> None:
    expected = rf"by_region chose partition {answer} of topic 'orders', which has partitions 0 to 2"
    with pytest.raises(ValueError, match=expected):
        topic_of(answering(answer)).choose(b"k", b"v", 100, idle(3))


@pytest.mark.parametrize("answer", [None, "1", 1.0])
def test_what_is_no_integer_is_an_error_that_shows_it(answer: object) -> None:
    with pytest.raises(TypeError, match=rf"by_region returned {answer!r} for topic 'orders', not an int"):
        topic_of(answering(answer)).choose(b"k", b"v", 100, idle(3))


def test_integers_of_other_libraries_will_do() -> None:
    partition = topic_of(answering(Index())).choose(b"k", b"v", 100, idle(3))
    assert partition == 2
    assert type(partition) is int


def test_what_the_function_raises_is_not_hidden() -> None:
    def broken(topic: str, key: bytes | None, value: bytes | None, partitions: int) -> int:
        raise LookupError("no such region")

    with pytest.raises(LookupError, match="no such region"):
        topic_of(FunctionPartitioner(broken)).choose(b"k", b"v", 100, idle(3))


def test_columns_are_placed_row_by_row() -> None:
    assert answering(0).columns_mode() is ColumnsMode.BY_ROW
