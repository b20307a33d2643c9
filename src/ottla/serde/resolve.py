"""From what a user writes for a serializer or a deserializer to what the client calls.

Everything that can be refused is refused here, when the client is made, and not at its first record.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias
from uuid import UUID

from ottla.errors import ConfigurationError
from ottla.serde.calls import (
    Deserialize,
    Serialize,
    deserialize_in_context,
    deserialize_plain,
    serialize_in_context,
    serialize_plain,
)
from ottla.serde.context import Deserializer, Field, Serde, Serializer
from ottla.serde.formats import BYTES, FLOAT32, FLOAT64, INT32, INT64, JSON, STR, UUID_TEXT

SerializerSpec: TypeAlias = str | Serde[Any] | Serializer[Any] | Callable[[Any], bytes]
DeserializerSpec: TypeAlias = str | Serde[Any] | Deserializer[Any] | Callable[[bytes], Any]

NAMES: Final[Mapping[str, Serde[Any]]] = MappingProxyType(
    {
        "bytes": BYTES,
        "str": STR,
        "int32": INT32,
        "int64": INT64,
        "float32": FLOAT32,
        "float64": FLOAT64,
        "uuid": UUID_TEXT,
        "json": JSON,
    }
)

# Callable, but never what was meant: bytes(5) is five zeros, and str(b"a") is "b'a'".
_TYPES: Final[Mapping[type, str]] = MappingProxyType(
    {
        bytes: "'bytes'",
        str: "'str'",
        int: "'int32' or 'int64'",
        float: "'float32' or 'float64'",
        UUID: "'uuid'",
        dict: "'json'",
        list: "'json'",
    }
)


def resolve_serializer(spec: SerializerSpec, field: Field) -> Serialize | None:
    """What to call for each key or value; None for "bytes", where there is nothing to call.

    >>> resolve_serializer("int32", "key")(7, "orders", [])
    b'\\x00\\x00\\x00\\x07'
    """
    option = f"{field} serializer"
    serde = _named(spec, option) if isinstance(spec, str) else spec
    if serde is BYTES:
        return None
    if isinstance(serde, Serde):
        return serialize_plain(_synchronous(serde.serializer, option), field, serde.expects)
    _refuse_types(serde, "serialize", option)
    if isinstance(serde, Serializer):
        _synchronous(serde.serialize, option)
        return serialize_in_context(serde, field)
    if callable(serde):
        return serialize_plain(_synchronous(serde, option), field, None)
    _refuse(serde, "serialize(value, context)", option)


def resolve_deserializer(spec: DeserializerSpec, field: Field) -> Deserialize | None:
    """What to call for each fetched key or value; None for "bytes", where there is nothing to call."""
    option = f"{field} deserializer"
    serde = _named(spec, option) if isinstance(spec, str) else spec
    if serde is BYTES:
        return None
    if isinstance(serde, Serde):
        return deserialize_plain(_synchronous(serde.deserializer, option), field, serde.expects)
    _refuse_types(serde, "deserialize", option)
    if isinstance(serde, Deserializer):
        _synchronous(serde.deserialize, option)
        return deserialize_in_context(serde, field)
    if callable(serde):
        return deserialize_plain(_synchronous(serde, option), field, None)
    _refuse(serde, "deserialize(data, context)", option)


def _named(name: str, option: str) -> Serde[Any]:
    if name in NAMES:
        return NAMES[name]
    nearest = difflib.get_close_matches(name.lower(), NAMES, 1)
    meant = f", perhaps {nearest[0]!r} is meant" if nearest else ""
    raise ConfigurationError(
        f"there is no {option} {name!r}{meant}; the names are {', '.join(NAMES)}",
        option=option.replace(" ", "_"),
        value=name,
    )


def _synchronous(function: Callable[..., Any], option: str) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):
        raise TypeError(
            f"the {option} {function!r} is async: it is called for each record and cannot be awaited"
        )
    return function


def _refuse_types(spec: object, method: str, option: str) -> None:
    if not isinstance(spec, type):
        return
    if spec in _TYPES:
        raise TypeError(
            f"the {option} is {spec.__name__}, the type: {_TYPES[spec]} is meant, as text, or a function of your own"
        )
    if hasattr(spec, method):
        raise TypeError(f"the {option} is {spec.__name__}, the class: give an instance of it")


def _refuse(spec: object, method: str, option: str) -> NoReturn:
    names = ", ".join(NAMES)
    raise TypeError(
        f"the {option} is {spec!r}: it must be a callable, an object with {method}, or a name: {names}"
    )
