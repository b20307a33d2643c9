"""murmur2 as Kafka has it, in integers of any size cut back to 32 bits after each step."""

from __future__ import annotations

SEED = 0x9747B28C
MULTIPLIER = 0x5BD1E995
MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    whole = len(data) - len(data) % 4
    mixed = SEED ^ len(data)
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * MULTIPLIER & MASK
        word = (word ^ word >> 24) * MULTIPLIER & MASK
        mixed = mixed * MULTIPLIER & MASK ^ word
    if whole < len(data):
        mixed = (mixed ^ int.from_bytes(data[whole:], "little")) * MULTIPLIER & MASK
    mixed = (mixed ^ mixed >> 13) * MULTIPLIER & MASK
    mixed ^= mixed >> 15
    return mixed - (1 << 32) if mixed >> 31 else mixed


def partition_for(key: bytes, partitions: int) -> int:
    """The partition that Kafka's default partitioner chooses for a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
