"""What every rule works on: source files with their syntax tree, and violations that say what to do.

Here live reading a tree, naming the layer of a file, and resolving a dotted name through its imports.
The rules themselves are in the modules beside this one. A rule is a function from sources to violations, so
that it can be shown to fail on a snippet as well as to pass on the tree.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"


@dataclass(frozen=True)
class Violation:
    """One broken rule: where, and what to do instead."""

    path: str
    line: int
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.advice}"


def report(violations: Iterable[Violation]) -> str:
    """What a failing test prints: one line per violation, none when all is well."""
    return "\n".join(str(violation) for violation in violations)


@dataclass(frozen=True)
class Source:
    """One file under src/, its path relative to it: `ottla/wire/frames.py`."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree, outer before inner: walked once for all rules."""
        return list(ast.walk(self.tree))

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def aliases(self) -> dict[str, str]:
        """What each imported name stands for: `from datetime import date as d` gives d -> datetime.date."""
        found: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    # `import a.b` binds a; only `import a.b as c` binds the whole path.
                    bound = alias.name if alias.asname else alias.name.partition(".")[0]
                    found[alias.asname or bound] = bound
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        return found

    @property
    def package(self) -> str:
        """The top-level package: `ottla` or `pyspark_ottla`."""
        return self.path.partition("/")[0]

    @property
    def layer(self) -> str:
        """The package or module directly under ottla; `ottla` itself for its __init__.py."""
        parts = self.path.removesuffix(".pyx").removesuffix(".pxd").removesuffix(".py").split("/")
        if parts[0] != "ottla" or parts[1:] == ["__init__"]:
            return parts[0]
        return parts[1]

    @property
    def inside(self) -> str:
        """The path inside the package, as the tables of exceptions write it: `client/blocking/client.py`."""
        return self.path.partition("/")[2]

    def violation(self, line: int, advice: str) -> Violation:
        return Violation(f"src/{self.path}", line, advice)

    def dotted(self, node: ast.expr) -> str | None:
        """The full name of `a.b.c` when `a` was imported, else None: a local object hides behind the name."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.aliases:
            return None
        return ".".join([self.aliases[node.id], *reversed(attributes)])


def read_tree(src: Path, suffixes: tuple[str, ...] = (".py",)) -> Iterator[Source]:
    """Every file below src with one of these suffixes, in a fixed order."""
    for path in sorted(src.rglob("*")):
        if path.suffix in suffixes and path.is_file():
            yield Source(path.relative_to(src).as_posix(), path.read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def real_tree() -> tuple[Source, ...]:
    """The Python modules of this repository, read and parsed once for all rules."""
    return tuple(read_tree(SRC))


def builtin_call(node: ast.AST, source: Source) -> str | None:
    """The name called when node is `name(...)` and name was not imported over the builtin."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in source.aliases:
        return node.func.id
    return None


def imported_by_name(node: ast.AST) -> str | None:
    """The module that `import_module("x")` or `__import__("x")` names: an import like any other."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
    first = node.args[0]
    if called not in ("import_module", "__import__") or not isinstance(first, ast.Constant):
        return None
    return first.value if isinstance(first.value, str) else None
