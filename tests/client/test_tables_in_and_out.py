"""Arrow tables in and out of the blocking client: from and to whoever speaks Arrow, in the caller's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow
import pytest

import ottla
from ottla.broker import Cluster
from ottla.client.consume.iterators import BatchReader
from ottla.errors import ClientClosedError, OffsetOutOfRangeError
from ottla.hooks import Hook

polars = pytest.importorskip("polars")

VALUES = [b"%d" % number for number in range(100)]
COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 1, "copies": 1, "empty": 1}) as cluster:
        yield cluster


@pytest.fixture
def kafka(cluster: Cluster) -> Iterator[ottla.Client]:
    with ottla.Client(cluster.bootstrap) as kafka:
        yield kafka


def stored(cluster: Cluster, topic: str) -> list[bytes | None]:
    return [record.value for record in cluster.dump(topic)]


# In


def tables() -> Iterator[pyarrow.Table]:
    for first in range(0, 100, 40):
        yield pyarrow.table({"value": VALUES[first : first + 40]})


def test_tables_of_a_generator_have_one_receipt(cluster: Cluster, kafka: ottla.Client) -> None:
    delivery = kafka.produce_batch("orders", tables()).result(timeout=30)
    assert (delivery.count, delivery.offsets()) == (100, {0: [(0, 99)]})
    assert stored(cluster, "orders") == VALUES


def test_several_topics_may_have_generators(cluster: Cluster, kafka: ottla.Client) -> None:
    receipts = kafka.produce_batches({"orders": tables(), "copies": next(tables())})
    assert {topic: receipt.result(timeout=30).count for topic, receipt in receipts.items()} == {
        "orders": 100,
        "copies": 40,
    }


def test_what_comes_from_a_consumer_of_the_same_client_can_be_produced(
    cluster: Cluster, kafka: ottla.Client
) -> None:
    """Read on the loop, it would wait for itself."""
    cluster.seed("orders", VALUES)
    read = kafka.consume_batches("orders", stop="latest")
    kafka.produce_batch("copies", (batch.select(["key", "value"]) for batch in read)).result(timeout=30)
    assert stored(cluster, "copies") == VALUES


class Lazy:
    """Exports a stream that reads from the client only when it is asked, in a thread of its own, as duckdb does."""

    def __init__(self, kafka: ottla.Client) -> None:
        self._kafka = kafka

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        batches = self._kafka.consume_batches("orders", stop="latest")
        with ThreadPoolExecutor(1) as pool:
            table = pool.submit(pyarrow.table, batches).result(timeout=30)
        stream: object = table.select(["value"]).__arrow_c_stream__(requested_schema)
        return stream


def test_a_stream_that_reads_from_the_same_client_can_be_produced(
    cluster: Cluster, kafka: ottla.Client
) -> None:
    cluster.seed("orders", VALUES)
    kafka.produce_batch("copies", Lazy(kafka)).result(timeout=30)
    assert stored(cluster, "copies") == VALUES


def test_a_generator_that_breaks_off_leaves_the_receipt_of_what_was_sent(
    cluster: Cluster, kafka: ottla.Client
) -> None:
    def broken() -> Iterator[pyarrow.Table]:
        yield from tables()
        raise LookupError("no more of them")

    with pytest.raises(
        ottla.PartlySentError, match=r"first 100 rows for orders .*: no more of them"
    ) as raised:
        kafka.produce_batch("orders", broken())
    assert raised.value.sent["orders"].result(timeout=30).count == 100
    assert stored(cluster, "orders") == VALUES

    with pytest.raises(ZeroDivisionError):
        kafka.produce_batch("orders", (pyarrow.table({"value": [b"%d" % (1 // 0)]}) for _ in range(2)))


def test_a_client_that_is_closed_takes_no_tables(kafka: ottla.Client) -> None:
    kafka.close()
    for table in (next(tables()), tables()):
        with pytest.raises(ClientClosedError):
            kafka.produce_batch("orders", table)


# Out


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda reader: polars.DataFrame(reader), id="polars.DataFrame"),
        # polars makes a column of structs of every stream that is not pyarrow's own.
        pytest.param(lambda reader: polars.from_arrow(reader).struct.unnest(), id="polars.from_arrow"),
        pytest.param(lambda reader: pyarrow.table(reader), id="pyarrow.table"),
        pytest.param(
            lambda reader: pyarrow.RecordBatchReader.from_stream(reader).read_all(),
            id="pyarrow.RecordBatchReader",
        ),
        pytest.param(
            lambda reader: pyarrow.Table.from_batches(reader, schema=reader.schema), id="pyarrow.from_batches"
        ),
        pytest.param(lambda reader: reader.read_all(), id="read_all"),
    ],
)
@pytest.mark.parametrize(("topic", "values"), [("orders", VALUES), ("empty", [])])
def test_whoever_takes_arrow_streams_takes_batches_as_they_are(
    cluster: Cluster, kafka: ottla.Client, read: Any, topic: str, values: list[bytes]
) -> None:
    cluster.seed(topic, values)
    table = read(kafka.consume_batches(topic, start="earliest", stop="latest"))
    assert list(table.columns if hasattr(table, "height") else table.column_names) == COLUMNS
    assert [bytes(value) for value in pyarrow.table(table)["value"].to_pylist()] == values


def test_the_schema_is_known_before_the_first_row_and_is_that_of_every_batch(
    cluster: Cluster, kafka: ottla.Client
) -> None:
    reader = kafka.consume_batches("orders", start="earliest")
    assert reader.schema.names == COLUMNS
    assert pyarrow.schema(reader) == reader.schema
    cluster.seed("orders", VALUES)
    assert next(reader).schema.equals(reader.schema, check_metadata=True)
    reader.close()


def test_a_reader_that_was_asked_for_its_schema_still_has_its_rows(
    cluster: Cluster, kafka: ottla.Client
) -> None:
    """Some ask for a stream twice: once to plan, once to read."""
    cluster.seed("orders", VALUES)
    reader = kafka.consume_batches("orders", stop="latest")
    first = pyarrow.RecordBatchReader.from_stream(reader)
    assert first.schema == reader.schema
    del first
    assert pyarrow.table(reader).num_rows == 100


def test_the_text_of_an_error_survives_the_stream(cluster: Cluster) -> None:
    cluster.seed("orders", VALUES)
    beyond = {ottla.TopicPartition("orders", 0): 500}
    with ottla.Client(cluster.bootstrap, auto_offset_reset="none") as kafka:
        with pytest.raises(OffsetOutOfRangeError) as direct:
            next(kafka.consume_batches(beyond))
        with pytest.raises((OSError, ValueError)) as through:
            pyarrow.table(kafka.consume_batches(beyond))
        assert str(direct.value) in str(through.value)
        assert "OffsetOutOfRangeError" in str(through.value)


def test_it_goes_on_after_an_error_and_ends_for_good(cluster: Cluster, kafka: ottla.Client) -> None:
    cluster.seed("orders", VALUES)
    reader = kafka.consume_batches("orders", stop="latest")
    assert sum(batch.num_rows for batch in reader) == 100
    with pytest.raises(StopIteration):
        next(reader)
    assert pyarrow.table(reader).num_rows == 0


class Sessions(Hook):
    """Knows when the last session of the client has ended."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def on_session_stopped(self) -> None:
        self.ended.set()


def closes(reader: BatchReader) -> None:
    next(reader)
    reader.close()
    reader.close()
    with pytest.raises(ClientClosedError):
        next(reader)


def leaves_its_with(reader: BatchReader) -> None:
    with reader:
        next(reader)


def leaves_a_loop(reader: BatchReader) -> None:
    for _ in reader:
        break


def lets_a_stream_go(reader: BatchReader) -> None:
    stream = pyarrow.RecordBatchReader.from_stream(reader)
    stream.read_next_batch()


@pytest.mark.parametrize("read", [closes, leaves_its_with, leaves_a_loop, lets_a_stream_go])
def test_closing_leaving_and_letting_go_release_the_consumer(
    cluster: Cluster, read: Callable[[BatchReader], None]
) -> None:
    cluster.seed("orders", VALUES)
    sessions = Sessions()
    with ottla.Client(cluster.bootstrap, hooks=[sessions]) as kafka:
        read(kafka.consume_batches("orders", start="earliest"))
        assert sessions.ended.wait(30)


def test_a_consumer_and_its_batches_share_the_position(cluster: Cluster, kafka: ottla.Client) -> None:
    cluster.seed("orders", VALUES)
    with kafka.consume("orders", start="earliest", stop="latest") as consumer:
        assert consumer.poll(max_records=10, timeout=30)[-1].offset == 9
        assert pyarrow.table(consumer.batches())["offset"].to_pylist() == list(range(10, 100))
