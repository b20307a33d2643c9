"""The mutation fuzzer: known answers, damaged, must still be a message or a DecodeError.

    python -m tests.wire.fuzz --frames 1000000 [--seed N]

Frames that are accepted must also be stable: written again and read again, they give the same message.
Everything follows from the seed, which is printed with a failure.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from random import Random

from ottla.errors import DecodeError
from ottla.wire.message import Message
from ottla.wire.primitives import uvarint
from tests.wire.vectors import message_vectors

__all__ = ["check", "fuzz", "uvarint"]

_INTERESTING = [
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff",
    b"\x7f\xff",
    b"\xff" * 5,
    b"\x80" * 5,
    b"\xff\xff\xff\xff\x07",
    b"\0",
    b"\1",
    b"\x7f",
    b"\x80\1",
]


def check(cls: type[Message], version: int, data: bytes) -> bool:
    """Whether `data` is a message; anything but a message or a DecodeError is an error here too."""
    try:
        message = cls.decode(data, version)
    except DecodeError:
        return False
    again = message.encode(version)
    assert cls.decode(again, version).encode(version) == again
    # Not compared with `data`: numbers have more than one spelling as a varint.
    return True


def flip_bits(random: Random, data: bytearray) -> None:
    for _ in range(random.randint(1, 4)):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def overwrite(random: Random, data: bytearray) -> None:
    at = random.randrange(len(data))
    piece = random.choice(_INTERESTING)
    data[at : at + len(piece)] = piece


def insert(random: Random, data: bytearray) -> None:
    at = random.randrange(len(data) + 1)
    data[at:at] = random.choice(_INTERESTING)


def remove(random: Random, data: bytearray) -> None:
    at = random.randrange(len(data))
    del data[at : at + random.randint(1, 8)]


def truncate(random: Random, data: bytearray) -> None:
    del data[random.randrange(len(data)) :]


def repeat(random: Random, data: bytearray) -> None:
    start = random.randrange(len(data))
    stop = random.randint(start, min(len(data), start + 40))
    data[start:start] = data[start:stop]


MUTATIONS: list[Callable[[Random, bytearray], None]] = [
    flip_bits,
    overwrite,
    insert,
    remove,
    truncate,
    repeat,
]


def fuzz(
    frames: int, seed: int, progress: Callable[[int, int], None] = lambda done, accepted: None
) -> tuple[int, int]:
    """Damages and checks that many frames. How many were refused, and how many were still messages."""
    random = Random(seed)
    vectors = [vector for vector in message_vectors() if vector.data]
    accepted = 0
    for done in range(frames):
        vector = random.choice(vectors)
        # Mostly the version that it was written in, sometimes another: peers that disagree on it.
        version = vector.version if random.random() < 0.9 else random.choice(list(vector.cls.VERSIONS))
        data = bytearray(vector.data)
        for _ in range(random.choice([1, 1, 1, 2, 3])):
            if data:
                random.choice(MUTATIONS)(random, data)
        try:
            accepted += check(vector.cls, version, bytes(data))
        except Exception as error:
            error.add_note(
                f"seed {seed}, frame {done}: {vector.cls.__name__} v{version}: {bytes(data).hex()}"
            )
            raise
        if done % 10_000 == 9_999:
            progress(done + 1, accepted)
    return frames - accepted, accepted


def main() -> int:
    parser = argparse.ArgumentParser(description="Damaged frames must be a message or a DecodeError.")
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None, help="default: the time, printed")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else time.time_ns() % 1_000_000_007
    started = time.monotonic()

    def progress(done: int, accepted: int) -> None:
        rate = done / (time.monotonic() - started)
        print(
            f"\r{done:>9,} of {options.frames:,}, {rate:,.0f} a second", end="", file=sys.stderr, flush=True
        )

    refused, accepted = fuzz(options.frames, seed, progress)
    print(f"\nseed {seed}: {refused:,} refused, {accepted:,} still messages, nothing else")
    return 0


if __name__ == "__main__":
    sys.exit(main())
