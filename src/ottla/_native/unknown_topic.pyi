from typing import final

from typing_extensions import Buffer

from ottla._native.accumulator import Accumulator
from ottla._native.appender import TopicAppender
from ottla._native.deliveries import Delivery
from ottla._native.record_buffer import Headers

@final
class UnknownTopicBuffer:
    def __init__(self, accumulator: Accumulator, topic: str) -> None: ...
    @property
    def topic(self) -> str: ...
    @property
    def records(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def opened_at(self) -> float | None: ...
    def append(
        self,
        key: Buffer | None,
        value: Buffer | None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery: ...
    def release(self, appender: TopicAppender) -> tuple[int, BaseException | None]: ...
    def fail(self, error: BaseException) -> int: ...
    def retire(self) -> bool: ...
