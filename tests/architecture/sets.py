"""Which expressions are evidently sets, as far as one module shows it.

No type checker: annotations, displays, set operators and assignments in the same function, class or module.
An unknown expression is no set. What may be done with a set is in ordering.py.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Kind:
    """A set, or a map or sequence whose elements are of the inner kind: dict[str, set[int]]."""

    holder: str
    inner: "Kind | None" = None


SET = Kind("set")

_SETS = frozenset({"set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet"})
_MAPS = frozenset({"dict", "Dict", "Mapping", "MutableMapping", "defaultdict", "OrderedDict"})
_SEQUENCES = frozenset({"list", "List", "Sequence", "deque", "Iterable", "Iterator", "Collection"})
_WRAPPERS = frozenset({"Optional", "Final", "ClassVar", "Annotated", "Awaitable", "Coroutine"})
_SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub)
_SET_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference"})
_VIEWS = frozenset({"keys", "items"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


def last_name(node: ast.expr | None) -> str | None:
    """`set` for `set`, `Set` for `abc.Set`: annotations and calls are told apart by their last word."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def annotated_kind(node: ast.expr | None) -> Kind | None:
    """What an annotation says."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return annotated_kind(ast.parse(node.value, mode="eval").body)
        except SyntaxError:
            return None
    if isinstance(node, ast.BinOp):
        return annotated_kind(node.left) or annotated_kind(node.right)
    if not isinstance(node, ast.Subscript):
        return SET if last_name(node) in _SETS else None
    name = last_name(node.value)
    arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name in _SETS:
        return SET
    if name in _WRAPPERS:
        return next((kind for argument in arguments if (kind := annotated_kind(argument))), None)
    inner = annotated_kind(arguments[-1])
    if inner is None:
        return None
    return Kind("map", inner) if name in _MAPS else Kind("sequence", inner) if name in _SEQUENCES else None


@dataclass
class Knowledge:
    """What a module tells about its names. `names` is the scope at hand, the rest the whole module."""

    names: dict[str, Kind | None] = field(default_factory=dict)
    returns: dict[str, Kind] = field(default_factory=dict)
    # class -> attribute -> kind; None is an attribute known to be something else.
    attributes: dict[str, dict[str, Kind | None]] = field(default_factory=dict)
    current_class: str = ""

    def kind(self, node: ast.expr) -> Kind | None:
        """The kind of an expression, None when it is nothing we know to be a set."""
        match node:
            case ast.Set() | ast.SetComp():
                return SET
            case ast.Name():
                return self.names.get(node.id)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return self._called(node)
            case ast.Subscript() if not isinstance(node.slice, ast.Slice):
                held = self.kind(node.value)
                return held.inner if held else None
            case ast.BinOp() if isinstance(node.op, _SET_OPERATORS):
                sides = (node.left, node.right)
                return SET if any(self.kind(side) == SET or _is_view(side) for side in sides) else None
            case ast.IfExp():
                return self.kind(node.body) or self.kind(node.orelse)
            case ast.BoolOp():
                return next((kind for value in node.values if (kind := self.kind(value))), None)
            case ast.NamedExpr() | ast.Await():
                return self.kind(node.value)
        return None

    def element(self, node: ast.expr) -> Kind | None:
        """The kind of what iterating over node gives; the keys of a map are never sets of ours."""
        held = self.kind(node)
        return held.inner if held and held.holder == "sequence" else None

    def _attribute(self, node: ast.Attribute) -> Kind | None:
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            own = self.attributes.get(self.current_class, {})
            if node.attr in own:
                return own[node.attr]
        # Another object: believe the name when every class of the module that has it agrees.
        claims = {attributes[node.attr] for attributes in self.attributes.values() if node.attr in attributes}
        return claims.pop() if len(claims) == 1 else None

    def _called(self, node: ast.Call) -> Kind | None:
        if isinstance(node.func, ast.Name):
            if node.func.id in ("set", "frozenset"):
                return SET
            if node.func.id == "defaultdict" and node.args:
                factory = node.args[0]
                return Kind("map", SET) if isinstance(factory, ast.Name) and factory.id in _SETS else None
            return self.returns.get(node.func.id)
        if not isinstance(node.func, ast.Attribute):
            return None
        if node.func.attr == "all_tasks":
            return SET  # asyncio's, by memory address
        method, held = node.func.attr, self.kind(node.func.value)
        if held is None:
            on_self = isinstance(node.func.value, ast.Name) and node.func.value.id in ("self", "cls")
            return self.returns.get(f"{self.current_class}.{method}") if on_self else None
        if method == "copy" or (held == SET and method in _SET_METHODS):
            return held
        if held.holder == "map" and method == "values":
            return Kind("sequence", held.inner)
        return held.inner if held != SET and method in ("get", "setdefault", "pop", "popleft") else None


def _is_view(node: ast.expr) -> bool:
    """`d.keys()`: ordered by itself, but any set operator on it makes a plain set."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS


def parameters(node: Function | ast.Lambda) -> Iterator[tuple[str, Kind | None]]:
    """Each parameter with the kind of its annotation."""
    arguments = node.args
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        yield argument.arg, annotated_kind(argument.annotation)
    for rest, holder in ((arguments.vararg, "sequence"), (arguments.kwarg, "map")):
        if rest is not None:
            inner = annotated_kind(rest.annotation)
            yield rest.arg, Kind(holder, inner) if inner else None


def learn(module: ast.Module) -> Knowledge:
    """What holds for the whole module: its own names, what its functions return, its classes' attributes."""
    known = Knowledge()
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            _learn_return(known, statement, "")
        else:
            for target, kind in _assigned(known, statement):
                if isinstance(target, ast.Name):
                    known.names[target.id] = kind
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef):
            _learn_class(known, node)
    return known


def _learn_return(known: Knowledge, function: Function, prefix: str) -> None:
    kind = annotated_kind(function.returns)
    if kind is not None:
        known.returns[prefix + function.name] = kind


def _learn_class(known: Knowledge, node: ast.ClassDef) -> None:
    attributes = known.attributes.setdefault(node.name, {})
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if any(
                last_name(decorator) in ("property", "cached_property")
                for decorator in statement.decorator_list
            ):
                attributes[statement.name] = annotated_kind(statement.returns)
            _learn_return(known, statement, f"{node.name}.")
            _learn_self(known, statement, attributes)
        else:
            for target, kind in _assigned(known, statement):
                if isinstance(target, ast.Name):
                    attributes[target.id] = kind


def _learn_self(known: Knowledge, method: Function, attributes: dict[str, Kind | None]) -> None:
    scope = Knowledge(known.names | dict(parameters(method)), known.returns, known.attributes)
    for node in ast.walk(method):
        for target, kind in _assigned(scope, node):
            if not (isinstance(target, ast.Attribute) and last_name(target.value) == "self"):
                continue
            # An attribute has one type: an assignment of unknown kind does not undo what another one shows.
            attributes[target.attr] = kind or attributes.get(target.attr)


def _assigned(known: Knowledge, node: ast.AST) -> Iterator[tuple[ast.expr, Kind | None]]:
    if isinstance(node, ast.AnnAssign):
        yield node.target, annotated_kind(node.annotation) or (known.kind(node.value) if node.value else None)
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield target, known.kind(node.value)
