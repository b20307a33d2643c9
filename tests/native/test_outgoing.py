"""Batches on their way out: sealed again and again from the same records, and told what has become of them."""

from __future__ import annotations

import ast
import gc
import random
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla._native import (
    accumulator,
    appender,
    deliveries,
    encode,
    outgoing,
    record_buffer,
    sticky,
    unknown_topic,
)
from ottla._native.deliveries import Delivery
from ottla._native.encode import encode_columns
from ottla._native.outgoing import EncodedBatch
from tests.native.encode_support import NOW, decoded, everything_given_back
from tests.oracle import message_sets
from tests.oracle.records import CODECS, decode_batch
from tests.records.peers import PEERS, Peer

MODULES = [accumulator, appender, deliveries, encode, outgoing, record_buffer, sticky, unknown_topic]


def batch_of(count: int = 10, size: int = 20) -> EncodedBatch:
    cells = [random.Random(i).randbytes(size) for i in range(count)]
    times = [NOW + i for i in range(count)]
    (batch,) = encode_columns(
        {"value": pa.array(cells, pa.binary()), "timestamp": pa.array(times)},
        partitions=3,
        batch_size=2**30,
        now=NOW,
        unkeyed_partition=2,
        topic="orders",
    )
    return batch


class Compressor:
    """The oracle's codecs, and how often they were asked."""

    def __init__(self, codec: int) -> None:
        self.codec = codec
        self.calls = 0

    def __call__(self, data: memoryview) -> bytes:
        self.calls += 1
        assert data.readonly
        return message_sets.compress(CODECS[self.codec], bytes(data))


@given(
    producer_id=st.integers(min_value=-1, max_value=2**63 - 1),
    epoch=st.integers(min_value=-1, max_value=2**15 - 1),
    sequence=st.integers(min_value=-1, max_value=2**31 - 1),
    transactional=st.booleans(),
    count=st.integers(min_value=1, max_value=40),
)
def test_the_producers_fields_are_in_the_header_and_the_checksum_is_right(
    producer_id: int, epoch: int, sequence: int, transactional: bool, count: int
) -> None:
    batch = batch_of(count)
    records = decoded(batch).records
    batch.set_producer(producer_id, epoch, sequence, transactional)
    assert not batch.sealed
    batch.seal()
    header = decoded(batch)  # checks the checksum
    assert header.records == records
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (producer_id, epoch, sequence)
    assert header.transactional == transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (producer_id, epoch, sequence)
    assert batch.transactional == transactional


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 255, 256, 4095, 65_536, 1_000_003, 3_000_000])
def test_the_checksum_is_right_for_records_of_any_size(size: int) -> None:
    batch = batch_of(1, size)
    for sequence in (0, 1, 2**31 - 1):
        batch.set_producer(4, 2, sequence)
        batch.seal()
        assert decode_batch(bytes(batch)).base_sequence == sequence


@pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=lambda codec: CODECS[codec])
@pytest.mark.parametrize("peer", PEERS, ids=str)
def test_compressed_batches_are_read_by_others(codec: int, peer: Peer) -> None:
    batch = batch_of(200)
    records = decoded(batch).records
    batch.set_producer(7, 1, 100, True)
    batch.seal(codec, Compressor(codec))
    assert decoded(batch).codec == CODECS[codec]
    assert decoded(batch).records == records
    assert batch.size == len(bytes(batch))
    assert batch.codec == codec
    if peer.supports(CODECS[codec]):
        (read,) = peer.decode_batches(bytes(batch))
        assert list(read.records) == [record.plain for record in records]
        assert read.producer.producer_id == 7


def test_sealing_again_with_nothing_changed_does_nothing() -> None:
    batch, compressor = batch_of(), Compressor(1)
    batch.set_producer(7, 1, 100)
    batch.seal(1, compressor)
    view = memoryview(batch)
    before = bytes(view)
    batch.seal(1, compressor)
    batch.set_producer(7, 1, 100)
    batch.seal(1, compressor)
    assert compressor.calls == 1
    assert bytes(batch) == before
    with memoryview(batch) as again:
        assert again.obj is batch


def test_a_new_producer_id_needs_no_new_compression() -> None:
    batch, compressor = batch_of(), Compressor(1)
    batch.seal(1, compressor)
    for epoch in range(3):
        batch.set_producer(8, epoch, 0)
        batch.seal(1)
        assert decoded(batch).producer_epoch == epoch
    assert compressor.calls == 1


def test_the_codec_may_change_from_one_sealing_to_the_next() -> None:
    batch = batch_of()
    records, plain = decoded(batch).records, bytes(batch)
    for codec in (1, 0, 4, 1, 0):
        batch.seal(codec, Compressor(codec))
        assert decoded(batch).codec == CODECS[codec]
        assert decoded(batch).records == records
    assert bytes(batch) == plain
    assert batch.size == batch.raw_size == len(plain)


def test_what_somebody_has_a_view_of_does_not_change() -> None:
    with everything_given_back():
        for codec in (0, 1):
            batch = batch_of()
            batch.set_producer(1, 0, 0)
            batch.seal(codec, Compressor(codec))
            view = memoryview(batch)  # a socket that is still sending it
            sent = bytes(view)
            batch.set_producer(2, 0, 0)
            batch.seal(codec, Compressor(codec))
            again = memoryview(batch)
            batch.set_producer(3, 0, 0)
            batch.seal(1 - codec, Compressor(1 - codec))
            assert bytes(view) == sent
            assert [decode_batch(bytes(each)).producer_id for each in (view, again, batch)] == [1, 2, 3]
            del view, again
            assert decoded(batch).producer_id == 3
            del batch


def test_a_batch_that_is_not_sealed_has_no_bytes() -> None:
    batch = batch_of()
    batch.set_producer(1, 0, 0)
    with pytest.raises(BufferError, match="the batch is not sealed"):
        memoryview(batch)


def test_the_bytes_cannot_be_written() -> None:
    assert memoryview(batch_of()).readonly


def test_a_codec_needs_a_compressor_and_has_to_be_one() -> None:
    batch = batch_of()
    with pytest.raises(TypeError, match="codec 1 needs a function that compresses"):
        batch.seal(1)
    with pytest.raises(ValueError, match="codec must be one of Kafka's, 0 to 4, not 9"):
        batch.seal(9, bytes)
    with pytest.raises(ZeroDivisionError):
        batch.seal(1, lambda data: bytes(1 // 0))
    with pytest.raises(TypeError, match="bytes-like"):
        batch.seal(1, lambda data: "text")  # type: ignore[arg-type, return-value]
    assert batch.sealed  # as before, without a codec
    assert decoded(batch).codec == "none"


def test_batches_and_receipts_are_not_made_by_hand() -> None:
    with pytest.raises(TypeError, match="batches are made by"):
        EncodedBatch()
    with pytest.raises(TypeError, match="receipts are made by"):
        Delivery()


def test_a_receipt_knows_its_record() -> None:
    batch = batch_of(5)
    receipts = [batch.delivery(i) for i in range(5)]
    assert [receipt.index for receipt in receipts] == list(range(5))
    assert [receipt.timestamp for receipt in receipts] == [NOW + i for i in range(5)]
    assert not any(receipt.done() for receipt in receipts)
    assert {receipt.offset for receipt in receipts} == {-1}
    assert (receipts[0].topic, receipts[0].partition, receipts[0].error) == ("orders", 2, None)
    assert "under way" in repr(receipts[0])
    assert batch.complete(1000) is True
    assert batch.completed
    assert all(receipt.done() for receipt in receipts)
    assert [receipt.offset for receipt in receipts] == [1000, 1001, 1002, 1003, 1004]
    assert [receipt.timestamp for receipt in receipts] == [NOW + i for i in range(5)]
    assert "offset 1002" in repr(receipts[2])


@pytest.mark.parametrize("index", [-1, 5])
def test_there_are_no_receipts_beyond_the_records(index: int) -> None:
    with pytest.raises(IndexError, match=f"record {index} of a batch of 5"):
        batch_of(5).delivery(index)


def test_the_time_of_the_log_wins() -> None:
    batch = batch_of(2)
    receipt = batch.delivery(1)
    batch.complete(7, log_append_time=NOW + 99)
    assert (receipt.offset, receipt.timestamp) == (8, NOW + 99)


def test_without_acknowledgement_the_offset_stays_unknown() -> None:
    batch = batch_of(2)
    receipt = batch.delivery(1)
    batch.complete()
    assert (receipt.done(), receipt.offset, receipt.error) == (True, -1, None)


def test_an_error_is_that_of_every_record() -> None:
    batch = batch_of(2)
    receipts = [batch.delivery(0), batch.delivery(1)]
    error = TimeoutError("too late")
    batch.complete(error=error)
    for receipt in receipts:
        assert (receipt.done(), receipt.offset, receipt.error) == (True, -1, error)
    assert "too late" in repr(receipts[0])


def test_the_first_outcome_counts() -> None:
    batch = batch_of(1)
    receipt = batch.delivery(0)
    assert batch.complete(error=TimeoutError("expired")) is True
    assert batch.complete(55) is False
    assert (receipt.offset, type(receipt.error)) == (-1, TimeoutError)


def test_callbacks_are_called_once_in_order_and_at_once_when_it_is_too_late_to_wait() -> None:
    batch = batch_of(3)
    told: list[tuple[str, int]] = []
    batch.delivery(2).add_done_callback(lambda done: told.append(("a", done.offset)))
    batch.delivery(0).add_done_callback(lambda done: told.append(("b", done.offset)))
    batch.delivery(2).add_done_callback(lambda done: told.append(("c", done.offset)))
    assert told == []
    batch.complete(10)
    batch.complete(20)
    assert told == [("a", 12), ("b", 10), ("c", 12)]
    batch.delivery(1).add_done_callback(lambda done: told.append(("late", done.offset)))
    assert told[3:] == [("late", 11)]


def test_a_callback_that_raises_does_not_keep_the_next_from_being_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: raised.append(unraisable.exc_value))
    batch = batch_of(1)
    told: list[Delivery] = []
    batch.delivery(0).add_done_callback(lambda done: 1 // 0)
    batch.delivery(0).add_done_callback(told.append)
    assert batch.complete(5)
    assert [type(error) for error in raised] == [ZeroDivisionError]
    assert [receipt.offset for receipt in told] == [5]


def test_a_callback_may_ask_for_another() -> None:
    batch = batch_of(1)
    told: list[int] = []
    batch.delivery(0).add_done_callback(
        lambda first: first.add_done_callback(lambda second: told.append(second.offset))
    )
    batch.complete(5)
    assert told == [5]


def test_nobody_misses_the_outcome_however_close_it_is() -> None:
    for _ in range(50):
        batch = batch_of(100)
        told: list[int] = []
        started = threading.Barrier(2)

        def ask(
            batch: EncodedBatch = batch, told: list[int] = told, started: threading.Barrier = started
        ) -> None:
            started.wait()
            for i in range(100):
                batch.delivery(i).add_done_callback(lambda done: told.append(done.offset))

        thread = threading.Thread(target=ask)
        thread.start()
        started.wait()
        batch.complete(0)
        thread.join()
        assert sorted(told) == list(range(100))


def test_a_receipt_does_not_keep_the_memory() -> None:
    with everything_given_back():
        batch = batch_of(3)
        receipt = batch.delivery(1)
        batch.complete(10)
        del batch
    assert receipt.offset == 11


def test_a_callback_that_holds_the_batch_is_collected_with_it() -> None:
    class Holder:
        def __init__(self, batch: EncodedBatch) -> None:
            self.batch = batch

        def told(self, delivery: Delivery) -> None:
            raise AssertionError("nobody completes the batch")

    with everything_given_back():
        holder = Holder(batch_of(1))
        gone = weakref.ref(holder)
        holder.batch.delivery(0).add_done_callback(holder.told)
        del holder
        gc.collect()
        assert gone() is None


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_stubs_name_what_the_modules_have(module: Any) -> None:
    stub = ast.parse(Path(module.__file__).with_name(module.__name__.rpartition(".")[2] + ".pyi").read_text())
    for node in stub.body:
        if isinstance(node, ast.FunctionDef):
            assert callable(getattr(module, node.name))
        elif isinstance(node, ast.ClassDef) and not any(
            "Protocol" in ast.unparse(base) for base in node.bases
        ):
            present = {name for name in vars(getattr(module, node.name)) if not name.startswith("_")}
            promised = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            promised |= {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
            assert {name for name in promised if not name.startswith("_")} == present, node.name
