"""The trace of a simulation: every arrival, in order, and a digest of them all.

Two runs are the same run if their digests are equal. The entries themselves are for people, so only the latest
are kept.
"""

from __future__ import annotations

import hashlib
from collections import deque
from struct import Struct
from typing import Final, NamedTuple

_KEPT: Final = 10_000
_FIGURES: Final = Struct("<dQQL")


class Arrival(NamedTuple):
    """Something that arrived."""

    time: float
    connection: int
    sender: str
    receiver: str
    kind: str
    size: int
    crc32c: int

    def __str__(self) -> str:
        return (
            f"{self.time:.9f} #{self.connection} {self.sender} -> {self.receiver} "
            f"{self.kind} {self.size} {self.crc32c:08x}"
        )


class Trace:
    """What has arrived so far."""

    def __init__(self, kept: int = _KEPT) -> None:
        self.count = 0
        self.latest: deque[Arrival] = deque(maxlen=kept)
        self._hash = hashlib.sha256()

    def add(self, arrival: Arrival) -> None:
        self.count += 1
        self.latest.append(arrival)
        time, connection, sender, receiver, kind, size, checksum = arrival
        self._hash.update(_FIGURES.pack(time, connection, size, checksum))
        self._hash.update(f"{sender} {receiver} {kind}\n".encode())

    def digest(self) -> str:
        return self._hash.hexdigest()
