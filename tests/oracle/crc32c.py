"""CRC32C bit by bit: division by the Castagnoli polynomial, coefficients reversed."""

from __future__ import annotations

POLYNOMIAL = 0x82F63B78


def crc32c(data: bytes, value: int = 0) -> int:
    register = value ^ 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (POLYNOMIAL if register & 1 else 0)
    return register ^ 0xFFFFFFFF
