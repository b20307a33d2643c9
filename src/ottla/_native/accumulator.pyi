from collections.abc import Callable
from typing import final

from typing_extensions import Buffer

from ottla._native.deliveries import Delivery
from ottla._native.outgoing import EncodedBatch
from ottla._native.record_buffer import Headers, RecordBuffer

@final
class Accumulator:
    def __init__(
        self,
        *,
        batch_size: int,
        max_bytes: int,
        max_records: int = 0,
        max_record_size: int = 2147483647,
        clock: Callable[[], int] | None = None,
        monotonic: Callable[[], float] | None = None,
        wake: Callable[[RecordBuffer, bool], object] | None = None,
        wait: Callable[[Delivery, float | None], object] | None = None,
        unlinger: Callable[[str, int], object] | None = None,
    ) -> None: ...
    @property
    def bytes(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def used_bytes(self) -> int: ...
    @property
    def max_bytes(self) -> int: ...
    @property
    def used_records(self) -> int: ...
    @property
    def max_records(self) -> int: ...
    def close(self, error: BaseException) -> None: ...
    def disconnect(self) -> None: ...
    def forget(self, topic: str) -> bool: ...
    def append(
        self,
        topic: str,
        partition: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Headers | None = None,
        timestamp: int | None = None,
    ) -> Delivery: ...
    def buffer(self, topic: str, partition: int) -> RecordBuffer: ...
    def buffers(self) -> list[RecordBuffer]: ...
    def drain(
        self, topic: str, partition: int, max_bytes: int | None = None, force: bool = False
    ) -> list[EncodedBatch]: ...
    def ready(self, now: float, linger: float) -> tuple[list[RecordBuffer], float | None]: ...
