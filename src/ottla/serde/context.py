"""What a serializer may know beside the value, and the shapes that one can have.

Not here: the serializers themselves (formats.py) and what becomes of their errors (calls.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)

Field: TypeAlias = Literal["key", "value"]
Headers: TypeAlias = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class SerdeContext:
    """Where the value goes, or comes from.

    The headers are those of the record. A serializer may add to them (KIP-82): a schema registry's id, for one.
    """

    topic: str
    field: Field
    headers: Headers


@runtime_checkable
class Serializer(Protocol[T_contra]):
    """A serializer that wants to know more than the value."""

    def serialize(self, value: T_contra, context: SerdeContext, /) -> bytes:
        """The bytes for a value, which is never None."""


@runtime_checkable
class Deserializer(Protocol[T_co]):
    """A deserializer that wants to know more than the bytes."""

    def deserialize(self, data: bytes, context: SerdeContext, /) -> T_co:
        """The value that the bytes stand for."""


# No slots: in Python 3.11 `Serde[int](...)` fails for a frozen class that has them.
@dataclass(frozen=True)
class Serde(Generic[T]):
    """A serializer and the deserializer that reads what it writes.

    `expects` goes into the message of an error: "the value ... should be `expects`, not int".
    """

    serializer: Callable[[T], bytes]
    deserializer: Callable[[bytes], T]
    expects: str | None = None


class RawRecord(Protocol):
    """A record as it was fetched; what a DeserializationError says about it. Read only when there is need."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
