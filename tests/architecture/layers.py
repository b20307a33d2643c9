"""Which layer may import which: imports point downwards only.

    cli  console                      what people look at
    spark  sim                        what is built on the two below
    client            broker          neither imports the other
    net               assignors       one connection type; which member gets which partition
    wire                              sans-io
    _native                           the compiled core

Every import counts: absolute or relative, inside a function, or under TYPE_CHECKING. A layer that knows the
types of a layer above cannot be understood without it, whether or not the import runs.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.architecture.source import Source, Violation, imported_by_name

# The root, `ottla/__init__.py`, sits on top: it re-exports, so a layer that imports it imports everything.
ROOT_PACKAGE = "ottla"
PLUGIN_PACKAGE = "pyspark_ottla"

# The modules beside the layers that are pure values and protocols: even the compiled core may use them.
_VALUES = frozenset({"errors", "_extras", "_version", "config", "hooks"})
_BELOW_NET = _VALUES | {"runtime", "wire", "_native"}
_BELOW_APPS = _BELOW_NET | {"net", "serde", "assignors", "client", "broker"}
_BELOW_PEOPLE = _BELOW_APPS | {"spark", "sim"}
_BELOW_ROOT = _BELOW_PEOPLE | {"cli", "console"}

# Every package and module directly under src/ottla, with what it may import besides itself.
MAY_IMPORT: dict[str, frozenset[str]] = {
    "__main__": _BELOW_ROOT | {ROOT_PACKAGE},
    ROOT_PACKAGE: _BELOW_ROOT,
    "cli": _BELOW_PEOPLE,
    # Imported by pytest in every run; hands the broker out as fixtures.
    "pytest_plugin": _BELOW_APPS,
    "console": _BELOW_PEOPLE,
    "spark": _BELOW_APPS,
    "sim": _BELOW_APPS,
    "client": _BELOW_NET | {"net", "serde", "assignors"},
    "broker": _BELOW_NET | {"net", "assignors"},
    "net": _BELOW_NET,
    # Pure: the leader of a classic group and the coordinator of a KIP-848 group compute with it.
    "assignors": _VALUES | {"wire"},
    "wire": _VALUES | {"_native"},
    "_native": _VALUES,
    # Serializers turn objects into bytes and back: they need no protocol and no connection of ours.
    "serde": _VALUES,
    # The clock, randomness and network that a simulation replaces. Not for wire: it has no I/O to inject.
    "runtime": _VALUES,
    # The values, each on top of the ones below it, so that they cannot form a cycle.
    "hooks": frozenset({"errors", "_extras", "config"}),
    "config": frozenset({"errors", "_extras"}),
    "_extras": frozenset({"errors"}),
    "errors": frozenset(),
    "_version": frozenset(),
}

# The rooms of the broker that lie above the others, with the rooms that may import them: replication, log, metadata
# and the rest know neither an API, nor the controller, nor the cluster that puts them together.
UPPER_ROOMS: dict[str, frozenset[str]] = {
    "cluster": frozenset(),
    "controller": frozenset({"cluster"}),
    "handlers": frozenset({"cluster"}),
}

_PLACE_IT = "place it in MAY_IMPORT in tests/architecture/layers.py, or move the code into a declared layer"
_CODE = (".py", ".pyx", ".pxd")


def undeclared_packages(src: Path) -> Iterator[Violation]:
    """Whatever lies under src and has no place in the layers."""
    for entry in sorted(src.iterdir()):
        known = entry.name in (ROOT_PACKAGE, PLUGIN_PACKAGE)
        if not known and _holds_code(entry):
            yield Violation(
                f"src/{entry.name}", 1, f"{entry.name} is a top-level package nobody declared: {_PLACE_IT}"
            )
    for entry in sorted((src / ROOT_PACKAGE).iterdir()):
        if entry.name == "__init__.py" or not _holds_code(entry):
            continue
        name = entry.stem if entry.is_file() else entry.name
        if name not in MAY_IMPORT:
            yield Violation(f"src/ottla/{entry.name}", 1, f"{name} is in no layer: {_PLACE_IT}")


def _holds_code(entry: Path) -> bool:
    if entry.is_file():
        return entry.suffix in _CODE
    return any(path.suffix in _CODE for path in entry.rglob("*"))


def upward_imports(sources: Iterable[Source]) -> Iterator[Violation]:
    """Imports between layers that MAY_IMPORT does not list. Takes Cython sources too."""
    for source in sources:
        if source.package != ROOT_PACKAGE or source.layer not in MAY_IMPORT:
            continue
        allowed = MAY_IMPORT[source.layer]
        for line, target in _imported_layers(source):
            if target == source.layer or target in allowed:
                continue
            yield source.violation(line, _advice(source.layer, target))


def imports_of_upper_rooms(sources: Iterable[Source]) -> Iterator[Violation]:
    """Modules of the broker that import a room above their own. The broker's root, which hands it out, may."""
    for source in sources:
        parts = source.path.split("/")
        if parts[:2] != [ROOT_PACKAGE, "broker"] or len(parts) < 4:
            continue
        for node in source.nodes:
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for name in _imported_modules(node, source):
                upper = name[2] if name[:2] == [ROOT_PACKAGE, "broker"] and len(name) > 2 else ""
                if upper in UPPER_ROOMS and upper != parts[2] and parts[2] not in UPPER_ROOMS[upper]:
                    yield source.violation(
                        node.lineno,
                        f"broker/{parts[2]} imports broker/{upper}, which lies above it: move what both need "
                        "below both, or pass it in",
                    )


def _imported_modules(node: ast.Import | ast.ImportFrom, source: Source) -> Iterator[list[str]]:
    if isinstance(node, ast.Import):
        yield from (alias.name.split(".") for alias in node.names)
    else:
        yield from ([*absolute(node, source), alias.name] for alias in node.names)


def eager_plugin_imports(sources: Iterable[Source]) -> Iterator[Violation]:
    """Spark imports pyspark_ottla by itself, in every session: that may neither fail nor load the library."""
    for source in sources:
        if source.package != PLUGIN_PACKAGE:
            continue
        lazy = {
            inner
            for function in source.nodes
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for inner in ast.walk(function)
        }
        for node in source.nodes:
            if node not in lazy and any(True for _ in _targets(node, source)):
                yield source.violation(
                    getattr(node, "lineno", 1),
                    "imports ottla whenever Spark looks for plugins: import it in the function that uses it",
                )


def _advice(layer: str, target: str) -> str:
    if target not in MAY_IMPORT:
        return f"{layer} imports ottla.{target}, which is in no layer: {_PLACE_IT}"
    if target == ROOT_PACKAGE:
        return f"{layer} imports ottla itself, hence everything: import the name from where it is defined"
    if layer == "errors":
        return (
            f"errors imports {target}: it lies at the bottom and imports nothing of ottla; pass the value in"
        )
    if {layer, target} == {"client", "broker"}:
        return f"{layer} imports {target}: neither knows the other; move what both need down to net or wire"
    return f"{layer} must not import {target}: imports point downwards; move it below both, or pass it in"


def _imported_layers(source: Source) -> Iterator[tuple[int, str]]:
    if source.path.endswith((".pyx", ".pxd")):
        yield from _cython_imports(source)
        return
    for node in source.nodes:
        for target in _targets(node, source):
            yield getattr(node, "lineno", 1), target


def _targets(node: ast.AST, source: Source) -> Iterator[str]:
    """The layers of ottla that one statement or call imports."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _layer_of(alias.name.split("."))
    elif isinstance(node, ast.ImportFrom):
        base = absolute(node, source)
        if base != [ROOT_PACKAGE]:
            yield from _layer_of(base)
            return
        # `from ottla import wire` names a layer, `from ottla import KafkaError` a name of the root.
        for alias in node.names:
            yield alias.name if alias.name in MAY_IMPORT else ROOT_PACKAGE
    elif (name := imported_by_name(node)) is not None:
        yield from _layer_of(name.split("."))


def _layer_of(module: list[str]) -> Iterator[str]:
    if module[:1] == [ROOT_PACKAGE]:
        yield module[1] if len(module) > 1 else ROOT_PACKAGE


def absolute(node: ast.ImportFrom, source: Source) -> list[str]:
    """The module that `from ... import` names, in full."""
    module = node.module.split(".") if node.module else []
    if not node.level:
        return module
    # One dot is the package of the file; for an __init__.py that is its own folder as well.
    folder = source.path.split("/")[:-1]
    return folder[: len(folder) - node.level + 1] + module


_CYTHON_IMPORT = re.compile(
    r"^[ \t]*(from[ \t]+[\w.]+[ \t]+c?import[ \t]+(?:\([^)]*\)|[^\n(]+)|c?import[ \t]+[^\n]+)", re.MULTILINE
)


def _cython_imports(source: Source) -> Iterator[tuple[int, str]]:
    for line, statement in cython_statements(source):
        for target in _targets(statement, source):
            yield line, target


def cython_statements(source: Source) -> Iterator[tuple[int, ast.stmt]]:
    """Cython is not Python to `ast`, but its import statements are, once cimport is spelled import."""
    for match in _CYTHON_IMPORT.finditer(source.text):
        try:
            statement = ast.parse(re.sub(r"\bcimport\b", "import", match[1])).body[0]
        except SyntaxError:  # prose in a docstring that begins like an import
            continue
        yield source.text.count("\n", 0, match.start(1)) + 1, statement
