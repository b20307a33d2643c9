"""The items of a request: what may go to different brokers, and what can fail one by one.

An item has a key: a partition, a topic, a group, a resource. `Items` finds the keys of a request, makes the same
request for some of them, reads the error code that a response has for each, and merges responses in the order in
which the request named its items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.client.topic_partition import TopicPartition
from ottla.wire import Message, WireStruct

ItemKey = Hashable
_S = TypeVar("_S", bound=WireStruct)


def replaced(struct: _S, **changes: Any) -> _S:
    """A shallow copy with other values in some fields."""
    fields = {name: getattr(struct, name) for name in struct.FIELDS}
    fields["unknown_tagged_fields"] = struct.unknown_tagged_fields
    return type(struct)(**(fields | changes))


class Items(ABC):
    """Where the items of one API are, in its requests and responses."""

    @abstractmethod
    def keys(self, request: Message) -> list[ItemKey]:
        """In the order of the request; each once."""

    @abstractmethod
    def request_for(self, request: Message, keys: Sequence[ItemKey]) -> Message:
        """The request for these items only."""

    @abstractmethod
    def codes(self, response: Message) -> dict[ItemKey, int]:
        """The error code of each item that the response names."""

    @abstractmethod
    def response_for(self, response: Message, keys: Sequence[ItemKey]) -> Message:
        """The response about these items only."""

    def merge(self, request: Message, responses: Sequence[Message]) -> Message:
        """One response out of several."""
        if len(responses) == 1:
            return responses[0]
        return self._in_order(request, _concatenated(responses))

    def _in_order(self, request: Message, response: Message) -> Message:
        return response

    def code_of(self, response: Message, codes: Mapping[ItemKey, int], key: ItemKey) -> int:
        """The item's own error code, or the one that stands for the whole response."""
        whole: int = getattr(response, "error_code", 0)
        return codes.get(key, 0) or whole


@dataclass(frozen=True)
class WholeRequest(Items):
    """A request that is not divided; its key is the value of one field, where one says where it goes."""

    field: str | None = None

    def keys(self, request: Message) -> list[ItemKey]:
        return [None if self.field is None else getattr(request, self.field)]

    def request_for(self, request: Message, keys: Sequence[ItemKey]) -> Message:
        return request

    def codes(self, response: Message) -> dict[ItemKey, int]:
        return {}

    def response_for(self, response: Message, keys: Sequence[ItemKey]) -> Message:
        return response


@dataclass(frozen=True)
class CommittedOffsets(WholeRequest):
    """The offsets of one group: what is wrong with its coordinator is the error code of partitions."""

    coordinator_errors: frozenset[int] = frozenset()

    def code_of(self, response: Message, codes: Mapping[ItemKey, int], key: ItemKey) -> int:
        found = (
            partition.error_code
            for topic in response.topics  # type: ignore[attr-defined]
            for partition in topic.partitions
        )
        return next((code for code in found if code in self.coordinator_errors), 0)


@dataclass(frozen=True)
class Listed(Items):
    """One list of items in the request, one in the response; the key is one field or several, or the item itself."""

    in_request: str
    in_response: str
    request_key: tuple[str, ...]
    """Empty where the request lists the keys themselves."""
    response_key: tuple[str, ...]

    def keys(self, request: Message) -> list[ItemKey]:
        return list(dict.fromkeys(_key(item, self.request_key) for item in getattr(request, self.in_request)))

    def request_for(self, request: Message, keys: Sequence[ItemKey]) -> Message:
        return _kept(request, self.in_request, self.request_key, keys)

    def codes(self, response: Message) -> dict[ItemKey, int]:
        return {
            _key(item, self.response_key): item.error_code
            for item in getattr(response, self.in_response)
            if "error_code" in item.FIELDS
        }

    def response_for(self, response: Message, keys: Sequence[ItemKey]) -> Message:
        return _kept(response, self.in_response, self.response_key, keys)

    def _in_order(self, request: Message, response: Message) -> Message:
        order = {key: index for index, key in enumerate(self.keys(request))}
        found = sorted(
            getattr(response, self.in_response),
            key=lambda item: order.get(_key(item, self.response_key), len(order)),
        )
        return replaced(response, **{self.in_response: found})


@dataclass(frozen=True)
class Nested(Items):
    """Partitions within topics, in the request and in the response; the key is a TopicPartition."""

    topic: str
    in_request: str
    """The field of a topic that has its partitions, in the request."""
    request_index: str | None
    """The number of a partition; None where `in_request` lists the numbers themselves."""
    response_index: str

    def keys(self, request: Message) -> list[ItemKey]:
        return list(
            dict.fromkeys(
                TopicPartition(getattr(topic, self.topic), self._request_index(item))
                for topic in request.topics  # type: ignore[attr-defined]
                for item in getattr(topic, self.in_request)
            )
        )

    def request_for(self, request: Message, keys: Sequence[ItemKey]) -> Message:
        return self._part(request, self.in_request, self._request_index, keys)

    def codes(self, response: Message) -> dict[ItemKey, int]:
        return {
            TopicPartition(getattr(topic, self.topic), self._response_index(item)): item.error_code
            for topic in response.topics  # type: ignore[attr-defined]
            for item in topic.partitions
        }

    def response_for(self, response: Message, keys: Sequence[ItemKey]) -> Message:
        return self._part(response, "partitions", self._response_index, keys)

    def _in_order(self, request: Message, response: Message) -> Message:
        found = {
            TopicPartition(getattr(topic, self.topic), self._response_index(item)): (topic, item)
            for topic in response.topics  # type: ignore[attr-defined]
            for item in topic.partitions
        }
        topics: dict[str, Any] = {}
        for key in [*self.keys(request), *found]:
            if key not in found:
                continue
            topic, item = found.pop(key)
            name = getattr(topic, self.topic)
            if name not in topics:
                topics[name] = replaced(topic, partitions=[])
            topics[name].partitions.append(item)
        return replaced(response, topics=list(topics.values()))

    def _request_index(self, item: Any) -> int:
        index: int = item if self.request_index is None else getattr(item, self.request_index)
        return index

    def _response_index(self, item: Any) -> int:
        index: int = getattr(item, self.response_index)
        return index

    def _part(self, message: Message, field: str, index: Any, keys: Sequence[ItemKey]) -> Message:
        requested = dict.fromkeys(keys)
        topics = []
        for topic in message.topics:  # type: ignore[attr-defined]
            name = getattr(topic, self.topic)
            kept = [item for item in getattr(topic, field) if TopicPartition(name, index(item)) in requested]
            if kept:
                topics.append(replaced(topic, **{field: kept}))
        return replaced(message, topics=topics)


def _key(item: Any, fields: tuple[str, ...]) -> ItemKey:
    if not fields:
        key: ItemKey = item
        return key
    if len(fields) == 1:
        key = getattr(item, fields[0])
        return key
    return tuple(getattr(item, field) for field in fields)


def _kept(message: Message, field: str, by: tuple[str, ...], keys: Iterable[ItemKey]) -> Message:
    requested = dict.fromkeys(keys)
    return replaced(
        message, **{field: [item for item in getattr(message, field) if _key(item, by) in requested]}
    )


def _concatenated(responses: Sequence[Message]) -> Message:
    """Lists behind one another, the longest throttling, the first error."""
    first = responses[0]
    changes: dict[str, Any] = {}
    for name in first.FIELDS:
        values = [getattr(response, name) for response in responses]
        if isinstance(values[0], list):
            changes[name] = [item for value in values for item in value or ()]
        elif name == "throttle_time_ms":
            changes[name] = max(values)
        elif name == "error_code":
            changes[name] = next((value for value in values if value), 0)
        elif name == "error_message":
            changes[name] = next((value for value in values if value), None)
    return replaced(first, **changes)
