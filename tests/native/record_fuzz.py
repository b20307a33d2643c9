"""The mutation fuzzer of all that reads records: damaged batches are records, or a DecodeError, and nothing else.

A consumer decodes them; a broker reads the header of a batch, and accepts it or leaves every byte as it was.

    python -m tests.native.record_fuzz --batches 1000000 [--seed N]

Runs under AddressSanitizer in `make sanitize`: what matters there is that no byte outside the input is read.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random

from ottla._native.decode import decode_fetch
from ottla._native.record_batch import AppendRules, read_header, whole_batch
from ottla.errors import DecodeError
from tests.native.decoding import decompress
from tests.oracle.message_sets import OracleMessage, OracleRecord, encode_message, wrap
from tests.oracle.records import ABORT, build_batch, encode_batch, end_marker, resealed
from tests.wire.fuzz import MUTATIONS

NOW = 1_700_000_000_000
HEADER = 61


def corpus() -> list[bytes]:
    """Small fields of every kind."""
    headers = (("a", b"1"), ("b", None))
    records = [
        OracleRecord(0, NOW, None, None),
        OracleRecord(1, NOW + 1, b"key", b"value" * 10, headers),
        OracleRecord(3, NOW - 1, b"", b""),
    ]
    plain = [
        encode_batch(build_batch(records, codec=codec)) for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    ]
    # As a producer sends them: the offsets are consecutive.
    sent = [
        encode_batch(build_batch(records[:2], codec=codec, producer_id=1, producer_epoch=0, base_sequence=0))
        for codec in ("none", "gzip")
    ]
    transactional = encode_batch(build_batch(records, producer_id=1, producer_epoch=0, transactional=True))
    marker = encode_batch(end_marker(ABORT, offset=4, timestamp=NOW, producer_id=1, producer_epoch=0))
    messages = [OracleMessage(offset=n, magic=1, timestamp=NOW, key=b"k", value=b"v" * n) for n in range(3)]
    old = [encode_message(m) for m in messages]
    wrapped = [encode_message(wrap(messages, codec, magic=1)) for codec in ("gzip", "snappy", "lz4")]
    return [*plain, *sent, transactional + marker, b"".join(old), *wrapped, plain[0] + old[0] + plain[2]]


def damaged(random: Random, samples: list[bytes]) -> bytes:
    data = bytearray(random.choice(samples))
    for _ in range(random.choice([1, 1, 2, 3])):
        if data:
            random.choice(MUTATIONS)(random, data)
    # Half of them with a checksum that is right again, so that the damage gets past it.
    if random.random() < 0.5 and len(data) > HEADER and data[16] == 2:
        return resealed(bytes(data))
    return bytes(data)


def framed(data: bytes) -> bytes:
    """The same with the right length, magic and checksum: the damage is behind the frame."""
    whole = bytearray(data)
    whole[8:12] = (len(data) - 12).to_bytes(4)
    whole[16] = 2
    return resealed(bytes(whole))


def append(random: Random, data: bytes) -> bool:
    """What a broker does with a batch that a producer sends; whether it takes it."""
    if len(data) >= HEADER:
        assert read_header(data, len(data) - HEADER).size is not None
        if random.random() < 0.8:
            data = framed(data)
    memory = bytearray(data)
    batch = whole_batch(memory)
    if batch is None:
        return False
    rules = AppendRules(
        max_size=random.choice([1 << 20, 100]),
        before_max_ms=random.choice([2**63 - 1, 1000]),
        after_max_ms=1000,
        append_time=random.random() < 0.3,
        keys_required=random.random() < 0.3,
    )
    accepted = batch.accept(rules, 2**40, 3, NOW, lambda codec, payload: decompress(codec, payload, 1 << 20))
    assert accepted or memory == data
    assert whole_batch(memory) is not None
    return accepted


def fuzz(count: int, seed: int) -> tuple[int, int, int]:
    """Damages that many fields. How many a consumer refused, how many gave records, how many a broker took."""
    random = Random(seed)
    samples = corpus()
    refused = appended = 0
    for number in range(count):
        data = damaged(random, samples)
        try:
            records = decode_fetch(
                data,
                topic="t",
                partition=0,
                decompress=decompress,
                offset=random.choice([0, 0, 2, -5, 2**62]),
                aborted=random.choice([None, [], [(1, 0)], [(1, 0), (1, 2), (7, -1)]]),
                check_crc=random.random() < 0.5,
                max_decompressed=1 << 20,
            )
            for record in records:
                assert record.headers is not None
                assert record.key is None or record.value is None or len(record.key) >= 0
            records.columns()
        except DecodeError:
            refused += 1
        except Exception as error:
            error.add_note(f"seed {seed}, number {number}: {data.hex()}")
            raise
        try:
            appended += append(random, data)
        except Exception as error:
            error.add_note(f"seed {seed}, number {number}: {data.hex()}")
            raise
    return refused, count - refused, appended


def main() -> int:
    parser = argparse.ArgumentParser(description="Damaged batches must be records or a DecodeError.")
    parser.add_argument("--batches", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None, help="default: the time, printed")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else time.time_ns() % 1_000_000_007
    refused, accepted, appended = fuzz(options.batches, seed)
    print(f"seed {seed}: {refused:,} refused, {accepted:,} read, {appended:,} appended, nothing else")
    return 0


if __name__ == "__main__":
    sys.exit(main())
