"""What the side-by-side runs rely on: that differences are found, and that the table of known ones is sound."""

from __future__ import annotations

from tests.interop import jars
from tests.interop.spark import connector, document
from tests.interop.spark.cases import CASES
from tests.interop.spark.comparing import ABSENT, Found, differing, stale, unexplained
from tests.interop.spark.differences import DIFFERENCES, Difference
from tests.interop.spark.outcome import error_of, said, without_names


def entry(path: str) -> Difference:
    return Difference(("a",), path, "", "", "")


def test_a_difference_is_found_where_it_lies() -> None:
    jvm = {"rows": [["a", 1], ["b", 2]], "tasks": 1}
    ottla = {"rows": [["a", 1], ["b", 3]], "more": True}
    assert list(differing(jvm, ottla)) == [
        Found("rows/1/1", 2, 3),
        Found("tasks", 1, ABSENT),
        Found("more", ABSENT, True),
    ]


def test_lists_of_other_lengths_differ_as_a_whole() -> None:
    assert list(differing({"rows": [1]}, {"rows": []})) == [Found("rows", [1], [])]


def test_only_an_entry_for_its_place_explains_a_difference() -> None:
    found = [Found("tasks", 1, 2)]
    assert unexplained(found, [entry("rows")]) == found
    assert unexplained(found, [entry("ta*")]) == []


def test_an_entry_that_explains_nothing_is_stale() -> None:
    assert stale([Found("tasks", 1, 2)], [entry("tasks"), entry("rows/*")]) == [entry("rows/*")]


def test_of_an_error_the_words_that_it_says_are_left() -> None:
    assert error_of(ValueError("minPartitions must be positive"), ("MINPARTITIONS", "zero")) == {
        "error": ["MINPARTITIONS"]
    }


def test_what_surrounds_an_error_is_not_what_it_says() -> None:
    of_python = """[STREAM_FAILED] Failed: Traceback (most recent call last):
  File "options.py", line 7, in minPartitions
    raise OptionError(option)
ottla.spark.options.parsing.OptionError: it must be positive
=== Streaming Query ===
Logical Plan: topic#1"""
    assert said(of_python) == "ottla.spark.options.parsing.OptionError: it must be positive\n"
    of_the_jvm = (
        "IllegalStateException: lost\n\tat org.apache.spark.Topic.read(Topic.scala:1)\nCaused by: X: gone"
    )
    assert said(of_the_jvm) == "IllegalStateException: lost\n\nCaused by: X: gone"


def test_topics_are_called_the_same_for_both() -> None:
    assert without_names({"case.kafka.t": [{"case.kafka.t": 1}]}, "case.kafka.") == {"t": [{"t": 1}]}


def test_there_are_enough_cases_and_each_has_a_name_of_its_own() -> None:
    assert len({case.id for case in CASES}) == len(CASES)
    assert sum(not case.full for case in CASES) >= 60


def test_every_difference_is_shown_by_cases_that_exist() -> None:
    assert {case for each in DIFFERENCES for case in each.cases} <= {case.id for case in CASES}


def test_the_document_shows_the_table_of_differences() -> None:
    assert document.written() == document.table(), "python -m tests.interop.spark.document writes it"


def test_the_lock_file_holds_the_connector_and_what_it_needs() -> None:
    locked = [jar.coordinate for jar in jars.read_lock(connector.LOCK_FILE)]
    assert sorted(locked) == sorted(connector.COORDINATES)
