"""Differences are found where they are, and the table explains what it names and nothing else."""

from __future__ import annotations

import pytest

from tests.interop.comparison import document, recording
from tests.interop.comparison.compare import ABSENT, Found, differing, stale, unexplained
from tests.interop.comparison.differences import Difference
from tests.interop.comparison.normal import Plain
from tests.interop.comparison.steps import SECTIONS


@pytest.mark.parametrize(
    ("kafka", "ottla", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", 1, 2)]),
        ({"a": {"b": 1}}, {"a": {}}, [("a/b", 1, ABSENT)]),
        ({"a": {}}, {"a": {"b": 1}}, [("a/b", ABSENT, 1)]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [("a/1", 2, 3)]),
        ({"a": [1]}, {"a": [1, 3]}, [("a", [1], [1, 3])]),
        ({"a": None}, {"a": 0}, [("a", None, 0)]),
        ({"a": {"b": 1}}, {"a": 1}, [("a", {"b": 1}, 1)]),
    ],
)
def test_a_difference_is_found_where_it_is(
    kafka: Plain, ottla: Plain, found: list[tuple[str, Plain, Plain]]
) -> None:
    assert differing({"step": kafka}, {"step": ottla}) == [Found("step", *each) for each in found]


def test_a_step_of_one_side_only_is_a_difference() -> None:
    assert differing({"one": {}}, {"two": {}}) == [
        Found("one", "", {}, ABSENT),
        Found("two", "", ABSENT, {}),
    ]


def test_an_entry_explains_what_its_patterns_match() -> None:
    found = [Found("fetch: x v4", "a/b", 1, 2), Found("fetch: x v4", "a/c", 1, 2)]
    entry = Difference("fetch: * v4", ("*/b",), "", "")
    assert unexplained(found, [entry]) == found[1:]


def test_an_entry_that_explains_nothing_is_stale() -> None:
    found = [Found("fetch: x v4", "a/b", 1, 2)]
    entries = [Difference("fetch: *", ("a/b", "a/y"), "", ""), Difference("fetch: *", ("a/z",), "", "")]
    assert stale(found, entries) == [Difference("fetch: *", ("a/y",), "", ""), entries[1]]


def test_the_recording_has_the_steps_of_the_script() -> None:
    names = [f"{section.name}: {step.name}" for section in SECTIONS for step in section.steps]
    assert len(names) == len(set(names))
    assert list(recording.load()) == names, "record it anew: python -m tests.interop.comparison.record"


def test_the_document_lists_the_same_differences() -> None:
    assert document.FILE.read_text().endswith(document.table()), (
        "write it anew: python -m tests.interop.comparison.document"
    )
