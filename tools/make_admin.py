"""Writes src/ottla/client/blocking/admin.py: the blocking twin of AsyncAdmin, method by method.

    python -m tools.make_admin          write it
    python -m tools.make_admin --check  fail when the one in the tree is stale

It is written out, not made at run time, so that editors and type checkers see every method with its types.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ADMIN = Path(__file__).parent.parent / "src" / "ottla" / "client" / "admin"
TARGET = ADMIN.parent / "blocking" / "admin.py"
SUBJECTS = ("topics", "configs", "groups", "group_offsets", "offsets", "transactions", "replicas", "cluster")
"""In the order in which AsyncAdmin inherits them."""

WIDTH = 110

DOCSTRING = '''\
"""Admin: AsyncAdmin for callers that wait, as `Client.admin` has it. Every call returns when it is done.

Made by tools/make_admin.py from the modules of client/admin: do not edit, run `make stubs`.
"""
'''

CLASS = '''\
_T = TypeVar("_T")


class BlockingCall(Protocol):
    """Runs what is to be awaited on the client's loop, and waits for it."""

    def __call__(self, work: Coroutine[Any, Any, _T], /) -> _T: ...


class Admin:
    """Administers a cluster.

        with ottla.Client("localhost:9092") as kafka:
            kafka.admin.create_topic("orders", partitions=6)
            print(kafka.admin.list_offsets("orders", at="earliest"))

    Every call takes `timeout`, in seconds with all its retries; default_api_timeout_ms without.
    """

    def __init__(self, admin: AsyncAdmin, call: BlockingCall) -> None:
        self._admin = admin
        self._call = call
'''

ALWAYS = {
    "Any": "typing",
    "AsyncAdmin": "ottla.client.admin.async_admin",
    "Coroutine": "collections.abc",
    "Protocol": "typing",
    "TypeVar": "typing",
}


def make() -> str:
    sources = {name: ast.parse((ADMIN / f"{name}.py").read_text()) for name in SUBJECTS}
    methods = [(name, method) for name, tree in sources.items() for method in _methods(tree)]
    imports = dict(ALWAYS)
    for name, method in methods:
        known = dict(_names_of(sources[name], f"ottla.client.admin.{name}"))
        imports.update((used, known[used]) for used in _used(method) if used in known)
    body = [CLASS, *(_method(method) for _, method in methods)]
    return "\n".join([DOCSTRING, "from __future__ import annotations\n", _imports(imports), *body])


def _methods(tree: ast.Module) -> Iterator[ast.AsyncFunctionDef]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.AsyncFunctionDef) and not method.name.startswith("_"):
                    yield method


def _names_of(tree: ast.Module, module: str) -> Iterator[tuple[str, str]]:
    """Every name of a module, with where it comes from."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            yield from ((alias.name, node.module or "") for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from ((target.id, module) for target in node.targets if isinstance(target, ast.Name))


def _used(method: ast.AsyncFunctionDef) -> Iterator[str]:
    assert method.returns is not None
    for root in (method.args, method.returns):
        yield from (node.id for node in ast.walk(root) if isinstance(node, ast.Name))


def _imports(names: dict[str, str]) -> str:
    modules: dict[str, list[str]] = {}
    for name, module in names.items():
        modules.setdefault(module, []).append(name)
    ours = [module for module in sorted(modules) if module.startswith("ottla")]
    standard = [module for module in sorted(modules) if module not in ours]
    return "\n".join(
        "".join(_import(module, sorted(modules[module])) for module in each) for each in (standard, ours)
    )


def _import(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}\n"
    if len(line) <= WIDTH:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")\n"


def _method(method: ast.AsyncFunctionDef) -> str:
    assert method.returns is not None
    returns = _source(method.returns)
    documentation = ast.get_docstring(method, clean=False)
    assert documentation is not None, f"{method.name} has no docstring"
    text = _wrapped(f"    def {method.name}(", ["self", *_parameters(method.args)], f") -> {returns}:", 4)
    text += f'        """{documentation.replace("await ", "")}"""\n'
    call = _wrapped(f"        work = self._admin.{method.name}(", _arguments(method.args), ")", 8)
    result = "self._call(work)" if returns == "None" else "return self._call(work)"
    return f"{text}{call}        {result}\n"


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    plain = arguments.args[1:]
    missing = len(plain) - len(arguments.defaults)
    for index, each in enumerate(plain):
        yield _parameter(each, arguments.defaults[index - missing] if index >= missing else None)
    if arguments.kwonlyargs:
        yield "*"
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(each, default)


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    assert argument.annotation is not None
    text = f"{argument.arg}: {_source(argument.annotation)}"
    return text if default is None else f"{text} = {_source(default)}"


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    yield from (each.arg for each in arguments.args[1:])
    yield from (f"{each.arg}={each.arg}" for each in arguments.kwonlyargs)


def _wrapped(start: str, items: Iterable[str], end: str, indent: int) -> str:
    """As the formatter lays it out: on one line, or inside on one line, or one line each."""
    listed = list(items)
    line = f"{start}{', '.join(listed)}{end}\n"
    if len(line) <= WIDTH + 1:
        return line
    inside = " " * (indent + 4)
    line = f"{inside}{', '.join(listed)}\n"
    if len(line) > WIDTH + 1:
        line = "".join(f"{inside}{each},\n" for each in listed)
    return f"{start}\n{line}{' ' * indent}{end}\n"


def _source(node: ast.expr) -> str:
    return ast.unparse(node).replace("'", '"')


def main() -> int:
    made = make()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(made)
        return 0
    if TARGET.read_text() != made:
        print(f"{TARGET} is stale: run `make stubs`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
