"""DeadLetters: records that cannot be deserialized, or processed, go to a topic of their own, as they are.

    kafka.consume("orders", value_deserializer="json", on_error=DeadLetters("orders.dead"))

The record's key, value and headers are sent unchanged; headers that begin with `ottla.dead_letter.` say where it
came from and why. Reading goes on when the record is delivered: not before, or it might be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from ottla.errors import ConfigurationError, DeserializationError
from ottla.wire.records import Delivery

_PREFIX: Final = "ottla.dead_letter."


class DeadLetterProducer(Protocol):
    """What sends them: `ottla.Client`, `ottla.AsyncClient`."""

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: list[tuple[str, bytes | None]] | None = None,
    ) -> Any:
        """A Delivery, or what gives one when it is awaited."""


class DeadLetters:
    """The topic and the producer; without a `producer`, the client that reads sends them.

    That one passes its serializers by; another one with serializers would serialize the raw bytes once more.
    """

    def __init__(self, topic: str, producer: DeadLetterProducer | None = None) -> None:
        name: object = topic
        if not isinstance(name, str) or not name:
            raise ConfigurationError(
                f"DeadLetters({topic!r}): name the topic that they go to", option="topic"
            )
        self.topic = topic
        self.producer = producer

    async def send(self, error: DeserializationError) -> None:
        """Returns when the record is delivered; raises what kept it from that."""
        await self._delivered(self._produce(error))

    async def send_record(self, record: Any, error: Exception) -> None:
        """The same, for a record that could be read and not processed."""
        await self._delivered(self._produce_record(record, error))

    async def _delivered(self, made: Any) -> None:
        delivery = made if isinstance(made, Delivery) else await made
        await delivery

    def send_blocking(
        self, error: DeserializationError, call: Callable[[Coroutine[Any, Any, Delivery]], Delivery]
    ) -> None:
        """The same in a thread that blocks; `call` has its client's loop run what an asynchronous producer gives."""
        self._block(self._produce(error), call)

    def send_record_blocking(
        self, record: Any, error: Exception, call: Callable[[Coroutine[Any, Any, Delivery]], Delivery]
    ) -> None:
        self._block(self._produce_record(record, error), call)

    def _block(self, made: Any, call: Callable[[Coroutine[Any, Any, Delivery]], Delivery]) -> None:
        delivery = made if isinstance(made, Delivery) else call(made)
        delivery.result()

    def _produce(self, error: DeserializationError) -> Any:
        self._check(error.topic)
        reasons = _reasons(error, {"field": error.field, "error": str(error)})
        return self._hand_over(error.value, error.key, [*error.headers, *reasons])

    def _produce_record(self, record: Any, error: Exception) -> Any:
        raw = getattr(record, "raw", record)
        self._check(raw.topic)
        reasons = _reasons(raw, {"error": f"{type(error).__name__}: {error}"})
        return self._hand_over(raw.value, raw.key, [*raw.headers, *reasons])

    def _check(self, topic: str) -> None:
        if topic == self.topic:
            raise ConfigurationError(
                f"DeadLetters({topic!r}): a record of that topic would be read from it again, and fail again; name "
                "another topic",
                option="topic",
            )

    def _hand_over(
        self, value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes | None]]
    ) -> Any:
        if self.producer is None:
            raise RuntimeError("DeadLetters has no producer: pass one, or use it with a client's consume()")
        return self.producer.produce(self.topic, value, key=key, headers=headers)


def _reasons(where: Any, why: dict[str, str]) -> list[tuple[str, bytes | None]]:
    reasons = {
        "topic": where.topic,
        "partition": str(where.partition),
        "offset": str(where.offset),
        "timestamp": str(where.timestamp),
        **why,
    }
    return [(_PREFIX + name, text.encode()) for name, text in reasons.items()]
