"""No modules import each other in a circle; proven on snippets, kept on the tree."""

import pytest

from tests.architecture.imports import import_cycles, import_graph, reachable
from tests.architecture.source import Source, real_tree, report


def test_the_tree_has_no_import_cycle() -> None:
    told = report(import_cycles(real_tree()))
    assert not told, told


def tree(**modules: str) -> list[Source]:
    """Modules of a package `ottla.wire`, by name."""
    return [Source(f"ottla/wire/{name}.py", text) for name, text in modules.items()]


@pytest.mark.parametrize(
    "second",
    [
        "import ottla.wire.a",
        "from ottla.wire.a import x",
        "from ottla.wire import a",
        "from . import a",
        "from .a import x",
        "try:\n    from ottla.wire import a\nexcept ImportError:\n    a = None",
        "class B:\n    from ottla.wire import a",
        "if sys.platform == 'linux':\n    from ottla.wire import a",
        "import importlib\na = importlib.import_module('ottla.wire.a')",
    ],
)
def test_a_cycle_is_reported(second: str) -> None:
    told = report(import_cycles(tree(a="import ast\nfrom ottla.wire.b import y", b=second)))
    assert told == (
        "src/ottla/wire/a.py:2: imports in a circle: ottla.wire.a -> ottla.wire.b -> ottla.wire.a: "
        "move what both need below both, or pass it in"
    )


def test_a_package_that_imports_what_imports_it_is_reported() -> None:
    package = Source("ottla/wire/__init__.py", "X = 1\nfrom ottla.wire import a")
    told = report(import_cycles([package, *tree(a="from ottla.wire import X")]))
    assert told.startswith(
        "src/ottla/wire/__init__.py:2: imports in a circle: ottla.wire -> ottla.wire.a -> ottla.wire:"
    )


def test_a_long_way_around_is_named_in_full_and_once() -> None:
    told = report(
        import_cycles(
            tree(
                a="from ottla.wire import b",
                b="from ottla.wire import c",
                c="from ottla.wire import a, d",
                d="from ottla.wire import e",
                e="from ottla.wire import c, d, f",
                f="",
            )
        )
    )
    assert told == (
        "src/ottla/wire/d.py:1: imports in a circle: ottla.wire.d -> ottla.wire.e -> ottla.wire.d "
        "(5 modules hang together): move what both need below both, or pass it in"
    )


def test_two_cycles_are_two_violations() -> None:
    told = report(
        import_cycles(
            tree(
                a="from ottla.wire import b",
                b="from ottla.wire import a",
                c="from ottla.wire import d",
                d="from ottla.wire import c",
            )
        )
    )
    assert [line.partition(":")[0] for line in told.splitlines()] == [
        "src/ottla/wire/a.py",
        "src/ottla/wire/c.py",
    ]


@pytest.mark.parametrize(
    "second",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ottla.wire import a",
        "import typing\nif typing.TYPE_CHECKING:\n    from ottla.wire import a",
        "def f():\n    from ottla.wire import a",
        "class B:\n    async def f(self):\n        from ottla.wire import a",
        "from ottla.wire import c",
        "x = 'from ottla.wire import a'",
    ],
)
def test_what_closes_no_circle_at_run_time_passes(second: str) -> None:
    assert report(import_cycles(tree(a="from ottla.wire import b", b=second, c=""))) == ""


def test_the_graph_has_every_import_and_leads_on() -> None:
    graph = import_graph(
        [
            *tree(a="def f():\n    from ottla.wire.b import x", b="from ottla._native import fast", c=""),
            Source("ottla/_native/fast.pyx", "from ottla._native.memory cimport Pool"),
            Source("ottla/_native/memory.pyx", ""),
        ]
    )
    assert reachable(graph, "ottla.wire.a") == {
        "ottla.wire.b",
        "ottla._native.fast",
        "ottla._native.memory",
    }
