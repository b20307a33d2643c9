"""A class name occurs once in the sources; proven on snippets, kept on the tree."""

import pytest

from tests.architecture.names import SHARED_NAMES, repeated_class_names, stale_shared_names
from tests.architecture.source import SRC, Source, read_tree, real_tree, report


def test_no_class_name_occurs_twice_in_the_tree() -> None:
    told = report(repeated_class_names([*real_tree(), *read_tree(SRC, (".pyx",))]))
    assert not told, told


def test_the_names_that_classes_share_are_shared_and_have_a_reason() -> None:
    assert report(stale_shared_names([*real_tree(), *read_tree(SRC, (".pyx",))])) == ""
    assert all(SHARED_NAMES.values())


@pytest.mark.parametrize(
    ("path", "code", "line"),
    [
        ("ottla/net/b.py", "import ast\n\nclass Place:\n    x = 1", 3),
        ("ottla/net/b.py", "if True:\n    class Place: ...", 2),
        ("ottla/net/b.py", "try:\n    pass\nexcept OSError:\n    class Place: ...", 4),
        ("ottla/_native/b.pyx", "\ncdef class Place:\n    pass", 2),
        ("ottla/_native/b.pyx", "class Place:\n    pass", 1),
    ],
)
def test_a_second_class_of_one_name_is_reported(path: str, code: str, line: int) -> None:
    told = report(repeated_class_names([Source("ottla/client/a.py", "class Place: ..."), Source(path, code)]))
    assert told == (
        f"src/{path}:{line}: a second class Place, after src/ottla/client/a.py:1: "
        "name each after what sets it apart"
    )


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("ottla/net/b.py", "class Places: ..."),
        ("ottla/net/b.py", "class B:\n    class Place: ..."),
        ("ottla/net/b.py", "def b():\n    class Place: ..."),
        ("ottla/net/b.py", "from ottla.client.a import Place\nx = 'class Place: ...'"),
        ("ottla/_native/b.pyx", "cdef class Outer:\n    class Place: ..."),
        ("ottla/_native/b.pyx", "from ottla._native.a cimport Place"),
    ],
)
def test_names_that_clash_with_nothing_pass(path: str, code: str) -> None:
    assert (
        report(repeated_class_names([Source("ottla/client/a.py", "class Place: ..."), Source(path, code)]))
        == ""
    )


def test_private_classes_may_share_a_name() -> None:
    twice = [Source(f"ottla/net/{name}.py", "class _State: ...") for name in "ab"]
    assert report(repeated_class_names(twice)) == ""


def test_a_name_in_the_table_passes_until_one_class_has_it() -> None:
    twice = [Source(f"ottla/net/{name}.py", "class State: ...") for name in "ab"]
    shared = {"State": "a word of the protocol on both sides"}
    assert report(repeated_class_names(twice, shared)) == ""
    assert report(stale_shared_names(twice, shared)) == ""
    assert "State is shared no longer: delete its line" in report(stale_shared_names(twice[:1], shared))
