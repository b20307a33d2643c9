"""From a name, a callable or an object to what the client calls; everything else is refused at once."""

from __future__ import annotations

import functools
import json
from typing import Any
from uuid import UUID

import pytest

from ottla.serde import Serde, SerdeContext, resolve_deserializer, resolve_serializer, string
from ottla.serde.resolve import NAMES
from tests.serde.records import Fetched

# Untyped, to be called with what the types forbid.
RESOLVERS: list[Any] = [resolve_serializer, resolve_deserializer]

SAMPLES = {
    "str": "text",
    "int32": 5,
    "int64": 5,
    "float32": 0.5,
    "float64": 0.1,
    "uuid": UUID(int=5),
    "json": {"id": [1, 2]},
}


class Both:
    """Callable, and with the methods that want the context: those win."""

    def __call__(self, value: object) -> bytes:
        return b"called"

    def serialize(self, value: object, context: SerdeContext) -> bytes:
        return b"with context"

    def deserialize(self, data: bytes, context: SerdeContext) -> str:
        return "with context"


class OnlySerializes:
    def serialize(self, value: object, context: SerdeContext) -> bytes:
        return b""


class Asynchronous:
    async def serialize(self, value: object, context: SerdeContext) -> bytes:
        return b""

    async def deserialize(self, data: bytes, context: SerdeContext) -> object:
        return data


async def _asynchronous(value: object) -> bytes:
    return b""


asynchronous: Any = _asynchronous


def round_trip(writer: Any, reader: Any, value: object) -> object:
    serialize, deserialize = resolve_serializer(writer, "value"), resolve_deserializer(reader, "value")
    assert serialize is not None
    assert deserialize is not None
    return deserialize(serialize(value, "orders", []), Fetched())


def test_there_is_a_sample_for_every_name() -> None:
    assert {"bytes", *SAMPLES} == set(NAMES)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_name_stands_for_both_directions(name: str) -> None:
    assert round_trip(name, name, SAMPLES[name]) == SAMPLES[name]


def test_for_bytes_there_is_nothing_to_call() -> None:
    assert resolve_serializer("bytes", "key") is None
    assert resolve_deserializer("bytes", "value") is None


def test_a_serde_stands_for_both_directions() -> None:
    assert round_trip(string("utf-16-be"), string("utf-16-be"), "é") == "é"
    lines = Serde[list[str]](lambda value: "\n".join(value).encode(), lambda data: data.decode().split("\n"))
    assert round_trip(lines, lines, ["a", "b"]) == ["a", "b"]


def test_any_callable_will_do() -> None:
    assert round_trip(lambda value: json.dumps(value).encode(), json.loads, {"a": 1}) == {"a": 1}
    assert round_trip(functools.partial(str.encode, encoding="latin-1"), bytes.hex, "é") == "e9"
    assert round_trip(Fetched.__repr__, "str", None) is None


def test_the_methods_that_want_the_context_go_before_the_call() -> None:
    serialize, deserialize = resolve_serializer(Both(), "key"), resolve_deserializer(Both(), "key")
    assert serialize is not None
    assert deserialize is not None
    assert serialize(1, "orders", []) == b"with context"
    assert deserialize(b"1", Fetched()) == "with context"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("jsn", "json"),
        ("JSON", "json"),
        ("string", "str"),
        ("UUID", "uuid"),
        ("int", "int64"),
        ("int_32", "int32"),
        ("float", "float64"),
        ("byte", "bytes"),
    ],
)
def test_an_unknown_name_is_refused_with_the_one_that_may_be_meant(name: str, meant: str) -> None:
    told = (
        f"^there is no value serializer '{name}', perhaps '{meant}' is meant; "
        "the names are bytes, str, int32, int64, float32, float64, uuid, json$"
    )
    with pytest.raises(ValueError, match=told):
        resolve_serializer(name, "value")
    with pytest.raises(ValueError, match=told.replace("serializer", "deserializer")):
        resolve_deserializer(name, "value")


def test_a_name_that_resembles_none_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"^there is no key serializer 'avro'; the names are bytes, str, "):
        resolve_serializer("avro", "key")


@pytest.mark.parametrize("spec", [None, 5, b"str", json, {"a": 1}, object()])
def test_what_is_neither_name_nor_callable_nor_object_is_refused(spec: Any) -> None:
    with pytest.raises(
        TypeError, match=r"^the key serializer is .* serialize\(value, context\), or a name: bytes"
    ):
        resolve_serializer(spec, "key")
    with pytest.raises(
        TypeError, match=r"^the key deserializer is .* deserialize\(data, context\), or a name: b"
    ):
        resolve_deserializer(spec, "key")


def test_an_object_for_the_other_direction_is_refused() -> None:
    assert resolve_serializer(OnlySerializes(), "key") is not None
    with pytest.raises(TypeError, match=r"^the key deserializer is "):
        resolve_deserializer(OnlySerializes(), "key")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "meant"),
    [
        (bytes, "'bytes'"),
        (str, "'str'"),
        (int, "'int32' or 'int64'"),
        (float, "'float32' or 'float64'"),
        (UUID, "'uuid'"),
        (dict, "'json'"),
    ],
)
def test_a_type_is_no_serializer_although_it_can_be_called(kind: Any, meant: str) -> None:
    for resolve in RESOLVERS:
        with pytest.raises(TypeError, match=f"is {kind.__name__}, the type: {meant} is meant, as text"):
            resolve(kind, "value")


def test_a_class_is_no_instance_of_it() -> None:
    for resolve in RESOLVERS:
        with pytest.raises(TypeError, match="is Both, the class: give an instance of it"):
            resolve(Both, "value")


@pytest.mark.parametrize(
    "spec", [asynchronous, Asynchronous(), Serde(asynchronous, asynchronous), functools.partial(asynchronous)]
)
def test_what_would_have_to_be_awaited_is_refused(spec: Any) -> None:
    for resolve in RESOLVERS:
        with pytest.raises(TypeError, match="is async: it is called for each record and cannot be awaited"):
            resolve(spec, "value")
