"""Segments and snapshots as lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.wire.batches import BatchHeader, batch_headers, encode_batch
from ottla.wire.records import decode_fetch
from tests.broker.dump.support import change, dump, dump_json, segments, written_log
from tests.broker.log.support import NOW, make_batch, patched

SEGMENT = "00000000000000000000.log"


def segment(folder: Path, *batches: bytes | bytearray, name: str = SEGMENT) -> Path:
    path = folder / name
    path.write_bytes(b"".join(batches))
    return path


def at_offset(batch: bytes | bytearray, offset: int) -> bytearray:
    return patched(batch, ">q", 0, offset, new_crc=False)


def test_every_batch_of_every_segment_is_shown_with_what_its_header_says(tmp_path: Path) -> None:
    log = written_log(tmp_path)
    assert len(segments(log)) > 3
    for path in segments(log):
        expected = batch_headers(path.read_bytes())
        done = dump_json(path)
        assert (done.code, done.complaints) == (0, [])
        assert done.objects[0]["logStartingOffset"] == int(path.stem)
        assert [shown_header(each) for each in done.of_kind("batch")] == [
            shown_of(header) for header in expected
        ]


def shown_of(header: BatchHeader) -> tuple[object, ...]:
    return (
        header.base_offset,
        header.last_offset,
        header.count,
        header.base_sequence,
        header.last_sequence,
        header.producer_id,
        header.producer_epoch,
        header.leader_epoch,
        header.is_transactional,
        header.is_control,
        header.position,
        header.max_timestamp,
        header.size,
        header.crc,
        True,
    )


def shown_header(fields: dict[str, object]) -> tuple[object, ...]:
    names = (
        "baseOffset lastOffset count baseSequence lastSequence producerId producerEpoch partitionLeaderEpoch "
    )
    names += "isTransactional isControl position maxTimestamp size crc isvalid"
    return tuple(fields[name] for name in names.split())


def test_a_batch_is_a_line_in_the_words_of_kafkas_tool(tmp_path: Path) -> None:
    batch = encode_batch(
        [(5, NOW, b"k", b"v", [])],
        leader_epoch=3,
        producer_id=7,
        producer_epoch=1,
        base_sequence=9,
        delete_horizon=NOW + 1,
    )
    crc = batch_headers(batch)[0].crc
    assert dump(segment(tmp_path, batch)).lines[1:] == [
        "Log starting offset: 0",
        "baseOffset: 5 lastOffset: 5 count: 1 baseSequence: 9 lastSequence: 9 producerId: 7 producerEpoch: 1 "
        "partitionLeaderEpoch: 3 isTransactional: false isControl: false "
        f"deleteHorizonMs: OptionalLong[{NOW + 1}] position: 0 CreateTime: {NOW} size: {len(batch)} magic: 2 "
        f"compresscodec: none crc: {crc} isvalid: true",
    ]


def test_records_are_shown_with_keys_values_and_headers(tmp_path: Path) -> None:
    batch = encode_batch(
        [
            (0, NOW, b"k", b"two\nlines", [("h", b"1"), ("g", None)]),
            (1, NOW + 1, None, b"\xff\xfe", []),
            (3, NOW + 2, b"gone", None, []),
        ],
        base_sequence=2**31 - 2,
        producer_id=1,
        producer_epoch=0,
    )
    path = segment(tmp_path, batch)
    assert dump(path, "--print-data-log").lines[3:] == [
        f"| offset: 0 CreateTime: {NOW} keySize: 1 valueSize: 9 sequence: 2147483646 headerKeys: [h,g] "
        "headerValues: [1,null] key: k payload: two\\nlines",
        f"| offset: 1 CreateTime: {NOW + 1} keySize: -1 valueSize: 2 sequence: 2147483647 headerKeys: [] "
        "payload: \ufffd\ufffd",
        f"| offset: 3 CreateTime: {NOW + 2} keySize: 4 valueSize: -1 sequence: 1 headerKeys: [] key: gone",
    ]
    first, second, third = dump_json(path, "--print-data-log").of_kind("record")
    assert first["headers"] == [{"key": "h", "value": "1"}, {"key": "g", "value": None}]
    assert (first["key"], first["payload"]) == ("k", "two\nlines")
    assert (second["key"], second["payload_base64"]) == (None, "//4=")
    assert (third["offset"], third["payload"]) == (3, None)


def test_without_contents_records_have_sizes_only(tmp_path: Path) -> None:
    path = segment(tmp_path, encode_batch([(0, NOW, b"k", b"v", [("h", b"1")])]))
    assert dump(path, "--deep-iteration").lines[3:] == [
        f"| offset: 0 CreateTime: {NOW} keySize: 1 valueSize: 1 sequence: -1 headerKeys: [h]"
    ]


def test_without_metadata_records_have_contents_only(tmp_path: Path) -> None:
    path = segment(tmp_path, encode_batch([(0, NOW, b"k", b"v", [("h", b"1")])]))
    assert dump(path, "--print-data-log", "--skip-record-metadata").lines[3:] == ["| key: k payload: v"]


def test_records_of_every_codec_are_those_that_a_consumer_gets(tmp_path: Path) -> None:
    log = written_log(tmp_path)
    codecs = set()
    for path in segments(log):
        done = dump_json(path, "--print-data-log")
        assert done.code == 0
        codecs |= {each["compresscodec"] for each in done.of_kind("batch")}
        found = [each for each in done.of_kind("record") if "endTxnMarker" not in each]
        assert [(each["offset"], each["timestamp"], each["key"], each["payload"]) for each in found] == [
            (record.offset, record.timestamp, (record.key or b"").decode(), (record.value or b"").decode())
            for record in decode_fetch(path.read_bytes(), "orders", 0)
        ]
    assert codecs == {"none", "gzip", "snappy", "lz4", "zstd"}


def test_markers_say_what_has_become_of_a_transaction(tmp_path: Path) -> None:
    lines = [
        line for path in segments(written_log(tmp_path)) for line in dump(path, "--deep-iteration").lines
    ]
    markers = [line.partition("headerKeys: [] ")[2] for line in lines if "endTxnMarker" in line]
    assert markers == [
        "endTxnMarker: COMMIT coordinatorEpoch: 5",
        "endTxnMarker: ABORT coordinatorEpoch: 5",
    ]


def test_a_wrong_checksum_is_named_with_its_position_and_what_follows_is_shown(tmp_path: Path) -> None:
    first, second = make_batch(2), at_offset(make_batch(1), 2)
    path = segment(tmp_path, first, second)
    change(path, len(first) - 1)
    done = dump_json(path, "--print-data-log")
    assert done.code == 1
    assert [each["isvalid"] for each in done.of_kind("batch")] == [False, True]
    assert done.problems == [f"The checksum of the batch at position 0 of {SEGMENT} is wrong"]
    assert [each["offset"] for each in done.of_kind("record")] == [2]


@pytest.mark.parametrize("cut", [1, 11, 12, 16, 40, 60])
def test_a_torn_tail_is_named_with_its_position(tmp_path: Path, cut: int) -> None:
    first, second = make_batch(2), at_offset(make_batch(1), 2)
    done = dump_json(segment(tmp_path, first, second[:cut]))
    assert done.code == 1
    assert len(done.of_kind("batch")) == 1
    (said,) = done.problems
    assert said.startswith(f"Found {cut} invalid bytes at the end of {SEGMENT}, from position {len(first)}: ")


def test_zeros_at_the_end_are_named(tmp_path: Path) -> None:
    batch = make_batch()
    done = dump_json(segment(tmp_path, batch, bytes(100)))
    assert (done.code, len(done.of_kind("batch"))) == (1, 1)
    assert done.problems[0].startswith(f"Found 100 invalid bytes at the end of {SEGMENT}")


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_before_magic_2_are_refused_with_their_age(tmp_path: Path, magic: int) -> None:
    old = patched(make_batch(), ">b", 16, magic, new_crc=False)
    done = dump(segment(tmp_path, make_batch(), old))
    assert done.code == 2
    assert len(done.lines) == 3, "what precedes them is shown"
    (said,) = done.complaints
    assert f"magic {magic}" in said
    assert "before 0.11" in said


def test_an_unknown_magic_is_refused(tmp_path: Path) -> None:
    done = dump(segment(tmp_path, patched(make_batch(), ">b", 16, -3, new_crc=False)))
    assert done.code == 2
    assert done.complaints[0].endswith("position 0: a batch of the unknown magic -3")


def test_offsets_that_go_back_are_named(tmp_path: Path) -> None:
    batch = at_offset(make_batch(3), 10)
    done = dump_json(segment(tmp_path, batch, batch, name="00000000000000000012.log"))
    assert done.code == 1
    assert [said[said.index("has offset") :] for said in done.problems] == [
        "has offset 10, 12 or more is due",
        "has offset 10, 13 or more is due",
    ]


def test_an_offset_that_is_far_too_large_makes_one_line(tmp_path: Path) -> None:
    batches = [at_offset(make_batch(), offset) for offset in (0, 2**40, 2, 3, 4)]
    done = dump_json(segment(tmp_path, *batches))
    assert done.code == 1
    assert [said[said.index("has offset") :] for said in done.problems] == [
        f"has offset 2, {2**40 + 1} or more is due"
    ]


def test_a_count_that_the_records_do_not_have_is_named(tmp_path: Path) -> None:
    done = dump_json(segment(tmp_path, patched(make_batch(2), ">i", 57, 3)), "--deep-iteration")
    assert done.code == 1
    assert "position 0" in done.problems[0]


def test_max_bytes_ends_the_dump_before_the_batch_that_goes_beyond(tmp_path: Path) -> None:
    first, second = make_batch(2), at_offset(make_batch(1), 2)
    path = segment(tmp_path, first, second, b"torn")
    for limit, count in ((len(first) - 1, 0), (len(first), 1), (len(first + second), 2)):
        done = dump_json(path, "--max-bytes", limit)
        assert (done.code, len(done.of_kind("batch"))) == (0, count)


def test_a_batch_larger_than_allowed_is_not_read_into_memory(tmp_path: Path) -> None:
    done = dump_json(segment(tmp_path, make_batch(2)), "--deep-iteration", "--max-message-size", 50)
    assert done.code == 1
    assert "--max-message-size" in done.problems[0]
    assert done.of_kind("batch")[0]["isvalid"] is True


def test_a_snapshot_of_the_metadata_log_says_where_it_ends(tmp_path: Path) -> None:
    batch = encode_batch([(0, NOW, None, b"\x01\x02\x00\x07orders" + bytes(17), [])])
    for name, said in (
        ("00000000000000000042-0000000003.checkpoint", "Snapshot end offset: 42, epoch: 3"),
        ("bootstrap.checkpoint", "KRaft bootstrap snapshot"),
    ):
        done = dump(segment(tmp_path, batch, name=name), "--print-data-log")
        assert done.code == 0
        assert done.lines[1] == said
        assert done.lines[3].endswith(
            'payload: {"type":"TOPIC_RECORD","version":0,'
            '"data":{"name":"orders","topicId":"AAAAAAAAAAAAAAAAAAAAAA"}}'
        )
