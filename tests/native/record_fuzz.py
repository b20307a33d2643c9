"""The mutation fuzzer of the record decoder: damaged batches are records, or a DecodeError, and nothing else.

    python -m tests.native.record_fuzz --batches 1000000 [--seed N]

Runs under AddressSanitizer in `make sanitize`: what matters there is that no byte outside the input is read.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random

from ottla._native.decode import decode_fetch
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
    transactional = encode_batch(build_batch(records, producer_id=1, producer_epoch=0, transactional=True))
    marker = encode_batch(end_marker(ABORT, offset=4, timestamp=NOW, producer_id=1, producer_epoch=0))
    messages = [OracleMessage(offset=n, magic=1, timestamp=NOW, key=b"k", value=b"v" * n) for n in range(3)]
    old = [encode_message(m) for m in messages]
    wrapped = [encode_message(wrap(messages, codec, magic=1)) for codec in ("gzip", "snappy", "lz4")]
    return [*plain, transactional + marker, b"".join(old), *wrapped, plain[0] + old[0] + plain[2]]


def damaged(random: Random, samples: list[bytes]) -> bytes:
    data = bytearray(random.choice(samples))
    for _ in range(random.choice([1, 1, 2, 3])):
        if data:
            random.choice(MUTATIONS)(random, data)
    # Half of them with a checksum that is right again, so that the damage gets past it.
    if random.random() < 0.5 and len(data) > HEADER and data[16] == 2:
        return resealed(bytes(data))
    return bytes(data)


def fuzz(count: int, seed: int) -> tuple[int, int]:
    """Damages and decodes that many fields. How many were refused, and how many gave records."""
    random = Random(seed)
    samples = corpus()
    refused = 0
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
    return refused, count - refused


def main() -> int:
    parser = argparse.ArgumentParser(description="Damaged batches must be records or a DecodeError.")
    parser.add_argument("--batches", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None, help="default: the time, printed")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else time.time_ns() % 1_000_000_007
    refused, accepted = fuzz(options.batches, seed)
    print(f"seed {seed}: {refused:,} refused, {accepted:,} read, nothing else")
    return 0


if __name__ == "__main__":
    sys.exit(main())
