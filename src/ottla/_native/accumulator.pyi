from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, final

from typing_extensions import Buffer

from ottla._native.outgoing import Delivery, EncodedBatch

_Headers: TypeAlias = Sequence[tuple[str, Buffer | None]] | Mapping[str, Buffer | None]

class BufferFull(BufferError): ...

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
    def append(
        self,
        key: Buffer | None,
        value: Buffer | None,
        headers: _Headers | None = None,
        timestamp: int | None = None,
    ) -> Delivery: ...
    def drain(self, max_bytes: int | None = None, force: bool = False) -> list[EncodedBatch]: ...

@final
class Accumulator:
    def __init__(
        self,
        *,
        batch_size: int,
        max_bytes: int,
        max_record_size: int = 2147483647,
        clock: Callable[[], int] | None = None,
        monotonic: Callable[[], float] | None = None,
        wake: Callable[[RecordBuffer, bool], object] | None = None,
    ) -> None: ...
    @property
    def bytes(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def used_bytes(self) -> int: ...
    @property
    def max_bytes(self) -> int: ...
    def append(
        self,
        topic: str,
        partition: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: _Headers | None = None,
        timestamp: int | None = None,
    ) -> Delivery: ...
    def buffer(self, topic: str, partition: int) -> RecordBuffer: ...
    def buffers(self) -> list[RecordBuffer]: ...
    def drain(
        self, topic: str, partition: int, max_bytes: int | None = None, force: bool = False
    ) -> list[EncodedBatch]: ...
    def ready(self, now: float, linger: float) -> tuple[list[RecordBuffer], float | None]: ...
