"""The classes of messages: made from the schema, one per message, for all its versions.

A message knows every field that any of its versions has; the version is chosen when it is written or read.
Codecs are compiled on first use and kept. Public names are in messages.py.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, Self

from ottla.errors import DecodeError, EncodeError
from ottla.wire.codegen import FunctionSource, default_source
from ottla.wire.decoder import Decoder, compile_decoder
from ottla.wire.encoder import Encoder, compile_encoder
from ottla.wire.primitives import ZERO_UUID, Buffer
from ottla.wire.schema import MessageSchema, StructSchema, Versions, message_schema

_SHOWN_BYTES = 32


class WireStruct:
    """Named fields, each with a default; compared by value, and not hashable."""

    __slots__ = ("unknown_tagged_fields",)

    FIELDS: ClassVar[tuple[str, ...]]
    _values: ClassVar[Any]

    unknown_tagged_fields: dict[int, bytes] | None
    """Tagged fields that the schema does not know, by tag: kept when read, and written again."""

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        equal: bool = self._values(self) == self._values(other)
        return equal

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """The fields that differ from their defaults."""
        default = self.__class__()
        shown = [
            f"{name}={_shown(value)}"
            for name in (*self.FIELDS, "unknown_tagged_fields")
            if (value := getattr(self, name)) != getattr(default, name)
        ]
        return f"{self.__class__.__qualname__}({', '.join(shown)})"


class Message(WireStruct):
    """A request, response, header or data record of the Kafka protocol."""

    __slots__ = ()

    SCHEMA: ClassVar[MessageSchema]
    API_KEY: ClassVar[int]
    """The number of the API; -1 for headers and data records, which belong to none."""
    VERSIONS: ClassVar[Versions]
    _structs: ClassVar[dict[str, type]]
    _encoders: ClassVar[dict[int, Encoder]]
    _decoders: ClassVar[dict[int, Decoder]]

    def encode(self, version: int) -> bytes:
        """The bytes of this message at `version`; EncodeError says which field does not fit it."""
        return b"".join(self.encode_parts(version))

    def encode_parts(self, version: int) -> list[Buffer]:
        """Like `encode`, in pieces: `records` are passed on as they are instead of being copied."""
        parts: list[Buffer] = []
        self.encoder(version)(self, parts.append)
        return parts

    @classmethod
    def decode(cls, data: Buffer, version: int) -> Self:
        """The message in `data`, all of it; DecodeError for anything else.

        Fields of type `records` are views of `data`, which must not change while they are in use.
        """
        end = len(data)
        message: Self
        message, pos = cls.decoder(version)(data, 0, end)
        if pos != end:
            raise DecodeError(f"{cls.__name__} v{version}: {end - pos} bytes too many, it ends at byte {pos}")
        return message

    @classmethod
    def encoder(cls, version: int) -> Encoder:
        encoder = cls._encoders.get(version)
        if encoder is None:
            if version not in cls.VERSIONS:
                raise EncodeError(f"{cls.__name__} has no version {version}, only {cls.VERSIONS}")
            encoder = cls._encoders[version] = compile_encoder(cls.SCHEMA, version, cls._structs)
        return encoder

    @classmethod
    def decoder(cls, version: int) -> Decoder:
        decoder = cls._decoders.get(version)
        if decoder is None:
            if version not in cls.VERSIONS:
                raise DecodeError(f"{cls.__name__} has no version {version}, only {cls.VERSIONS}")
            decoder = cls._decoders[version] = compile_decoder(cls.SCHEMA, version, cls._structs)
        return decoder


@cache
def message_class(name: str) -> type[Message]:
    """The class of the message with this name; KeyError where the protocol has none."""
    schema = message_schema(name)
    structs: dict[str, type] = {}
    for struct_ in schema.structs.values():
        structs[struct_.name] = _make_class(struct_, WireStruct, f"{name}.{struct_.name}", structs, {})
    namespace: dict[str, Any] = {
        "__doc__": f"{name}, versions {schema.versions}.",
        "SCHEMA": schema,
        "API_KEY": -1 if schema.api_key is None else schema.api_key,
        "VERSIONS": schema.versions,
        "_structs": structs,
        "_encoders": {},
        "_decoders": {},
        **structs,
    }
    made: type[Message] = _make_class(schema.body, Message, name, structs, namespace)
    structs[name] = made
    return made


def _make_class(
    struct_: StructSchema, base: type, qualname: str, structs: dict[str, type], namespace: dict[str, Any]
) -> Any:
    attributes = tuple(field.attribute for field in struct_.fields)
    return type(
        struct_.name,
        (base,),
        {
            **namespace,
            "__slots__": attributes,
            # Found there by name, which is what pickle needs.
            "__module__": "ottla.wire.messages",
            "__qualname__": qualname,
            "__init__": _make_init(struct_, qualname, structs),
            "FIELDS": attributes,
            "_values": staticmethod(attrgetter(*attributes, "unknown_tagged_fields")),
        },
    )


def _make_init(struct_: StructSchema, qualname: str, structs: dict[str, type]) -> Any:
    """`__init__` with every field as a keyword. Lists and structs get a new default for each object."""
    source = FunctionSource()
    # The structs of a message are made one by one: those that this one holds are there already.
    source.names.update(structs, ZERO_UUID=ZERO_UUID)
    parameters, body = [], []
    for field in struct_.fields:
        name, default = field.attribute, default_source(field)
        if default.endswith(("[]", "()")):
            parameters.append(f"{name}=...")
            body.append(f"self.{name} = {default} if {name} is ... else {name}")
        else:
            parameters.append(f"{name}={default}")
            body.append(f"self.{name} = {name}")
    signature = ", ".join(["self", "*", *parameters, "unknown_tagged_fields=None"])
    with source.block(f"def __init__({signature}):"):
        for line in body:
            source.add(line)
        source.add("self.unknown_tagged_fields = unknown_tagged_fields")
    return source.compile("__init__", f"{qualname}.__init__")


def _shown(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview) and len(value) > _SHOWN_BYTES:
        return f"<{len(value)} bytes>"
    return repr(value)
