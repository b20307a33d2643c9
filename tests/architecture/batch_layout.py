"""One module knows where the fields of a record batch lie: `wire/batch_header.py`.

A second place is found by its looks: the layout of a header, or of the part of it that a walk over batches reads; a
constant that names a position; an index or a slice that is one; a bit of the attributes as a number.
"""

import ast
from collections.abc import Iterable, Iterator

from ottla.wire import batch_header
from tests.architecture.source import Source, Violation

HOME = "wire/batch_header.py"

POSITIONS = frozenset(
    value for name, value in vars(batch_header).items() if name.endswith("_AT") and value
) | {batch_header.BATCH_OVERHEAD}
_TELLING = POSITIONS - {batch_header.LENGTH_AT, batch_header.LOG_OVERHEAD}
_SIZES = frozenset(
    {
        batch_header.BATCH_OVERHEAD,
        batch_header.LOG_OVERHEAD,
        batch_header.SMALLEST_MESSAGE,
        batch_header.SMALLEST_LENGTH,
    }
)
_LAYOUTS = frozenset(
    layout.format
    for layout in (
        batch_header.HEADER,
        batch_header.PREFIX,
        batch_header.OFFSETS,
        batch_header.EPOCH_AND_DELTA,
    )
)
_STRUCTS = frozenset(
    f"struct.{name}" for name in ("Struct", "pack", "unpack", "pack_into", "unpack_from", "iter_unpack")
)
_SIZE_WORDS = ("OVERHEAD", "HEADER", "SMALLEST")


def second_homes(sources: Iterable[Source]) -> Iterator[Violation]:
    """Modules that write down what batch_header.py says."""
    for source in sources:
        if source.inside == HOME:
            continue
        for node in source.nodes:
            found = _layout(node, source) or _constant(node) or _index(node) or _bit(node)
            if found is not None:
                yield source.violation(
                    getattr(node, "lineno", 1),
                    f"{found} looks like a part of a batch's header: import its name from ottla.wire.batch_header",
                )


def _layout(node: ast.AST, source: Source) -> str | None:
    if not isinstance(node, ast.Call) or source.dotted(node.func) not in _STRUCTS or not node.args:
        return None
    layout = _value(node.args[0])
    return repr(layout) if isinstance(layout, str) and layout in _LAYOUTS else None


def _constant(node: ast.AST) -> str | None:
    """`_MAGIC_AT = 16`, `LOG_OVERHEAD: Final = 12`, `_OLD_HEADER = 26`."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target: ast.expr = node.targets[0]
    elif isinstance(node, ast.AnnAssign):
        target = node.target
    else:
        return None
    if not isinstance(target, ast.Name):
        return None
    value = _value(node.value)
    is_position = target.id.endswith("_AT") and value in POSITIONS
    is_size = any(word in target.id for word in _SIZE_WORDS) and value in _SIZES
    return f"{target.id} = {value}" if is_position or is_size else None


def _index(node: ast.AST) -> str | None:
    """`batch[16]`, `batch[17:21]`, `batch[61:]`; not at 8 and 12, where other things are cut too."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load | ast.Store):
        return None
    at = node.slice.lower if isinstance(node.slice, ast.Slice) else node.slice
    return f"[{ast.unparse(node.slice)}]" if _value(at) in _TELLING else None


def _bit(node: ast.AST) -> str | None:
    """`attributes & 7`, `batch.attributes & 0x10`, `attributes |= 0x08`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        left, right = node.left, node.right
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        left, right = node.target, node.value
    else:
        return None
    name = left.attr if isinstance(left, ast.Attribute) else getattr(left, "id", "")
    return ast.unparse(node) if name == "attributes" and isinstance(_value(right), int) else None


def _value(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None
