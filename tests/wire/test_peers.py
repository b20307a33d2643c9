"""Two implementations that nobody here wrote read our bytes, agree on every field, and write them alike.

kio has every version of Kafka 4; aiokafka, by hand, the old ones.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import importlib
import inspect
import io
import pkgutil
import uuid
from collections.abc import Iterator
from random import Random
from typing import Any

import aiokafka.protocol
import kio.schema
import pytest
from aiokafka.protocol.api import RequestStruct
from kio.serial import entity_reader, entity_writer

from ottla.errors import ERRORS
from ottla.wire import api_for_key
from ottla.wire.message import Message, message_class
from ottla.wire.schema import FieldSchema, StructSchema, message_names
from tests.wire.random_messages import Randomly

ROUNDS = 5


class AsKioAllows(Randomly):
    """kio refuses error codes that it does not know, and makes dates of times."""

    def scalar(self, field: FieldSchema) -> Any:
        if field.type == "int16" and field.name.endswith("ErrorCode"):
            return self.random.choice([0, *sorted(ERRORS)])
        if field.type in ("int32", "int64") and field.name.endswith(("Ms", "Timestamp", "Time")):
            return self.random.randrange(2**31)
        return super().scalar(field)


def kio_classes() -> dict[tuple[str, int], Any]:
    """kio's class for every message and version that it has."""
    found = {}
    for package in pkgutil.iter_modules(kio.schema.__path__):
        if not package.ispkg:
            continue
        folder = importlib.import_module(f"kio.schema.{package.name}")
        for version in pkgutil.iter_modules(folder.__path__):
            module_folder = importlib.import_module(f"{folder.__name__}.{version.name}")
            for module_name in pkgutil.iter_modules(module_folder.__path__):
                module = importlib.import_module(f"{module_folder.__name__}.{module_name.name}")
                for name, cls in inspect.getmembers(module, inspect.isclass):
                    if name in message_names() and cls.__module__ == module.__name__:
                        found[name, int(version.name.removeprefix("v"))] = cls
    return found


KIO = kio_classes()


def test_kio_knows_every_message() -> None:
    assert {name for name, _ in KIO} == set(message_names())
    assert len(KIO) >= 624


@pytest.mark.parametrize("name", sorted({name for name, _ in KIO}))
def test_kio_reads_and_writes_alike(name: str) -> None:
    cls = message_class(name)
    randomly = AsKioAllows(Random(name))
    for version in cls.VERSIONS:
        peer = KIO.get((name, version))
        if peer is None:
            continue  # dropped by Kafka 4: aiokafka's part
        read, write = entity_reader(peer), entity_writer(peer)
        for _ in range(ROUNDS):
            message = randomly.message(cls, version)
            data = message.encode(version)
            entity, size = read(data, 0)
            assert size == len(data)
            assert list(differences(message, entity, f"{name} v{version}")) == []
            out = io.BytesIO()
            write(out, entity)
            assert out.getvalue() == data, f"{name} v{version}"


def differences(ours: Any, theirs: Any, path: str) -> Iterator[str]:
    """Where two structs differ, field by field in the order of their definition."""
    names = [f.name for f in dataclasses.fields(theirs)]
    version: int = type(theirs).__version__
    message = message_class(type(ours).__qualname__.partition(".")[0])
    mine = [f for f in fields_of(ours, message) if version in f.versions]
    if len(names) != len(mine):
        yield f"{path}: {len(mine)} fields, not {len(names)}"
    for field, name in zip(mine, names, strict=False):
        left, right = getattr(ours, field.attribute), getattr(theirs, name)
        where = f"{path}.{field.attribute}"
        if left is None and field.absent_struct and isinstance(field.type, StructSchema):
            left = getattr(message, field.type.name)()  # kio has the default of a tagged struct, not None
        if isinstance(left, list) and isinstance(right, tuple):
            if len(left) != len(right):
                yield f"{where}: {len(left)} items, not {len(right)}"
            for item, other in zip(left, right, strict=False):
                yield from value_differences(item, other, where)
        else:
            yield from value_differences(left, right, where)


def fields_of(struct: Any, message: type[Message]) -> tuple[FieldSchema, ...]:
    schema = message.SCHEMA
    return (schema.body if isinstance(struct, Message) else schema.structs[type(struct).__name__]).fields


def value_differences(ours: Any, theirs: Any, path: str) -> Iterator[str]:
    if hasattr(ours, "FIELDS") and dataclasses.is_dataclass(theirs):
        yield from differences(ours, theirs, path)
    elif plain(theirs) != ours:
        yield f"{path}: {ours!r}, not {theirs!r}"


def plain(value: Any) -> Any:
    """kio's richer types as what is on the wire."""
    match value:
        case enum.Enum():
            return value.value
        case datetime.timedelta():
            return round(value / datetime.timedelta(milliseconds=1))
        case datetime.datetime():
            return round(
                (value - datetime.datetime.fromtimestamp(0, datetime.UTC))
                / datetime.timedelta(milliseconds=1)
            )
        case uuid.UUID():
            return value.bytes
        case _:
            return value


# Kafka's own known answers say otherwise (test_vectors.py); strict, so that a mended release is noticed.
AIOKAFKA_DIFFERS = {
    "OffsetRequest_v4": "aiokafka takes the leader epoch for an int64",
    "OffsetRequest_v5": "aiokafka takes the leader epoch for an int64",
    "DescribeAclsRequest_v2": "aiokafka does not use the flexible form",
    "DescribeAclsResponse_v2": "aiokafka does not use the flexible form",
}


def aiokafka_classes() -> list[Any]:
    found: dict[tuple[int, int, bool], Any] = {}
    for module_name in pkgutil.iter_modules(aiokafka.protocol.__path__):
        module = importlib.import_module(f"aiokafka.protocol.{module_name.name}")
        members: list[tuple[str, Any]] = inspect.getmembers(module, inspect.isclass)
        for _, cls in members:
            if isinstance(getattr(cls, "API_VERSION", None), int) and isinstance(
                getattr(cls, "API_KEY", None), int
            ):
                found[cls.API_KEY, cls.API_VERSION, issubclass(cls, RequestStruct)] = cls
    return [aiokafka_parameter(found[key]) for key in sorted(found)]


def aiokafka_parameter(peer: Any) -> Any:
    reason = AIOKAFKA_DIFFERS.get(peer.__name__)
    marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
    return pytest.param(peer, id=peer.__name__, marks=marks)


@pytest.mark.parametrize("peer", aiokafka_classes())
def test_aiokafka_reads_and_writes_alike(peer: Any) -> None:
    api = api_for_key(peer.API_KEY)
    cls = api.request if issubclass(peer, RequestStruct) else api.response
    randomly = Randomly(Random(peer.__name__))
    for _ in range(ROUNDS):
        data = randomly.message(cls, peer.API_VERSION).encode(peer.API_VERSION)
        stream = io.BytesIO(data)
        values = peer.SCHEMA.decode(stream)
        assert stream.read() == b""
        assert peer.SCHEMA.encode(values) == data
