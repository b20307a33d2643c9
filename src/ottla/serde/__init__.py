"""Serializers and deserializers: what turns keys and values into bytes, and back.

A name stands for both directions:

    bytes             as it is; nothing is called
    str               UTF-8; `string("latin-1")` for another encoding
    int32, int64      big-endian, as Java's IntegerSerializer and LongSerializer
    float32, float64  IEEE 754, big-endian, as Java's FloatSerializer and DoubleSerializer
    uuid              36 characters of text, as Java's UUIDSerializer
    json              compact, in UTF-8; NaN and the infinities, which JSON does not have, are refused

Any callable is a serializer (value -> bytes) or a deserializer (bytes -> value), for instance `orjson.dumps`. One
that wants to know the topic or the headers is an object with `serialize(value, context)` or
`deserialize(data, context)`. A `Serde` is one callable for each direction.

None is null, in both directions: a record without a key, or a tombstone. It never reaches any of them, and a
serializer that returns None fails: a forgotten `return` should not delete what a compacted topic holds.

`resolve_serializer` and `resolve_deserializer` are the client's way in.
"""

from ottla.errors import DeserializationError, SerdeError, SerializationError
from ottla.serde.calls import Deserialize, Serialize
from ottla.serde.context import Deserializer, Field, Headers, RawRecord, Serde, SerdeContext, Serializer
from ottla.serde.formats import string
from ottla.serde.resolve import (
    DeserializerSpec,
    SerializerSpec,
    resolve_deserializer,
    resolve_serializer,
)

__all__ = [
    "DeserializationError",
    "Deserialize",
    "Deserializer",
    "DeserializerSpec",
    "Field",
    "Headers",
    "RawRecord",
    "Serde",
    "SerdeContext",
    "SerdeError",
    "SerializationError",
    "Serialize",
    "Serializer",
    "SerializerSpec",
    "resolve_deserializer",
    "resolve_serializer",
    "string",
]
