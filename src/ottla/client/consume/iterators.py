"""What a program iterates over: records that go on after an error, and Arrow batches.

`RestartingIterator` outlives what ends a generator. A generator is over once something was raised in it: an error, or
the cancellation of a wait, as by `asyncio.wait_for(anext(records), 1)`. The next `anext` would say that there is
nothing more, although there is.

The readers of batches are what `consume_batches` gives, with a schema that is known before the first row:

    polars.DataFrame(kafka.consume_batches("orders", stop="latest"))

`BatchReader`, of the blocking client, is an Arrow stream: polars, duckdb, pyarrow and other libraries that take such
a stream take it as it is. `AsyncBatchReader` cannot be one: a stream is read by a call that returns when there is a
batch, and nothing else of the loop would run meanwhile.

Invariant: every batch has the schema of its reader.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar

from ottla import _extras
from ottla.wire.records import decode_fetch, to_arrow

if TYPE_CHECKING:
    import pyarrow

_T = TypeVar("_T")


class RestartingIterator(Generic[_T]):
    """Begins a new generator where the last one has ended, and ends itself only with one that gives nothing."""

    # A slot in place of a method: what `async for` calls for each record is the generator's own function, and no
    # frame of ours is between them (100 ns).
    __slots__ = ("__anext__", "__weakref__", "_begin", "_generator")

    __anext__: Any  # a function that gives an Awaitable[_T]

    def __init__(self, begin: Callable[[Callable[[], None]], AsyncGenerator[_T, None]]) -> None:
        """`begin(ended)` makes a generator that goes on where the one before it was, and calls `ended` at its end."""
        self._begin = begin
        self._renew()

    def _renew(self) -> None:
        # Weak, so that a loop that is left lets go of its generator at once.
        myself = weakref.ref(self)

        def ended() -> None:
            if (iterator := myself()) is not None:
                iterator._renew()

        self._generator = self._begin(ended)
        self.__anext__ = self._generator.__anext__

    def __aiter__(self) -> RestartingIterator[_T]:
        return self

    async def aclose(self) -> None:
        """For contextlib.aclosing."""
        await self._generator.aclose()


@cache
def batch_schema() -> pyarrow.Schema:
    """That of every batch: the columns of no records."""
    return to_arrow(decode_fetch(b"", "", 0)).schema


class BatchReader:
    """An iterator of `pyarrow.RecordBatch`, and an Arrow stream (`__arrow_c_stream__`).

    Like its consumer it is for one thread at a time, and goes on after an error. It ends at the `stop` of the
    consumer; without one a stream never does.
    """

    def __init__(self, take: Callable[[], pyarrow.RecordBatch | None], close: Callable[[], object]) -> None:
        """`take()` waits for the next batch; None at the end."""
        self._take = take
        self._close = close

    @property
    def schema(self) -> pyarrow.Schema:
        """Of every batch."""
        return batch_schema()

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        return self

    def __next__(self) -> pyarrow.RecordBatch:
        batch = self._take()
        if batch is None:
            raise StopIteration
        return batch

    def read_all(self) -> pyarrow.Table:
        """What is left up to the `stop`, as one table."""
        arrow = _extras.require("pyarrow", extra="columns", purpose="reading into Arrow columns")
        table: pyarrow.Table = arrow.Table.from_batches(self, schema=self.schema)
        return table

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The batches that are left. Another stream goes on where the last was left."""
        arrow = _extras.require("pyarrow", extra="columns", purpose="reading into Arrow columns")
        reader = arrow.RecordBatchReader.from_batches(self.schema, self)
        stream: object = reader.__arrow_c_stream__(requested_schema)
        return stream

    def close(self) -> None:
        """Closes the consumer whose batches these are."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncBatchReader(RestartingIterator["pyarrow.RecordBatch"]):
    """An asynchronous iterator of `pyarrow.RecordBatch`."""

    __slots__ = ()

    @property
    def schema(self) -> pyarrow.Schema:
        """Of every batch."""
        return batch_schema()

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> NoReturn:
        raise TypeError(
            "an asynchronous reader is no Arrow stream, which would keep the loop from running: collect the batches "
            "with [batch async for batch in reader] and pass pyarrow.Table.from_batches(batches, reader.schema), or "
            "read with ottla.Client"
        )
