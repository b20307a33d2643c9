"""A transform is found, loaded and checked before there is a session; what is wrong with it is said then."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from ottla.spark.pipeline.model import Pipeline, TopicSink, TopicSource
from ottla.spark.pipeline.transform import TransformError, apply, load, mistakes

ORDERS = {"orders": TopicSource(topics=("orders",))}
BOTH = {**ORDERS, "customers": TopicSource(topics=("customers",), table=True)}


def said_of(transform: Any, sources: dict[str, TopicSource] = BOTH) -> list[str]:
    return [mistake.what.partition(";")[0] for mistake in mistakes(transform, sources)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM orders JOIN customers USING (id)",
        "select * from Orders, `customers`",
        "SELECT * FROM IDENTIFIER('orders') -- it's a comment\n, customers",
        "WITH c AS (SELECT * FROM customers) SELECT /* -- */ * FROM c, orders",
    ],
)
def test_sql_that_reads_all_sources_passes(sql: str) -> None:
    assert said_of(sql) == []


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("", ["it is empty"]),
        (" -- only a comment", ["it is empty"]),
        ("SELECT 1", ["it reads none of the sources"]),
        ("SELECT * FROM ordered", ["it reads none of the sources"]),
        ("SELECT * FROM orders -- customers", ["it does not read the source customers"]),
        ("SELECT * FROM orders /* customers */", ["it does not read the source customers"]),
        ("SELECT '--' FROM customers", ["it does not read the source orders"]),
    ],
)
def test_sql_that_leaves_a_source_out_is_refused(sql: str, said: list[str]) -> None:
    assert said_of(sql) == said


def test_nothing_is_needed_for_one_source() -> None:
    assert said_of(None, ORDERS) == []
    assert said_of(None) == ["it is missing"]


class Called:
    def __call__(self, orders: Any, customers: Any) -> Any: ...


FUNCTIONS: list[tuple[Callable[..., Any], list[str]]] = [
    (lambda orders, customers: None, []),
    (lambda customers, orders, spark: None, []),
    (lambda orders, customers, limit=5: None, []),
    (lambda **frames: None, []),
    (lambda orders, **rest: None, []),
    (Called(), []),
    (lambda orders: None, ["<lambda> has no parameter customers"]),
    (
        lambda order, customers: None,
        [
            "<lambda> has the parameter order, which is no source",
            "<lambda> has no parameter orders",
        ],
    ),
    (lambda orders, /, customers: None, ["the parameter orders of <lambda> has no name to callers"]),
]


@pytest.mark.parametrize(("function", "said"), FUNCTIONS)
def test_the_parameters_of_a_function_are_sources(function: Callable[..., Any], said: list[str]) -> None:
    assert said_of(function) == said


def test_what_builds_no_dataframe_is_refused() -> None:
    async def later(orders: Any, customers: Any) -> Any: ...

    assert said_of(later) == ["later is asynchronous"]
    assert said_of(print) == ["print has no parameter orders", "print has no parameter customers"]
    assert said_of(type) == ["type does not say what its parameters are"]


# Functions that a file names


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One whose path is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def test_a_function_of_a_file_is_loaded_with_what_is_beside_it(folder: Path) -> None:
    (folder / "ottla_rates_beside.py").write_text("RATE = 7\n")
    (folder / "revenue.py").write_text(
        "from dataclasses import dataclass\n\n@dataclass\nclass Row:\n    a: int\n\n"
        "def enrich(orders):\n    from ottla_rates_beside import RATE\n    return Row(orders * RATE)\n"
    )
    assert load("revenue.py:enrich", folder)(6).a == 42


def test_a_file_may_be_called_as_a_module_is(folder: Path) -> None:
    import json

    (folder / "json.py").write_text("def enrich(orders):\n    return orders\n")
    assert load("json.py:enrich", folder)(5) == 5
    assert sys.modules["json"] is json


def test_a_function_of_a_file_reaches_workers_that_have_no_such_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "revenue.py").write_text("RATE = 7\n\ndef enrich(orders):\n    return orders * RATE\n")
    function = load("revenue.py:enrich", folder)
    pickled = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    monkeypatch.delitem(sys.modules, function.__module__)
    assert pickle.loads(pickled)(6) == 42


def test_a_function_of_a_package_is_loaded(folder: Path) -> None:
    (folder / "ottla_jobs_beside").mkdir()
    (folder / "ottla_jobs_beside" / "revenue.py").write_text("def enrich(orders):\n    return orders\n")
    assert load("ottla_jobs_beside.revenue:enrich", folder)(5) == 5
    assert load("math:floor", folder)(5.5) == 5


@pytest.mark.parametrize(
    ("text", "named", "said"),
    [
        ("", "revenue.py", "'revenue.py' names no function; write it as revenue.py:enrich"),
        ("", "revenue.py:", "names no function"),
        ("", "none.py:enrich", "there is no file"),
        ("", "revenue.py:enrich", "revenue.py has no function enrich; there are none"),
        ("def enriched(x): ...\ndef _b(): ...", "revenue.py:enrich", "no function enrich; did you mean enriched?"),
        ("def other(x): ...", "revenue.py:enrich", "revenue.py has no function enrich; there are other"),
        ("enrich = 5", "revenue.py:enrich", "enrich of revenue.py is no function"),
        ("a = 1\nb = a / 0", "revenue.py:enrich", r"ZeroDivisionError: division by zero \(revenue.py:2\)"),
        ("a = 1\n\ndef (", "revenue.py:enrich", "revenue.py cannot be imported: SyntaxError: .*line 3"),
        ("import ottla_nonesuch", "revenue.py:enrich", "No module named 'ottla_nonesuch'"),
        ("", "ottla_nonesuch.jobs:enrich", "there is no module ottla_nonesuch; install it, or put it beside"),
        ("", "math:flor", "math has no function flor"),
        ("import ottla_nonesuch", "revenue:enrich", "ModuleNotFoundError: No module named 'ottla_nonesuch'"),
    ],
)  # fmt: skip
def test_what_cannot_be_loaded_is_said(folder: Path, text: str, named: str, said: str) -> None:
    (folder / "revenue.py").write_text(text)
    with pytest.raises(TransformError, match=said):
        load(named, folder)


# What it is given


def pipeline_of(transform: Any, *sources: str) -> Pipeline:
    return Pipeline(
        "revenue",
        kafka={"bootstrap.servers": "localhost:9092"},
        sources={name: TopicSource(topics=(name,)) for name in sources},
        transform=transform,
        sinks={"totals": TopicSink(topic="totals", format="bytes")},
        checkpoint="checkpoints",
    )


def test_without_a_transform_the_rows_are_those_of_the_source() -> None:
    frame: Any = object()
    session: Any = None
    assert apply(pipeline_of(None, "orders"), session, {"orders": frame}) is frame


def test_a_function_gets_the_sources_by_name_and_the_session() -> None:
    given: list[Any] = []

    def enrich(customers: Any, spark: Any, orders: Any) -> None:
        given.extend((customers, spark, orders))

    frames: Any = {"orders": "o", "customers": "c"}
    session: Any = "s"
    with pytest.raises(
        TransformError, match="the transform enrich has returned NoneType; it must return a DataFrame"
    ):
        apply(pipeline_of(enrich, "orders", "customers"), session, frames)
    assert given == ["c", "s", "o"]


def test_a_function_that_fails_is_named_with_the_line_where_it_does(tmp_path: Path) -> None:
    (tmp_path / "revenue.py").write_text("def enrich(orders):\n    names = {}\n    return names['pear']\n")
    enrich = load("revenue.py:enrich", tmp_path)
    session: Any = None
    with pytest.raises(TransformError) as raised:
        apply(pipeline_of(enrich, "orders"), session, {"orders": session})
    assert str(raised.value) == "the transform enrich has failed: KeyError: 'pear' (revenue.py:3)"
    assert isinstance(raised.value.__cause__, KeyError)


def test_a_function_that_takes_any_name_gets_all_sources() -> None:
    given: dict[str, Any] = {}

    def enrich(**frames: Any) -> None:
        given.update(frames)

    frames: Any = {"orders": "o", "customers": "c"}
    session: Any = "s"
    with pytest.raises(TransformError):
        apply(pipeline_of(enrich, "orders", "customers"), session, frames)
    assert given == frames
