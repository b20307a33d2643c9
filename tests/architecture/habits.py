"""Habits of library code: it never prints, never swallows an error, and a module fits one sitting.

Asserts are welcome anywhere.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping

from tests.architecture.source import Source, Violation, builtin_call

# What people look at; everything else speaks through logging.
PRINTING_LAYERS = frozenset({"cli", "console"})
_SPEAKERS = frozenset(
    {
        "sys.stdout",
        "sys.stderr",
        "sys.__stdout__",
        "sys.__stderr__",
        "pprint.pprint",
        "traceback.print_exc",
        "traceback.print_exception",
        "traceback.print_stack",
    }
)

MAX_LINES = 600
# File inside the package -> why it may be longer.
LONG_MODULES = {
    "errors.py": "a table: one entry per error code of the protocol",
    "client/blocking/admin.py": "made by tools/make_admin.py from modules that each fit",
}


def printing(sources: Iterable[Source]) -> Iterator[Violation]:
    """Library code that talks to the terminal of a program it does not own."""
    for source in sources:
        if source.layer in PRINTING_LAYERS or source.path.endswith("/__main__.py"):
            continue
        for node in source.nodes:
            name = _spoken(node, source)
            if name is not None:
                yield source.violation(
                    getattr(node, "lineno", 1), f"library code uses {name}: log under `ottla.*` instead"
                )


def _spoken(node: ast.AST, source: Source) -> str | None:
    if builtin_call(node, source) == "print":
        return "print()"
    names: list[str | None] = []
    if isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.Attribute):
        names = [source.dotted(node)]
    return next((name for name in names if name in _SPEAKERS), None)


def swallowed_errors(sources: Iterable[Source]) -> Iterator[Violation]:
    """Handlers that catch everything, or that catch any error and do nothing about it."""
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.ExceptHandler) and node.type is None:
                yield source.violation(
                    node.lineno, "a bare `except:` also catches cancellation and Ctrl-C: name the exceptions"
                )
            elif isinstance(node, ast.ExceptHandler) and _catches_any(node.type) and _does_nothing(node.body):
                yield source.violation(
                    node.lineno,
                    "swallows every error, our own bugs too: name the exception expected, or log it",
                )
            elif _suppresses_any(node, source):
                yield source.violation(
                    getattr(node, "lineno", 1), "suppress() swallows every error: name the exception expected"
                )


def _catches_any(caught: ast.expr | None) -> bool:
    each = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(isinstance(name, ast.Name) and name.id in ("Exception", "BaseException") for name in each)


def _does_nothing(body: list[ast.stmt]) -> bool:
    return all(
        isinstance(statement, ast.Pass | ast.Continue)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in body
    )


def _suppresses_any(node: ast.AST, source: Source) -> bool:
    if not isinstance(node, ast.Call) or source.dotted(node.func) != "contextlib.suppress":
        return False
    return any(_catches_any(argument) for argument in node.args)


def long_modules(
    sources: Iterable[Source], excepted: Mapping[str, str] = LONG_MODULES
) -> Iterator[Violation]:
    """Hand-written modules that no longer fit one sitting. Generated stubs are not among the sources."""
    for source in sources:
        if len(source.lines) > MAX_LINES and source.inside not in excepted:
            yield source.violation(
                MAX_LINES + 1, f"{len(source.lines)} lines, {MAX_LINES} is the most: split it by subject"
            )
