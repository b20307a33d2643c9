"""What fetched bytes say before they are decoded, and what decoding does with damage."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.consume.partition_records import PartitionRecords, walk_headers
from ottla.client.topic_partition import TopicPartition
from ottla.errors import CorruptBatchError
from ottla.wire.batches import PlainRecord, encode_batch


def stored(base: int, *values: bytes, epoch: int = 4, **options: Any) -> bytes:
    records: list[PlainRecord] = [
        (base + number, 1_700_000_000_000, None, value, []) for number, value in enumerate(values)
    ]
    return encode_batch(records, base_offset=base, leader_epoch=epoch, **options)


def fetched(data: bytes, offset: int = 0, epoch_before: int = -1) -> PartitionRecords:
    behind, epoch, _, _ = walk_headers(data)
    return PartitionRecords(
        TopicPartition("orders", 0),
        data,
        offset=offset,
        next_offset=behind,
        epoch_before=epoch_before,
        generation=0,
        position=offset,
        end=behind,
        epoch=epoch,
    )


def test_the_headers_tell_where_the_next_fetch_begins() -> None:
    data = stored(0, b"a", b"b") + stored(10, b"c", epoch=5)
    assert walk_headers(data) == (11, 5, 3, len(data))


def test_a_batch_that_is_cut_off_does_not_count() -> None:
    first = stored(0, b"a", b"b")
    assert walk_headers(first + stored(2, b"c")[:-1])[:3] == (2, 4, 2)
    assert walk_headers(first[:-1]).next_offset == -1
    assert walk_headers(b"").next_offset == -1


def test_what_lies_behind_the_stop_is_not_wanted_and_the_stop_is_reached_where_nothing_is_before_it() -> None:
    first, last = stored(0, b"a", b"b"), stored(10, b"c", b"d")
    assert walk_headers(first + last, 11) == (12, 4, 4, len(first + last))
    assert walk_headers(first + last, 10) == (10, 4, 2, len(first))
    assert walk_headers(first + last, 5) == (5, 4, 2, len(first))
    assert walk_headers(last, 5) == (5, -1, 0, 0)


def test_an_offset_comes_with_the_epoch_of_the_batch_before_it() -> None:
    part = fetched(stored(2, b"a", b"b") + stored(4, b"c") + stored(9, b"d", epoch=6), 2, epoch_before=3)
    assert [part.at(offset).leader_epoch for offset in (2, 3, 4, 5, 9, 10)] == [3, 4, 4, 4, 4, 6]
    same = fetched(stored(2, b"a", b"b") + stored(4, b"c"), 2, epoch_before=4)
    assert [same.at(offset).leader_epoch for offset in (2, 4, 5)] == [4, 4, 4]


def test_records_end_before_a_damaged_batch_which_raises_when_it_is_the_first() -> None:
    start = len(stored(0, b"a"))
    damaged = bytearray(stored(0, b"a") + stored(1, b"b", b"c") + stored(3, b"d"))
    damaged[start + 65] ^= 1
    records = fetched(bytes(damaged)).decode(0)
    assert [record.value for record in records] == [b"a"]
    assert records.next_offset == 1
    with pytest.raises(CorruptBatchError, match=r"orders, partition 0.*offset 1") as caught:
        fetched(bytes(damaged[start:]), 1).decode(1)
    assert (caught.value.offset, caught.value.next_offset) == (1, 3)


def test_more_than_may_be_decompressed_is_an_error_and_no_loop() -> None:
    part = fetched(stored(0, b"x" * 10_000, codec=4))
    with pytest.raises(CorruptBatchError):
        part.decode(0, max_decompressed=100)
