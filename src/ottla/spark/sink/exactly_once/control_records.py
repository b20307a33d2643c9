"""The records of the control topic, as bytes: decisions and markers.

JSON, with the version of the layout first. Keys are fixed, so that compaction keeps the last record of a partition.
A record that cannot be read is an error and never "no record": to take a batch for new that is decided would write
its rows twice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.client.transactions.prepared import PreparedTransaction
from ottla.spark.sink.exactly_once.errors import ControlRecordError
from ottla.spark.sink.exactly_once.names import SinkNames

DECISION_KEY: Final = b"decision"
MARKER_KEY: Final = b"marker"
BARRIER_KEY: Final = b"barrier"
"""Of a record without a meaning: by its offset its writer knows that it reads from the leader that has stored it."""
_VERSION: Final = 1


class SlotTransaction(NamedTuple):
    """The prepared transaction of a slot."""

    slot: int
    prepared: PreparedTransaction


@dataclass(frozen=True, slots=True)
class BatchDecision:
    """That these transactions are to be committed."""

    query_id: str
    batch_id: int
    tasks: int
    """How many the batch had, with those that had nothing to write, or had written before."""
    transactions: tuple[SlotTransaction, ...]
    is_released: bool = False
    """Another query may go on with the sink; the one that has decided goes on as if this had not been said."""

    def is_covered_by(self, marker: SlotMarker | None) -> bool:
        """Whether the marker of a slot says that its part of this batch is committed.

        That of a later batch does not: batch writes go on under a name whose last decision has lost rows.
        """
        return marker is not None and (marker.query_id, marker.batch_id) == (self.query_id, self.batch_id)

    def encode(self) -> bytes:
        # Without the transactional ids, which follow from the slots: a batch may have thousands of tasks.
        return _encoded(
            query=self.query_id,
            batch=self.batch_id,
            tasks=self.tasks,
            transactions=[
                [slot, prepared.producer_id, prepared.epoch] for slot, prepared in self.transactions
            ],
            released=self.is_released,
        )

    @classmethod
    def decode(cls, value: bytes | None, names: SinkNames) -> BatchDecision:
        try:
            said = _decoded(value)
            return cls(
                _text(said["query"]),
                _number(said["batch"]),
                _number(said["tasks"]),
                tuple(
                    SlotTransaction(
                        _number(slot),
                        PreparedTransaction(names.slot_id(slot), _number(producer_id), _number(epoch)),
                    )
                    for slot, producer_id, epoch in said["transactions"]
                ),
                bool(said["released"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise _unreadable("decision", names, value, error) from error


@dataclass(frozen=True, slots=True)
class SlotMarker:
    """That the rows of a slot are written, up to a batch; seen only with them, as it is of their transaction."""

    query_id: str
    batch_id: int
    slot: int

    def encode(self) -> bytes:
        return _encoded(query=self.query_id, batch=self.batch_id, slot=self.slot)

    @classmethod
    def decode(cls, value: bytes | None, names: SinkNames) -> SlotMarker:
        try:
            said = _decoded(value)
            return cls(_text(said["query"]), _number(said["batch"]), _number(said["slot"]))
        except (ValueError, KeyError, TypeError) as error:
            raise _unreadable("marker", names, value, error) from error


def _encoded(**fields: object) -> bytes:
    return json.dumps({"version": _VERSION, **fields}, separators=(",", ":")).encode()


def _decoded(value: bytes | None) -> dict[str, Any]:
    if value is None:
        raise ValueError("the record is empty")
    said = json.loads(value)
    if not isinstance(said, dict):
        raise TypeError("it is no JSON object")
    if said.get("version") != _VERSION:
        raise ValueError(f"its version is {said.get('version')!r}, and {_VERSION} is known here")
    return said


def _number(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ValueError(f"{given!r} is no number")
    return given


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{given!r} is no text")
    return given


def _unreadable(what: str, names: SinkNames, value: bytes | None, error: Exception) -> ControlRecordError:
    return ControlRecordError(
        f"the last {what} of sink {names.sink_id!r} in topic {names.control_topic} cannot be read: {error}. It was "
        "written by something else, or by a newer release: give the sink another id or control topic, or use that "
        f"release. The record begins with {value[:60] if value else value!r}"
    )
