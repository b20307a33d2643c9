"""Manual: a record that names no partition is an error."""

from __future__ import annotations

import pytest

from ottla.client.partitioners import ColumnsMode, ManualPartitioner
from tests.client.partitioners.support import idle, topic_of


@pytest.mark.parametrize("key", [None, b"", b"key"])
def test_a_record_without_a_partition_is_an_error_that_says_what_to_do(key: bytes | None) -> None:
    with pytest.raises(
        ValueError, match=r"for topic 'orders' names no partition.* give the record its partition"
    ):
        topic_of(ManualPartitioner()).choose(key, b"value", 100, idle(3))


def test_columns_have_to_name_their_partitions() -> None:
    assert ManualPartitioner().columns_mode() is ColumnsMode.NAMED
