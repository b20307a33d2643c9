"""The column `partition` of a table whose rows take turns: filled in for all rows at once, where there is none.

Whose turn it is, is the partitioner's (partitioners/base.py, IN_TURN). Needs pyarrow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla import _extras


def in_turn(whole: Any, turns: Callable[[int], Sequence[int]]) -> Any:
    """A pyarrow.Table with every row's partition; `turns(count)` gives those of the rows that name none."""
    arrow = _extras.require("pyarrow", extra="columns", purpose="producing a table round robin")
    place = whole.schema.get_field_index("partition")
    if place < 0:
        return whole.append_column("partition", _column(arrow, turns(whole.num_rows)))
    named = whole.column(place).cast(arrow.int32()).combine_chunks()
    if named.null_count == 0:
        return whole
    compute = _extras.require("pyarrow.compute", extra="columns", purpose="producing a table round robin")
    filled = compute.replace_with_mask(named, named.is_null(), _column(arrow, turns(named.null_count)))
    return whole.set_column(place, "partition", filled)


def _column(arrow: Any, partitions: Sequence[int]) -> Any:
    try:
        data = arrow.py_buffer(memoryview(partitions))  # type: ignore[arg-type]
    except TypeError:
        return arrow.array(partitions, arrow.int32())
    return arrow.Array.from_buffers(arrow.int32(), len(partitions), [None, data])
