"""Readers of batches by themselves: their schema, what an Arrow stream makes of them, and the asynchronous one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow
import pytest

from ottla.client.consume.batch_readers import BatchReader, batch_schema
from ottla.errors import CorruptBatchError
from ottla.wire.records import decode_fetch, to_arrow
from tests.client.worlds import Body, World

Run = Callable[[Body], object]

EMPTY = to_arrow(decode_fetch(b"", "orders", 0))


def reader_of(*items: Any) -> BatchReader:
    """Gives these one by one, raising those that are errors."""
    left = list(items)

    def take() -> Any:
        item = left.pop(0) if left else None
        if isinstance(item, Exception):
            raise item
        return item

    return BatchReader(take, left.clear)


def test_an_error_in_the_stream_keeps_its_class_and_text_as_far_as_pyarrow_allows() -> None:
    error = CorruptBatchError("orders-0: the batch at offset 7 is damaged: ä")
    with pytest.raises(Exception, match="CorruptBatchError: orders-0: the batch at offset 7 is damaged: ä"):
        pyarrow.table(reader_of(EMPTY, error, EMPTY))
    with pytest.raises(CorruptBatchError):
        reader_of(error).read_all()


def test_notes_of_an_error_are_part_of_its_text() -> None:
    error = ValueError("what is wrong")
    error.add_note("and what else is to be known")
    with pytest.raises(Exception, match=r"what is wrong(.|\n)*and what else is to be known"):
        pyarrow.table(reader_of(error))


def test_a_reader_goes_on_after_an_error_and_behind_a_stream_that_was_left() -> None:
    reader = reader_of(EMPTY, ValueError("once"), EMPTY, EMPTY)
    with pytest.raises(Exception, match="once"):
        pyarrow.table(reader)
    assert pyarrow.table(reader).column(0).num_chunks == 2


def test_a_closed_reader_has_let_go() -> None:
    with reader_of(EMPTY, EMPTY) as reader:
        next(reader)
    assert list(reader) == []


def test_columns_can_be_asked_for_in_other_types() -> None:
    wanted = pyarrow.schema(
        [
            field.with_type(pyarrow.large_binary()) if field.name == "value" else field
            for field in batch_schema()
        ]
    )
    stream = pyarrow.RecordBatchReader.from_stream(reader_of(EMPTY), schema=wanted)
    assert stream.schema.field("value").type == pyarrow.large_binary()


def test_an_asynchronous_reader_has_a_schema_and_says_that_it_is_no_stream(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster, world.client(cluster) as kafka:
            cluster.seed("orders", [b"1", b"2"])
            reader = kafka.consume_batches("orders", stop="latest")
            assert reader.schema == pyarrow.schema(reader) == batch_schema()
            with pytest.raises(TypeError, match=r"async for batch in reader.*ottla\.Client"):
                pyarrow.table(reader)
            batches = [batch async for batch in reader]
            assert pyarrow.Table.from_batches(batches, reader.schema).num_rows == 2

    run(body)
