"""Nothing depends on the order of a set: it changes with the hash seed, and a run would not replay.

Flags every way to see that order: loops, comprehensions, list(), next(iter()), unpacking, pop(), join.
Whatever forgets it is fine: sorted(), len(), sum(), any(), another set. So is a dict, which keeps insertion
order. A deliberate exception is a comment on the line, with its reason:

    for waiter in self.waiters:  # order does not matter: each only sets its own flag
"""

import ast
import re
from collections.abc import Iterable, Iterator

from tests.architecture.sets import (
    SET,
    Function,
    Kind,
    Knowledge,
    annotated_kind,
    last_name,
    learn,
    parameters,
)
from tests.architecture.source import Source, Violation

ORDERED = frozenset({"client", "broker", "sim", "net", "wire"})

# Calls whose answer is the same for every order of what they are given. (A key that leaves ties open is not
# seen for sorted(), where most keys are total; for min() and max() it is: see visit_Call.)
_ORDER_FREE = frozenset({"sorted", "len", "min", "max", "sum", "any", "all", "set", "frozenset"})
_ORDER_FREE_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference", "isdisjoint"})
# Calls that keep the order they are given, so they are fine inside the ones above.
_KEEP_ORDER = frozenset({"list", "tuple", "iter", "map", "filter"})
_SHOW_ORDER = frozenset(
    {"enumerate", "zip", "deque", "chain", "from_iterable", "fromkeys", "islice", "cycle", "extend", "join"}
)
_EXCUSE = re.compile(r"#\s*order does not matter\b:?\s*(.*)")


def unordered_iteration(sources: Iterable[Source]) -> Iterator[Violation]:
    """Every place in a layer of the simulation that lets the order of a set be seen."""
    for source in sources:
        if source.package == "ottla" and source.layer in ORDERED:
            walk = _Walk(source)
            walk.visit(source.tree)
            yield from walk.found


class _Walk(ast.NodeVisitor):
    """Reads a module top to bottom, so that `names = sorted(names)` ends a name's life as a set."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.known: Knowledge = learn(source.tree)
        self.found: list[Violation] = []
        self._order_free: set[ast.AST] = set()

    def _check(self, node: ast.expr, what: str) -> None:
        if self.known.kind(node) == SET:
            self._flag(
                node,
                f"{what} a set, in an order that changes with the hash seed: use sorted(), or a dict or list",
            )

    def _flag(self, node: ast.expr, advice: str) -> None:
        lines = self.source.lines[node.lineno - 1 : node.end_lineno]
        excuses = [match[1] for line in lines if (match := _EXCUSE.search(line))]
        if any(excuses):
            return
        if excuses:
            advice = "`# order does not matter:` needs its reason behind the colon"
        self.found.append(self.source.violation(node.lineno, advice))

    # Scopes

    def visit_FunctionDef(self, node: Function) -> None:
        for outside in [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(outside)
        self._scope(node.body, dict(parameters(node)))

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._scope([node.body], dict(parameters(node)))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        outer, self.known.current_class = self.known.current_class, node.name
        self._scope(node.body, {})
        self.known.current_class = outer

    def _scope(self, body: Iterable[ast.AST], names: dict[str, Kind | None]) -> None:
        outer, self.known.names = self.known.names, self.known.names | names
        for node in body:
            self.visit(node)
        self.known.names = outer

    # Names that become sets, or cease to be

    def _bind(self, target: ast.expr, kind: Kind | None) -> None:
        if isinstance(target, ast.Name):
            self.known.names[target.id] = kind
        elif isinstance(target, ast.Tuple | ast.List):
            for element in target.elts:
                self._bind(element, None)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, None)

    def _bind_element(self, target: ast.expr, iterated: ast.expr) -> None:
        self._bind(target, self.known.element(iterated))
        match target, iterated:
            case ast.Tuple(elts=[_, value]), ast.Call(func=ast.Attribute(value=mapping, attr="items")):
                held = self.known.kind(mapping)
                self._bind(value, held.inner if held else None)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)
            if isinstance(target, ast.Tuple | ast.List) and isinstance(node.value, ast.Tuple):
                self._bind(target, None)
                for part, value in zip(target.elts, node.value.elts, strict=False):
                    self._bind(part, self.known.kind(value))
                continue
            # `(only,) = members` raises unless there is one member, and one member has one order.
            if isinstance(target, ast.Tuple | ast.List) and len(target.elts) > 1:
                self._check(node.value, "unpacks")
            self._bind(target, self.known.kind(node.value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        value = self.known.kind(node.value) if node.value else None
        self.generic_visit(node)
        self._bind(node.target, annotated_kind(node.annotation) or value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._bind(node.target, self.known.kind(node.value))

    # Ways to see the order

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._check(node.iter, "loops over")
        self._bind_element(node.target, node.iter)
        for statement in [*node.body, *node.orelse]:
            self.visit(statement)

    visit_AsyncFor = visit_For  # noqa: N815

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp) -> None:
        outer, self.known.names = self.known.names, dict(self.known.names)
        for part in node.generators:
            self.visit(part.iter)
            if not isinstance(node, ast.SetComp) and node not in self._order_free:
                self._check(part.iter, "loops over")
            self._bind_element(part.target, part.iter)
            for condition in part.ifs:
                self.visit(condition)
        for element in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            self.visit(element)
        self.known.names = outer

    visit_ListComp = visit_GeneratorExp = visit_DictComp = visit_SetComp = _comprehension  # noqa: N815

    def visit_Starred(self, node: ast.Starred) -> None:
        if isinstance(node.ctx, ast.Load) and node not in self._order_free:
            self._check(node.value, "unpacks")
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        self._order_free.update(node.elts)
        self.generic_visit(node)

    def visit_List(self, node: ast.List | ast.Tuple) -> None:
        if node in self._order_free:
            self._order_free.update(node.elts)
        self.generic_visit(node)

    visit_Tuple = visit_List  # noqa: N815

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        self._check(node.value, "yields from")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        plain = node.func.id if isinstance(node.func, ast.Name) else None
        has_key = any(keyword.arg == "key" for keyword in node.keywords)
        if plain in ("min", "max") and has_key:
            for argument in node.args:
                self._check(argument, f"{plain}() with a key picks among equals from")
        elif self._forgets_order(node, plain):
            self._order_free.update(node.args)
        elif plain in _KEEP_ORDER or last_name(node.func) in _SHOW_ORDER:
            for argument in node.args:
                self._check(argument, f"{last_name(node.func)}() shows the order of")
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and not node.args:
            self._check(node.func.value, "pop() takes whichever comes first from")
        self.generic_visit(node)

    def _forgets_order(self, node: ast.Call, plain: str | None) -> bool:
        if isinstance(node.func, ast.Attribute):
            into_set = node.func.attr == "update" and self.known.kind(node.func.value) == SET
            return into_set or node.func.attr in _ORDER_FREE_METHODS
        return plain in _ORDER_FREE or (plain in _KEEP_ORDER and node in self._order_free)
