"""The option `partitioner`: a name, a function, or a partitioner."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.partitioners import (
    DefaultPartitioner,
    FunctionPartitioner,
    Partitioner,
    as_partitioner,
    names,
)


@pytest.mark.parametrize("name", names.NAMES)
def test_each_name_stands_for_a_partitioner(name: str) -> None:
    assert isinstance(as_partitioner(name), Partitioner)
    assert type(as_partitioner(name)).__name__.lower() == name.replace("_", "") + "partitioner"


def test_a_partitioner_stands_for_itself() -> None:
    partitioner = DefaultPartitioner(ignore_keys=True)
    assert as_partitioner(partitioner) is partitioner


def test_a_function_becomes_a_partitioner() -> None:
    def function(topic: str, key: bytes | None, value: bytes | None, partitions: int) -> int:
        return 0

    assert as_partitioner(function) == FunctionPartitioner(function)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no partitioner 'murmur3'.*default, hash, consistent_random"):
        as_partitioner("murmur3")


def test_anything_else_is_no_partitioner() -> None:
    nothing: Any = 7
    with pytest.raises(TypeError, match="not int"):
        as_partitioner(nothing)
