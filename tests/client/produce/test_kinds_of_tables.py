"""What may be handed over as a table, and what is refused with the name of what it is and what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.client.produce.producing import numbered, producing, values
from tests.client.worlds import Body, World

arrow = pytest.importorskip("pyarrow")
polars = pytest.importorskip("polars")
Run = Callable[[Body], object]

EXPECTED = [b"a", b"b", b"a", b"c"]
TEXT = ["a", "b", "a", "c"]


def table_of(values: list[bytes]) -> Any:
    return arrow.table({"value": arrow.array(values, arrow.binary())})


def batches() -> list[Any]:
    return [table_of(EXPECTED[:3]).to_batches()[0], table_of(EXPECTED[3:]).to_batches()[0]]


def pandas_frame(kind: str) -> Any:
    """With names of rows, as what is left of a larger frame has them."""
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"value": pandas.Series(TEXT, dtype=kind)}).set_axis([7, 3, 4, 9])


async def coming() -> AsyncIterator[Any]:
    for batch in batches():
        yield batch


def frame(kind: Any) -> Any:
    return polars.DataFrame({"value": polars.Series(TEXT, dtype=kind)})


KINDS: dict[str, Callable[[], Any]] = {
    "polars-categorical": lambda: frame(polars.Categorical),
    "polars-enum": lambda: frame(polars.Enum(["c", "b", "a"])),
    "polars-series": lambda: frame(polars.String)["value"],
    "polars-categorical-series": lambda: frame(polars.Categorical)["value"],
    "pyarrow-dictionary": lambda: table_of(EXPECTED).set_column(
        0, "value", table_of(EXPECTED)["value"].dictionary_encode()
    ),
    "pyarrow-dictionary-array": lambda: arrow.array(TEXT).dictionary_encode(),
    "pandas-category": lambda: pandas_frame("category"),
    "pandas-object": lambda: pandas_frame("object"),
    "pandas-series": lambda: pandas_frame("object")["value"],
    "generator-of-batches": lambda: (batch for batch in batches()),
    "list-of-batches": batches,
    "list-of-tables": lambda: [arrow.table(batch) for batch in batches()],
    "tuple-of-frames": lambda: tuple(polars.from_arrow(batch) for batch in batches()),
    "reader": lambda: arrow.RecordBatchReader.from_batches(batches()[0].schema, iter(batches())),
    "asynchronous-generator": coming,
    "mapping-of-lists": lambda: {"value": EXPECTED},
    "mapping-of-dictionaries": lambda: {"value": arrow.array(TEXT).dictionary_encode()},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_records(run: Run, kind: str) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster, producing(world, cluster) as rig:
            delivery = await rig.producer.produce_batch("orders", KINDS[kind]())
            await delivery
            assert delivery.count == 4
            assert values(cluster, "orders") == EXPECTED

    run(body)


@pytest.mark.parametrize("kind", ["polars-categorical", "pandas-category", "pyarrow-dictionary"])
def test_dictionaries_go_round_robin_too(run: Run, kind: str) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"orders": 2}) as cluster,
            producing(world, cluster, partitioner="round_robin") as rig,
        ):
            await (await rig.producer.produce_batch("orders", KINDS[kind]()))
            assert values(cluster, "orders", 0) == [b"a", b"a"]
            assert values(cluster, "orders", 1) == [b"b", b"c"]

    run(body)


def test_dictionaries_have_nulls_and_go_by_key_as_their_values_do(run: Run) -> None:
    async def body(world: World) -> None:
        async with (
            world.cluster(1, topics={"plain": 4, "encoded": 4}) as cluster,
            producing(world, cluster) as rig,
        ):
            keys = arrow.array([f"k{number % 5}" for number in range(50)])
            cells = arrow.array([None if number % 7 == 0 else f"v{number % 3}" for number in range(50)])
            plain = arrow.table({"key": keys, "value": cells})
            encoded = arrow.table({"key": keys.dictionary_encode(), "value": cells.dictionary_encode()})
            await (await rig.producer.produce_batch("plain", plain))
            await (await rig.producer.produce_batch("encoded", encoded.slice(0, 20)))
            await (await rig.producer.produce_batch("encoded", encoded.slice(20)))
            for partition in range(4):
                assert values(cluster, "encoded", partition) == values(cluster, "plain", partition)

    run(body)


def test_several_topics_may_have_tables_of_several_kinds(run: Run) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"one": 1, "two": 1}) as cluster, producing(world, cluster) as rig:
            tables = {"one": iter(batches()), "two": table_of(numbered(2))}
            receipts = await rig.producer.handover().produce(tables)
            assert list(receipts) == ["one", "two"]
            assert [(await receipt).count for receipt in receipts.values()] == [4, 2]
            assert values(cluster, "one") == EXPECTED

    run(body)


def test_asynchronous_batches_can_be_produced_as_they_come(run: Run) -> None:
    async def body(world: World) -> None:
        topics = {"orders": 1, "copies": 1}
        async with world.cluster(1, topics=topics) as cluster, world.client(cluster) as kafka:
            cluster.seed("orders", [b"1", b"2"])
            reader = kafka.consume_batches("orders", stop="latest")
            delivery = await kafka.produce_batch(
                "copies", (batch.select(["value"]) async for batch in reader)
            )
            assert (await delivery).count == 2
            assert [record.value for record in cluster.dump("copies")] == [b"1", b"2"]

    run(body)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: polars.DataFrame({"value": ["1"]}).lazy(), r"LazyFrame .*\.collect\(\)"),
        (lambda: [b"1", b"2"], r"bytes .*produce\(\)"),
        (lambda: "value", r"str"),
        (lambda: arrow.table({"value": arrow.array([1, 2])}), "column 'value' is of type int64"),
        (
            lambda: arrow.table({"value": ["1"], "partition": arrow.array([0]).dictionary_encode()}),
            "column 'partition' is of type dictionary<int64>, but must be int8, int16, int32 or int64",
        ),
    ],
)
def test_what_is_no_table_is_refused_by_name_and_says_what_to_do(
    run: Run, make: Callable[[], Any], message: str
) -> None:
    async def body(world: World) -> None:
        async with world.cluster(1, topics={"orders": 1}) as cluster, producing(world, cluster) as rig:
            with pytest.raises(TypeError, match=message):
                await rig.producer.produce_batch("orders", make())
            assert rig.producer.buffered_records == 0

    run(body)
