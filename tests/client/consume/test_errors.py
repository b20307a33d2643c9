"""What a consumer does about an error, and what its own errors say."""

from __future__ import annotations

import pytest

from ottla.client.consume.errors import (
    Remedy,
    another_topic,
    no_whole_batch,
    out_of_range,
    remedy_for,
    truncated,
)
from ottla.client.topic_partition import TopicPartition
from ottla.errors import KafkaError, RequestTimeoutError, from_code

ORDERS = TopicPartition("orders", 3)


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (1, Remedy.RESET),
        (2, Remedy.RAISE),
        (6, Remedy.REFRESH),
        (29, Remedy.RAISE),
        (56, Remedy.REFRESH),
        (100, Remedy.REFRESH),
        (7, Remedy.RETRY),
    ],
)
def test_a_code_has_its_remedy(code: int, remedy: Remedy) -> None:
    error = from_code(code)
    assert error is not None
    assert remedy_for(error) is remedy


def test_what_is_no_brokers_error_is_tried_again() -> None:
    assert remedy_for(RequestTimeoutError("late")) is Remedy.RETRY
    assert remedy_for(KafkaError("odd")) is Remedy.RETRY


def test_errors_say_where_and_what_to_do() -> None:
    assert "Offset 9 is gone: there are 2 to 7. Seek" in str(out_of_range(ORDERS, "offset 9 is gone", 2, 7))
    batch = no_whole_batch(ORDERS, 4, 100)
    assert (batch.offset, batch.next_offset) == (4, 5)
    assert "raise max_partition_fetch_bytes" in str(batch)
    lost = truncated(ORDERS, 10, 4, resets=True)
    assert (lost.wanted_offset, lost.new_offset) == (10, 4)
    assert str(lost).endswith("reading goes on at 4")
    assert "seek to go on" in str(truncated(ORDERS, 10, 4, resets=False))
    other = another_topic(ORDERS, 10, "it is not read")
    assert (other.topic, other.partition, other.wanted_offset, other.new_offset) == ("orders", 3, 10, -1)
