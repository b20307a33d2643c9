from collections.abc import Sequence

from typing_extensions import Buffer

BATCH_LAYOUT: dict[str, int]

def inspect(
    data: Buffer,
    count: int,
    base_timestamp: int,
    *,
    earliest: int,
    latest: int,
    keys_required: bool,
) -> tuple[bool, int, Sequence[tuple[int, int, bool]]]: ...
