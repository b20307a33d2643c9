"""What a coordinator has written about a group into __consumer_offsets, as lines that two runs have in common.

Names and ids that a run has made up stand in brackets, and so do times and what else only one broker knows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

from ottla.wire.batch_header import LOG_OVERHEAD, unpack_prefix
from ottla.wire.records import Record, decode_fetch
from tests.interop.groups.group import OFFSETS, Group

_RECORDING = Path(__file__).with_suffix(".kafka")
_DAY_MS = 24 * 60 * 60 * 1000
_GROUP_EPOCH, _REGEX = 3, 16
_HASH = slice(9, 17)
"""Where the hash of the topics is in the value of a group's epoch: behind version, epoch, and the head of its tag."""


def written(group: Group, names: Mapping[str, str]) -> list[list[str]]:
    """The batches with records of a group, each as lines; `names` are ids, by what to call them.

    A line has the type of the record, its key behind the group, and its value. Lines of one type that stand together
    are sorted: their order is that of a hash table.
    """
    known = {
        group.topic.encode(): "topic",
        bytes(group.topic_id): "topic id",
        **{value.encode(): name for name, value in names.items()},
    }
    start = b"".join([len(group.name).to_bytes(2, "big"), group.name.encode()])
    found: list[list[str]] = []
    for batch in _read(group):
        lines = [_line(record, start, known) for record in batch if (record.key or b"")[2:].startswith(start)]
        if lines:
            found.append([line for _, run in groupby(lines, _type) for line in sorted(run)])
    return found


def recorded(title: str) -> list[list[str]]:
    """What Kafka has written, under a title of the recording."""
    text = _RECORDING.read_text().partition(f"# {title}\n")[2].partition("\n# ")[0]
    return [batch.splitlines() for batch in text.strip().split("\n\n")]


def _read(group: Group) -> Iterator[list[Record]]:
    partition = group.offsets_partition()
    position = 0
    while True:
        answer = group.outside.fetch(OFFSETS, position, partition)
        data = bytes(answer.records or b"")
        for batch in _batches(data):
            records = decode_fetch(batch, OFFSETS, partition, offset=position)
            position = records.next_offset
            yield list(records)
        if position >= answer.high_watermark:
            return


def _batches(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + LOG_OVERHEAD <= len(data):
        _, length = unpack_prefix(data, at)
        end = at + LOG_OVERHEAD + length
        if end > len(data):
            return
        yield data[at:end]
        at = end


def _type(line: str) -> str:
    return line.partition(" ")[0]


def _line(record: Record, start: bytes, known: Mapping[bytes, str]) -> str:
    assert record.key is not None
    kind = int.from_bytes(record.key[:2], "big")
    key = _shown(record.key[2 + len(start) :], known)
    if record.value is None:
        return f"{kind} {key} null"
    value = bytes(record.value)
    if kind == _GROUP_EPOCH and len(value) > _HASH.start:
        known = {**known, value[_HASH]: "hash"}
    return f"{kind} {key} {_shown(value, known)}"


def _shown(data: bytes, known: Mapping[bytes, str]) -> str:
    """In hexadecimal digits, but for what is known and for times."""
    shown = ""
    at = 0
    now = time.time_ns() // 1_000_000
    while at < len(data):
        for value, name in known.items():
            if data.startswith(value, at):
                shown += f"[{name}]"
                at += len(value)
                break
        else:
            if len(data) - at >= 8 and abs(int.from_bytes(data[at : at + 8], "big") - now) < _DAY_MS:
                shown += "[time]"
                at += 8
            else:
                shown += data[at : at + 1].hex()
                at += 1
    return shown or "-"
