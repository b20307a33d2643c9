"""An iterator that goes on where a generator would be over, and readers of batches by themselves.

Of these: their schema, what an Arrow stream makes of them, and the asynchronous one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import pyarrow
import pytest

from ottla.client.consume.iterators import BatchReader, RestartingIterator, batch_schema
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


class Numbers:
    """Gives numbers; raises errors that are among them, waits at None."""

    def __init__(self, *given: int | Exception | None) -> None:
        self.left = deque(given)
        self.closed = 0

    async def each(self, ended: Callable[[], None]) -> AsyncGenerator[int, None]:
        try:
            while self.left:
                item = self.left.popleft()
                if isinstance(item, Exception):
                    raise item
                if item is None:
                    await asyncio.get_running_loop().create_future()
                else:
                    yield item
        finally:
            self.closed += 1
            ended()


def test_goes_on_after_errors_and_cancelled_waits_and_ends_at_the_end() -> None:
    async def body() -> None:
        numbers = RestartingIterator(Numbers(1, ValueError("no number"), 2, None, 3).each)
        assert await anext(numbers) == 1
        with pytest.raises(ValueError, match="no number"):
            await anext(numbers)
        assert await anext(numbers) == 2
        waiting = asyncio.ensure_future(anext(numbers))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert [number async for number in numbers] == [3]
        assert [number async for number in numbers] == []

    asyncio.run(body())


def test_closing_closes_the_generator() -> None:
    async def body() -> None:
        source = Numbers(1, 2)
        async with aclosing(RestartingIterator(source.each)) as numbers:
            assert await anext(numbers) == 1
        assert source.closed == 1

    asyncio.run(body())
