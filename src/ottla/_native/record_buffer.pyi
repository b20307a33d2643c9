from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, final, overload

from typing_extensions import Buffer

from ottla._native.deliveries import Delivery
from ottla._native.outgoing import EncodedBatch

Headers: TypeAlias = Sequence[tuple[str, Buffer | None]] | Mapping[str, Buffer | None]

class BufferFull(BufferError):
    limit: Literal["bytes", "records"]
    def __init__(self, text: str, limit: Literal["bytes", "records"] = "bytes") -> None: ...

class BufferRetired(Exception): ...

@final
class RecordBuffer:
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def full_batches(self) -> int: ...
    @property
    def opened_at(self) -> float | None: ...
    @overload
    def append(
        self,
        key: Buffer | None,
        value: Buffer | None,
        headers: Headers | None = None,
        timestamp: int | None = None,
        opens: Literal[True] = True,
    ) -> Delivery: ...
    @overload
    def append(
        self,
        key: Buffer | None,
        value: Buffer | None,
        headers: Headers | None = None,
        timestamp: int | None = None,
        *,
        opens: bool,
    ) -> Delivery | None: ...
    def drain(self, max_bytes: int | None = None, force: bool = False) -> list[EncodedBatch]: ...
