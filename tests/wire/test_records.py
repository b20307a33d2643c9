"""Records through the wire layer: the compiled core with the codecs of `ottla.wire.compression`."""

from __future__ import annotations

import sys

import pytest

from ottla.errors import DecodeError, MissingExtraError
from ottla.wire.records import decode_fetch, to_arrow
from tests.oracle.message_sets import OracleMessage, OracleRecord, encode_message, wrap
from tests.oracle.records import build_batch, encode_batch

NOW = 1_700_000_000_000
WRITTEN = [OracleRecord(n, NOW + n, b"k%d" % n, b"v" * n * 100, (("h", b"1"),)) for n in range(20)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(codec: str) -> None:
    records = decode_fetch(encode_batch(build_batch(WRITTEN, codec=codec)), "orders", 1)
    assert [(r.offset, r.key, r.value, tuple(r.headers)) for r in records] == [
        (r.offset, r.key, r.value, r.headers) for r in WRITTEN
    ]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_of_every_codec_are_read(codec: str, magic: int) -> None:
    time = -1 if magic == 0 else NOW
    messages = [OracleMessage(magic, n, time, b"k", b"v%d" % n) for n in range(5)]
    data = encode_message(wrap(messages, codec, magic=magic))
    records = decode_fetch(data, "orders", 1)
    assert [(r.offset, r.value) for r in records] == [(n, b"v%d" % n) for n in range(5)]


def test_what_a_fetch_may_grow_to_is_bounded() -> None:
    bomb = encode_batch(build_batch([OracleRecord(0, NOW, None, bytes(10_000_000))], codec="zstd"))
    with pytest.raises(DecodeError, match="1000000"):
        decode_fetch(bomb, "orders", 0, max_decompressed=1_000_000)


def test_an_unknown_codec_is_named() -> None:
    data = bytearray(encode_batch(build_batch(WRITTEN)))
    data[22] |= 7
    with pytest.raises(DecodeError, match=r"orders\[0\] at offset 0: .*7"):
        decode_fetch(data, "orders", 0, check_crc=False)


def test_records_become_an_arrow_batch() -> None:
    batch = to_arrow(decode_fetch(encode_batch(build_batch(WRITTEN)), "orders", 1), timestamp_unit="us")
    assert batch.column("value").to_pylist() == [r.value for r in WRITTEN]


def test_arrow_is_an_extra_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ottla\[columns\]'"):
        to_arrow(decode_fetch(b"", "orders", 0))
