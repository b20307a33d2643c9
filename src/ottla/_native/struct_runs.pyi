from collections.abc import Callable, Iterable
from typing import Any, final

from typing_extensions import Buffer

@final
class StructRun:
    def __init__(
        self,
        made: type,
        fields: Iterable[tuple[str, str, bool]],
        defaults: Iterable[tuple[str, Any]],
        as_id: Callable[[bytes], Any],
    ) -> None: ...
    def decode(
        self, buf: Buffer, pos: int, end: int, items: list[Any], left: int
    ) -> tuple[int, int]: ...
