"""20,000 damaged frames in each run of the suite; `make fuzz` takes a million."""

from __future__ import annotations

import pytest

from ottla.wire.message import message_class
from tests.wire.fuzz import check, fuzz

# Four parts, so that they can run side by side. Fixed seeds: the suite passes or fails for everyone alike.
FRAMES, PARTS = 20_000, 4


@pytest.mark.parametrize("seed", range(PARTS))
def test_damaged_frames_are_a_message_or_a_decode_error(seed: int) -> None:
    refused, accepted = fuzz(FRAMES // PARTS, seed)
    assert refused + accepted == FRAMES // PARTS
    # Mutations that were all refused, or all harmless, would test nothing.
    assert refused > FRAMES // PARTS // 10
    assert accepted > FRAMES // PARTS // 10


def test_the_fuzzer_reports_a_decoder_that_fails_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = message_class("HeartbeatRequest")

    def broken(buf: bytes, pos: int, end: int) -> None:
        raise KeyError("broken")

    monkeypatch.setitem(cls._decoders, 4, broken)
    with pytest.raises(KeyError):
        check(cls, 4, b"")
