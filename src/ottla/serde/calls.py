"""The form in which the client calls a serializer, whatever the user gave: None and errors are dealt with here.

Invariants: None passes and is never handed on. What comes out of a serializer is bytes. What fails is a
SerializationError or a DeserializationError with the user's own error as its cause; only what is no Exception
(cancellation, Ctrl-C) passes as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ottla.errors import DeserializationError, SerializationError
from ottla.serde.context import Deserializer, Field, Headers, RawRecord, SerdeContext, Serializer

Serialize: TypeAlias = Callable[[Any, str, Headers], bytes | None]
"""(value, topic, headers) -> bytes; the headers are a list of the record's own, which a serializer may add to."""

Deserialize: TypeAlias = Callable[[bytes | None, RawRecord], Any]
"""(data, the record that it is a part of) -> value."""


def serialize_plain(function: Callable[[Any], bytes], field: Field, expects: str | None) -> Serialize:
    """For a callable that takes the value and nothing else."""
    expected = expects or f"what {_name(function)} takes"

    def serialize(value: Any, topic: str, headers: Headers) -> bytes | None:
        if value is None:
            return None
        try:
            data = function(value)
        except Exception as error:
            raise _not_serialized(topic, field, value, expected, error) from error
        return data if type(data) is bytes else _as_bytes(data, topic, field, function)

    return serialize


def serialize_in_context(serializer: Serializer[Any], field: Field) -> Serialize:
    """For an object that wants to know the topic and the headers."""
    expected = f"what {_name(serializer)} takes"

    def serialize(value: Any, topic: str, headers: Headers) -> bytes | None:
        if value is None:
            return None
        try:
            data = serializer.serialize(value, SerdeContext(topic, field, headers))
        except Exception as error:
            raise _not_serialized(topic, field, value, expected, error) from error
        return data if type(data) is bytes else _as_bytes(data, topic, field, serializer)

    return serialize


def deserialize_plain(function: Callable[[bytes], Any], field: Field, expects: str | None) -> Deserialize:
    """For a callable that takes the bytes and nothing else."""
    expected = expects or f"what {_name(function)} reads"

    def deserialize(data: bytes | None, record: RawRecord) -> Any:
        if data is None:
            return None
        try:
            return function(data)
        except Exception as error:
            raise _not_deserialized(data, record, field, expected, error) from error

    return deserialize


def deserialize_in_context(deserializer: Deserializer[Any], field: Field) -> Deserialize:
    """For an object that wants to know the topic and the headers."""
    expected = f"what {_name(deserializer)} reads"

    def deserialize(data: bytes | None, record: RawRecord) -> Any:
        if data is None:
            return None
        try:
            return deserializer.deserialize(data, SerdeContext(record.topic, field, list(record.headers)))
        except Exception as error:
            raise _not_deserialized(data, record, field, expected, error) from error

    return deserialize


def _as_bytes(data: object, topic: str, field: Field, serializer: object) -> bytes:
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    expected = f"bytes when {_name(serializer)} returns it"
    received = _type_name(data)
    hint = "; for a null, produce None itself" if data is None else ""
    message = f"the {field} for topic {topic} should be {expected}, not {received}{hint}"
    raise SerializationError(message, topic=topic, field=field, expected=expected, received=received)


def _not_serialized(
    topic: str, field: Field, value: object, expected: str, error: Exception
) -> SerializationError:
    received = _type_name(value)
    message = f"the {field} for topic {topic} should be {expected}, not {received}: {_described(error)}"
    return SerializationError(message, topic=topic, field=field, expected=expected, received=received)


def _not_deserialized(
    data: bytes, record: RawRecord, field: Field, expected: str, error: Exception
) -> DeserializationError:
    where = f"offset {record.offset} of topic {record.topic}, partition {record.partition}"
    return DeserializationError(
        f"the {field} ({len(data)} bytes) at {where} is not {expected}: {_described(error)}",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        headers=record.headers,
        key=record.key,
        value=record.value,
        field=field,
        expected=expected,
    )


def _described(error: Exception) -> str:
    return f"{_type_name(error)}: {error}"


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _name(serializer: object) -> str:
    """What a user calls it: the name of a function, the class of an object."""
    name = getattr(serializer, "__qualname__", None)
    return name if isinstance(name, str) else type(serializer).__qualname__
