"""Which module imports which, and the rule that no two import each other at run time.

A cycle works only in the order in which it happens to be imported first, and its modules can be understood
only together. What runs when a module is imported counts: not what stands in a function, nor under TYPE_CHECKING.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping

from tests.architecture.layers import absolute, cython_statements
from tests.architecture.source import Source, Violation, imported_by_name

# module -> {what it imports: the first line that does}
Graph = dict[str, dict[str, int]]


def import_cycles(sources: Iterable[Source]) -> Iterator[Violation]:
    """One violation for each knot of modules that reach each other, with a shortest way around."""
    by_module = {module_name(source): source for source in sources}
    graph = _graph(by_module, run_time_only=True)
    for knot in _knots(graph):
        way = _around(knot, graph)
        source = by_module[way[0]]
        more = f" ({len(knot)} modules hang together)" if len(knot) > len(way) else ""
        yield source.violation(
            graph[way[0]][way[1 % len(way)]],
            f"imports in a circle: {' -> '.join([*way, way[0]])}{more}: move what both need below both, "
            "or pass it in",
        )


def import_graph(sources: Iterable[Source]) -> Graph:
    """Every import among these modules, wherever it stands. Takes Cython sources too."""
    return _graph({module_name(source): source for source in sources}, run_time_only=False)


def reachable(graph: Mapping[str, Iterable[str]], start: str) -> set[str]:
    """What `start` imports, and what that imports, and so on."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        for target in graph.get(ahead.pop(), ()):
            if target not in found:
                found.add(target)
                ahead.append(target)
    return found


def module_name(source: Source) -> str:
    """`ottla/wire/frames.py` is ottla.wire.frames, `ottla/wire/__init__.py` is ottla.wire."""
    return source.path.rpartition(".")[0].removesuffix("/__init__").replace("/", ".")


def imported_modules(source: Source) -> list[str]:
    """What a file imports, wherever it stands; a name in a module as MODULE.NAME."""
    return [name for _, name in _imports(source, run_time_only=False)]


def _graph(by_module: Mapping[str, Source], *, run_time_only: bool) -> Graph:
    graph: Graph = {}
    for name, source in by_module.items():
        found = graph.setdefault(name, {})
        for line, wanted in _imports(source, run_time_only=run_time_only):
            target = nearest(wanted, by_module.__contains__)
            if target is not None and target != name:
                found.setdefault(target, line)
    return graph


def nearest(wanted: str, is_module: Callable[[str], bool]) -> str | None:
    """`ottla.errors.KafkaError` is a name in ottla.errors; `ottla.wire.frames` is a module itself."""
    while wanted and not is_module(wanted):
        wanted = wanted.rpartition(".")[0]
    return wanted or None


def _imports(source: Source, *, run_time_only: bool) -> Iterator[tuple[int, str]]:
    if source.path.endswith((".pyx", ".pxd")):
        for line, statement in cython_statements(source):
            yield from ((line, name) for name in _imported(statement, source))
        return
    for node in _run_at_import(source.tree) if run_time_only else source.nodes:
        yield from ((getattr(node, "lineno", 1), name) for name in _imported(node, source))


def _imported(node: ast.AST, source: Source) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = ".".join(absolute(node, source))
        yield from (f"{base}.{alias.name}" for alias in node.names)
    elif (name := imported_by_name(node)) is not None:
        yield name


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and _is_type_checking(child.test):
            for statement in child.orelse:
                yield statement
                yield from _run_at_import(statement)
            continue
        yield child
        yield from _run_at_import(child)


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _knots(graph: Graph) -> list[list[str]]:
    """The sets of modules that reach each other, in order."""
    reached = {module: reachable(graph, module) for module in graph}
    knots: list[list[str]] = []
    placed: set[str] = set()
    for module in sorted(graph):
        if module in placed or module not in reached[module]:
            continue
        knot = [other for other in sorted(graph) if other in reached[module] and module in reached[other]]
        placed.update(knot)
        knots.append(knot)
    return knots


def _around(knot: list[str], graph: Graph) -> list[str]:
    """A shortest way from a module of the knot back to itself."""
    shortest: list[str] | None = None
    for start in knot:
        ways = [[start]]
        seen = {start}
        while ways and (shortest is None or len(ways[0]) < len(shortest)):
            way = ways.pop(0)
            targets = [target for target in sorted(graph[way[-1]]) if target in knot]
            if start in targets:
                shortest = way
                break
            ways.extend([*way, target] for target in targets if target not in seen)
            seen.update(targets)
    assert shortest is not None, knot
    return shortest
