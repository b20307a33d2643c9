from collections.abc import Sequence

from typing_extensions import Buffer

def inspect(
    data: Buffer,
    count: int,
    base_timestamp: int,
    *,
    earliest: int,
    latest: int,
    keys_required: bool,
) -> tuple[bool, int, Sequence[tuple[int, int, bool]]]: ...
