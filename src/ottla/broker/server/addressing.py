"""Which topics and partitions a message is about, whatever its API calls those fields.

Faults are aimed with it, and answers patched. It knows the handful of words that Kafka's messages use for a topic
and for a partition, and nothing about any one API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from ottla.wire import Uuid, WireStruct

NO_PARTITION: Final = -1
"""Of a topic that a message names without saying which of its partitions."""

TopicName = Callable[[Uuid], str | None]

_TOPIC_LISTS: Final = ("topics", "topic_data", "responses", "data")
_PARTITION_LISTS: Final = ("partitions", "partition_data", "partition_responses", "partition_indexes")
_TOPIC_NAMES: Final = ("name", "topic", "topic_name")
_PARTITION_NUMBERS: Final = ("partition_index", "partition", "index")


def addressed(message: Any, topic_name: TopicName) -> Iterator[tuple[str, int, WireStruct | None]]:
    """(topic, partition, the structure that stands for it in the message) for each of them."""
    for topic in _elements(message, _TOPIC_LISTS):
        name = topic if isinstance(topic, str) else _name(topic, topic_name)
        if name is None:
            continue
        partitions = _elements(topic, _PARTITION_LISTS)
        if not partitions:
            yield name, NO_PARTITION, topic if isinstance(topic, WireStruct) else None
        for partition in partitions:
            if isinstance(partition, int):
                yield name, partition, None
            else:
                yield name, _first(partition, _PARTITION_NUMBERS), partition


def set_error(message: Any, partitions: list[tuple[str, int]], code: int, topic_name: TopicName) -> None:
    """Gives these partitions of a response an error code; a whole response, where it names none."""
    patched = False
    for topic, partition, struct in addressed(message, topic_name):
        if (topic, partition) in partitions and struct is not None and "error_code" in struct.FIELDS:
            struct.error_code = code  # type: ignore[attr-defined]
            patched = True
    if not patched and "error_code" in message.FIELDS:
        message.error_code = code


def _elements(holder: Any, names: tuple[str, ...]) -> list[Any]:
    found = _first(holder, names)
    return found if isinstance(found, list) else []


def _name(topic: Any, topic_name: TopicName) -> str | None:
    name = _first(topic, _TOPIC_NAMES)
    if name:
        return str(name)
    topic_id = getattr(topic, "topic_id", None)
    return topic_name(topic_id) if topic_id is not None else None


def _first(holder: Any, names: tuple[str, ...]) -> Any:
    return next((getattr(holder, name) for name in names if hasattr(holder, name)), None)
