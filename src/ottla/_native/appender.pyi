from collections.abc import Mapping
from typing import Any, Protocol, final

from typing_extensions import Buffer

from ottla._native.accumulator import Accumulator
from ottla._native.deliveries import Delivery
from ottla._native.record_buffer import Headers, RecordBuffer
from ottla._native.sticky import Load

class Chooser(Protocol):
    def choose(self, key: bytes | None, value: bytes | None, size: int, load: Load) -> int: ...
    def on_new_batch(self, partition: int) -> bool: ...

@final
class TopicAppender:
    def __init__(self, accumulator: Accumulator, topic: str, partitioner: Chooser, load: Load) -> None: ...
    @property
    def topic(self) -> str: ...
    @property
    def partitions(self) -> int: ...
    def append(
        self,
        key: Buffer | None,
        value: Buffer | None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery: ...
    def update(self, load: Load) -> None: ...

class Appender(Protocol):
    def append(
        self,
        key: Any,
        value: Any,
        headers: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        /,
    ) -> Delivery: ...

class ThreadProducer:
    _appenders: Mapping[str, Appender]
    _dirty: Mapping[RecordBuffer, bool]
    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery: ...
