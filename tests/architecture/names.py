"""One name for one thing: a class name occurs once in the sources.

A reader who meets `Session` in one package must not have to ask which one is meant. Private classes and classes
inside a class or a function belong to their surroundings, and the generated messages have Kafka's names.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from tests.architecture.source import Source, Violation

# A class name that several modules have -> why no other name would do.
SHARED_NAMES: dict[str, str] = {
    "Sink": "what users write is ottla.spark.Sink; the client's is the architecture's own word, and is not public",
}

_CYTHON_CLASS = re.compile(r"^(?:cdef )?class (\w+)", re.MULTILINE)


def repeated_class_names(
    sources: Iterable[Source], shared: Mapping[str, str] = SHARED_NAMES
) -> Iterator[Violation]:
    """Every class after the first of its name. Takes Cython sources too."""
    first: dict[str, str] = {}
    for source in sources:
        for line, name in _classes(source):
            if name in shared:
                continue
            if name in first:
                yield source.violation(
                    line, f"a second class {name}, after {first[name]}: name each after what sets it apart"
                )
            first.setdefault(name, f"src/{source.path}:{line}")


def stale_shared_names(
    sources: Iterable[Source], shared: Mapping[str, str] = SHARED_NAMES
) -> Iterator[Violation]:
    """Names of the table that one class has, or none."""
    names = [name for source in sources for _, name in _classes(source)]
    for name in shared:
        if names.count(name) < 2:
            yield Violation(
                "tests/architecture/names.py",
                1,
                f"{name} is shared no longer: delete its line in SHARED_NAMES",
            )


def _classes(source: Source) -> Iterator[tuple[int, str]]:
    if source.path.endswith(".pyx"):
        for match in _CYTHON_CLASS.finditer(source.text):
            if not match[1].startswith("_"):
                yield source.text.count("\n", 0, match.start()) + 1, match[1]
        return
    for node in _module_level(source.tree.body):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.lineno, node.name


def _module_level(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The statements of a module, with those under its `if` and `try`."""
    for node in body:
        yield node
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _module_level(ast.iter_child_nodes(node))
