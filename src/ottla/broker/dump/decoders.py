"""What records say: keys and values as text, or, in Kafka's own topics, as the JSON that Kafka's tools show.

A decoder is chosen by the topic, which the name of the directory tells, or by an option. The words are those of
DumpLogSegments: a type or a version, and the fields; `<DELETE>` for a tombstone.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla.broker.dump.lines import plain, shown
from ottla.broker.dump.schemas import decode_json, decode_message_json, record_types
from ottla.broker.metadata import records as own_metadata
from ottla.errors import DecodeError
from ottla.wire.batches import ControlType, control_type
from ottla.wire.primitives import MalformedError, read_uvarint
from ottla.wire.records import Record

_INT16: Final = struct.Struct(">h")
_METADATA_FRAME: Final = 1
_CLASSIC_CONSUMERS: Final = "consumer"


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """Key and value of a record, for people and for machines; None where there is nothing to show."""

    key: str | None
    value: str | None
    fields: dict[str, object]
    error: str | None = None


RecordDecoder = Callable[[Record], DecodedRecord]


def text_decoder(record: Record) -> DecodedRecord:
    key, value = record.key, record.value
    return DecodedRecord(
        None if key is None else shown(key),
        None if value is None else shown(value),
        plain("key", key) | plain("payload", value),
    )


def offsets_decoder(record: Record) -> DecodedRecord:
    """Of `__consumer_offsets`."""
    return _coordinator_record("groups", record)


def transaction_log_decoder(record: Record) -> DecodedRecord:
    """Of `__transaction_state`."""
    return _coordinator_record("transactions", record)


def share_group_state_decoder(record: Record) -> DecodedRecord:
    """Of `__share_group_state`."""
    return _coordinator_record("share state", record)


def cluster_metadata_decoder(record: Record) -> DecodedRecord:
    """Of `__cluster_metadata`: KRaft's records, or those of Ottla's controller, which are JSON already."""
    try:
        content = _metadata_record(record.value or b"")
    except DecodeError as error:
        return _undecoded(record, error)
    return DecodedRecord(None, _json(content), {"payload": content})


_DECODERS: Final[dict[str, RecordDecoder]] = {
    "__consumer_offsets": offsets_decoder,
    "__transaction_state": transaction_log_decoder,
    "__share_group_state": share_group_state_decoder,
    "__cluster_metadata": cluster_metadata_decoder,
}


def decoder_of(topic: str | None) -> RecordDecoder:
    """The decoder for a topic; text for one that is not Kafka's own."""
    return text_decoder if topic is None else _DECODERS.get(topic, text_decoder)


def _coordinator_record(about: str, record: Record) -> DecodedRecord:
    try:
        key, value = _coordinator_json(about, record.key, record.value)
    except DecodeError as error:
        return _undecoded(record, error)
    return DecodedRecord(
        _json(key), "<DELETE>" if value is None else _json(value), {"key": key, "payload": value}
    )


def _coordinator_json(
    about: str, key: bytes | None, value: bytes | None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    number = _number(key, "key")
    types = record_types(about).get(number)
    if types is None or types.key is None or key is None:
        raise DecodeError(f"a record of the unknown type {number}")
    decoded_key = {"type": str(number), "data": decode_json(types.key, 0, key, _INT16.size)}
    if value is None:
        return decoded_key, None
    version = _number(value, "value")
    data = decode_json(types.value, version, value, _INT16.size)
    if data.get("protocolType") == _CLASSIC_CONSUMERS:
        _decode_members(data)
    return decoded_key, {"version": str(version), "data": data}


def _decode_members(group: dict[str, Any]) -> None:
    """What consumers of a classic group have exchanged, in place of its bytes."""
    for member in group["members"]:
        member["subscription"] = _exchanged("ConsumerProtocolSubscription", member["subscription"])
        member["assignment"] = _exchanged("ConsumerProtocolAssignment", member["assignment"])


def _exchanged(name: str, encoded: str) -> object:
    data = base64.b64decode(encoded)
    if not data:
        return encoded
    return decode_message_json(name, _number(data, name), data, _INT16.size)


def _metadata_record(data: bytes) -> dict[str, Any]:
    if data[:1] == b"{":
        own_metadata.decode(data)
        content = json.loads(data)
        return {"type": content.pop("type"), "version": content.pop("version"), "data": content}
    try:
        frame, position = read_uvarint(data, 0)
        number, position = read_uvarint(data, position)
        version, position = read_uvarint(data, position)
    except (IndexError, MalformedError) as error:
        raise DecodeError(f"a metadata record of {len(data)} bytes: {error}") from error
    if frame != _METADATA_FRAME:
        raise DecodeError(f"a metadata record in the unknown frame {frame}")
    types = record_types("metadata").get(number)
    if types is None:
        raise DecodeError(f"a metadata record of the unknown type {number}")
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", types.value.name).upper()
    return {"type": name, "version": version, "data": decode_json(types.value, version, data, position)}


def _number(data: bytes | None, what: str) -> int:
    if data is None or len(data) < _INT16.size:
        raise DecodeError(f"a {what} of {'no' if data is None else len(data)} bytes")
    number: int = _INT16.unpack_from(data)[0]
    return number


def _undecoded(record: Record, error: DecodeError) -> DecodedRecord:
    as_text = text_decoder(record)
    return DecodedRecord(as_text.key, as_text.value, as_text.fields, error=str(error))


def _json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


# Control records

_WORDS: Final = {
    ControlType.LEADER_CHANGE: ("LeaderChange:", "LeaderChangeMessage"),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", "SnapshotHeaderRecord"),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", "SnapshotFooterRecord"),
    ControlType.KRAFT_VERSION: ("KRaftVersion", "KRaftVersionRecord"),
    ControlType.KRAFT_VOTERS: ("KRaftVoters", "VotersRecord"),
}


def control_record(record: Record) -> tuple[str, dict[str, object]]:
    """What a control record says, as text and as fields; DecodeError if it is not one."""
    number = control_type(record.key)
    value = record.value or b""
    if number in (ControlType.ABORT, ControlType.COMMIT):
        name = ControlType(number).name
        marker = decode_message_json("EndTxnMarker", _number(value, "marker"), value, _INT16.size)
        epoch = marker["coordinatorEpoch"]
        return f"endTxnMarker: {name} coordinatorEpoch: {epoch}", {
            "endTxnMarker": name,
            "coordinatorEpoch": epoch,
        }
    if number not in _WORDS:
        return f"controlType: UNKNOWN({number})", {"controlType": number}
    word, message = _WORDS[ControlType(number)]
    # Every control record of KRaft begins with its version, which is one of its fields as well.
    content = decode_message_json(message, _number(value, message), value)
    return f"{word} {_json(content)}", {word.rstrip(":"): content}
