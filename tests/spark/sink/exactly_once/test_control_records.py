"""Decisions and markers as bytes: what is written can be read, and what cannot be read is never taken for nothing."""

from __future__ import annotations

import pytest

from ottla.client.transactions.prepared import PreparedTransaction
from ottla.spark.sink.exactly_once.control_records import BatchDecision, SlotMarker, SlotTransaction
from ottla.spark.sink.exactly_once.errors import ControlRecordError
from ottla.spark.sink.exactly_once.names import SinkNames

NAMES = SinkNames("billing")


def test_a_decision_is_what_it_was() -> None:
    listed = tuple(
        SlotTransaction(slot, PreparedTransaction(f"billing-{slot}", 40 + slot, 3)) for slot in (0, 2)
    )
    decision = BatchDecision("query-1", 12, 3, listed)
    assert BatchDecision.decode(decision.encode(), NAMES) == decision


def test_a_decision_about_many_tasks_is_small() -> None:
    listed = tuple(
        SlotTransaction(slot, PreparedTransaction(NAMES.slot_id(slot), 10**12 + slot, 30_000))
        for slot in range(10_000)
    )
    assert len(BatchDecision("query-1", 12, 10_000, listed).encode()) < 300_000


def test_a_marker_is_what_it_was() -> None:
    marker = SlotMarker("query-1", 12, 7)
    assert SlotMarker.decode(marker.encode(), NAMES) == marker


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "the record is empty"),
        (b"\xff", "cannot be read"),
        (b"[]", "no JSON object"),
        (b"{}", "its version is None"),
        (
            b'{"version":2,"query":"q","batch":1,"slot":0,"tasks":1,"transactions":[]}',
            "version is 2",
        ),
        (b'{"version":1,"query":"q"}', "batch"),
        (
            b'{"version":1,"query":5,"batch":1,"slot":0,"tasks":1,"transactions":[]}',
            "5 is no text",
        ),
        (
            b'{"version":1,"query":"q","batch":-1,"slot":0,"tasks":1,"transactions":[]}',
            "-1 is no number",
        ),
        (
            b'{"version":1,"query":"q","batch":true,"slot":0,"tasks":1,"transactions":[]}',
            "True is no number",
        ),
    ],
)
@pytest.mark.parametrize("kind", [BatchDecision, SlotMarker])
def test_what_cannot_be_read_is_an_error(
    kind: type[BatchDecision] | type[SlotMarker], value: bytes | None, said: str
) -> None:
    with pytest.raises(ControlRecordError, match=said):
        kind.decode(value, NAMES)


def test_a_decision_with_half_of_a_transaction_is_an_error() -> None:
    with pytest.raises(ControlRecordError, match="ottla-sink-billing"):
        BatchDecision.decode(b'{"version":1,"query":"q","batch":1,"tasks":1,"transactions":[[0,5]]}', NAMES)
