"""An answer in a form that does not depend on who gave it, where and when: plain values, ready for JSON.

Fields at their defaults are left out. Lists of structs become dicts by what each struct is about (a topic by its
name, a partition by its number): no client relies on their order, and Kafka itself takes most of it from hash
maps. Addresses, clocks and ids become labels; error codes become names; records are taken apart.
"""

from __future__ import annotations

import re
import tempfile
import time
from typing import Any, TypeAlias

from ottla.errors import DecodeError, error_for
from ottla.wire import ZERO_UUID, Message, Uuid, WireStruct, api_for_key
from ottla.wire.batches import BatchHeader, batch_headers
from ottla.wire.compression import Compression
from ottla.wire.records import decode_fetch
from tests.interop.comparison.world import World

Plain: TypeAlias = Any
"""What JSON can hold."""

# What a struct in a list is about, in the order of preference.
_IDENTITY = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "resource_name",
    "api_key",
    "partition_index",
    "partition_id",
    "partition",
    "index",
    "batch_index",
    "key",
    "node_id",
    "broker_id",
    "transactional_id",
)
# Lists whose order says something: which value of a config wins, which transaction came first.
ORDERED = frozenset({"synonyms", "aborted_transactions"})
# Lists that Kafka takes from a hash map, of what has no name.
_SORTED = frozenset({"active_producers", "partitions"})
LEFT_OUT = frozenset({"throttle_time_ms"})
VARYING = frozenset(
    {"host", "port", "cluster_id", "finalized_features_epoch", "log_dir", "total_bytes", "usable_bytes"}
)
CLOCKS = frozenset({"log_append_time_ms", "timestamp", "last_timestamp", "transaction_start_time_ms"})
_A_DAY_MS = 24 * 60 * 60 * 1000
# What a text gives away about where and when it was written.
_TRACES = (
    (re.compile(r"(localhost|127\.0\.0\.1):\d+"), "<address>"),
    (re.compile(re.escape(tempfile.gettempdir()) + r"/[^,]*"), "<folder>"),
    (re.compile(r"(?<=within )\[-?\d+, -?\d+\]"), "<times>"),
    (re.compile(r"(?<=Local controller )\d+"), "<id>"),
)


def normalised(message: Message, world: World) -> Plain:
    """A whole answer."""
    world.learn(message)
    return _struct(message, world)


def _struct(struct: WireStruct, world: World, without: str | None = None) -> dict[str, Plain]:
    default = struct.__class__()
    return {
        field: _field(field, value, world)
        for field in struct.FIELDS
        if field != without
        and field not in LEFT_OUT
        and (value := getattr(struct, field)) != getattr(default, field)
    }


def _field(name: str, value: Any, world: World) -> Plain:
    if name == "records":
        return records(value, world)
    if isinstance(value, WireStruct):
        return _struct(value, world)
    if isinstance(value, list):
        return _list(name, value, world)
    return _scalar(name, value, world)


def _list(name: str, values: list[Any], world: World) -> Plain:
    if not values or not isinstance(values[0], WireStruct):
        return [_scalar(name, value, world) for value in (sorted(values) if name in _SORTED else values)]
    if name == "active_producers":
        values = sorted(values, key=lambda value: value.producer_id)
    identity = next((field for field in _IDENTITY if field in values[0].FIELDS), None)
    if identity is None or name in ORDERED:
        return [_struct(value, world) for value in values]
    found: dict[str, Plain] = {}
    for value in values:
        used = _identity_in_use(identity, value)
        label = _label(used, value, world)
        found[label if label not in found else f"{label} again"] = _struct(value, world, without=used)
    return found


def _identity_in_use(identity: str, struct: WireStruct) -> str:
    """Newer versions name a topic by its id alone."""
    nameless = getattr(struct, identity) in ("", None)
    return "topic_id" if nameless and getattr(struct, "topic_id", ZERO_UUID) != ZERO_UUID else identity


def _label(identity: str, struct: WireStruct, world: World) -> str:
    value = getattr(struct, identity)
    if identity == "api_key":
        return api_for_key(value).name
    return str(_scalar(identity, value, world))


def _scalar(name: str, value: Any, world: World) -> Plain:
    if name in VARYING and value != -1:
        return f"<{name}>"
    if name in CLOCKS:
        return clock(value)
    if name.endswith("error_code"):
        return error_name(value)
    if name in ("producer_id", "session_id"):
        return world.producer_label(value) if name == "producer_id" else world.session_label(value)
    if isinstance(value, Uuid):
        return world.topic_label(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("latin-1")
    if name == "documentation" and value is not None:
        return "<documentation>"
    return _text_without_traces(value, world) if isinstance(value, str) else value


def _text_without_traces(text: str, world: World) -> str:
    for pattern, label in _TRACES:
        text = pattern.sub(label, text)
    return world.text_label(text)


def error_name(code: int) -> str:
    known = error_for(code)
    return "NONE" if code == 0 else str(code) if known is None else known.name


def clock(milliseconds: int) -> int | str:
    """Times that scripts choose are years away from today."""
    return "<now>" if abs(milliseconds - time.time() * 1000) < _A_DAY_MS else milliseconds


def records(data: bytes | memoryview | None, world: World) -> Plain:
    """The batches of a `records` field with their headers and contents, and what follows the last whole one."""
    if data is None:
        return None
    try:
        headers = batch_headers(data)
        batches = [_batch(memoryview(data)[h.position : h.position + h.size], h, world) for h in headers]
    except DecodeError as error:
        return f"damaged: {error}"
    rest = len(data) - sum(header.size for header in headers)
    return [*batches, f"{rest} bytes of another batch"] if rest else batches


def _batch(data: memoryview, header: BatchHeader, world: World) -> dict[str, Plain]:
    about: dict[str, Plain] = {
        "offsets": [header.base_offset, header.last_offset],
        "leader_epoch": header.leader_epoch,
        "codec": Compression(header.codec).name.lower(),
        "timestamps": [header.timestamp_type.name, clock(header.base_timestamp), clock(header.max_timestamp)],
        "records": [
            [
                record.offset,
                clock(record.timestamp),
                _text(record.key),
                _text(record.value),
                _headers(record.headers),
            ]
            for record in decode_fetch(data, "", 0, control=True, offset=header.base_offset)
        ],
    }
    if header.producer_id >= 0:
        producer = world.producer_label(header.producer_id)
        about["producer"] = [producer, header.producer_epoch, header.base_sequence]
    return about


def _text(content: bytes | None) -> str | None:
    """Long values are told by their length."""
    if content is None or len(content) <= 64:
        return None if content is None else content.decode("latin-1")
    return f"<{len(content)} bytes>"


def _headers(headers: Any) -> list[list[str | None]]:
    return [[name, _text(value)] for name, value in headers]
