"""Reads known_answers.txt: what Apache Kafka's own client computes for the bytes in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PARTITION_COUNTS = (1, 2, 3, 6, 7, 12, 50, 100, 1000)


@dataclass(frozen=True)
class KnownAnswer:
    data: bytes
    crc32c: int
    murmur2: int
    partitions: dict[int, int]


def known_answers() -> list[KnownAnswer]:
    lines = Path(__file__).with_suffix(".txt").read_text().splitlines()
    return [_parse(line) for line in lines if not line.startswith("#")]


def _parse(line: str) -> KnownAnswer:
    data, crc, murmur, partitions = line.split()
    return KnownAnswer(
        data=b"" if data == "-" else bytes.fromhex(data),
        crc32c=int(crc),
        murmur2=int(murmur),
        partitions=dict(zip(PARTITION_COUNTS, map(int, partitions.split(",")), strict=True)),
    )
