"""CRC32C: both implementations give Kafka's answers for every length, alignment and split."""

from __future__ import annotations

import itertools
import platform
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla._native import crc32c
from ottla._native.checksums import _crc32c_implementation, _crc32c_software
from tests.facts import input_bytes, third_party_vectors
from tests.native.known_answers import known_answers
from tests.oracle.crc32c import crc32c as oracle

# Twice through the widest round of the interleaved loop (three streams of 512 words), and then some.
LONGEST = 2 * 3 * 512 * 8 + 100

Checksum = Callable[..., int]
both = pytest.mark.parametrize("checksum", [crc32c, _crc32c_software], ids=["chosen", "software"])
checksums = st.integers(min_value=0, max_value=2**32 - 1)


def noise(length: int) -> bytes:
    return random.Random(length).randbytes(length)


@both
def test_kafkas_client_gives_the_same_checksums(checksum: Checksum) -> None:
    for answer in known_answers():
        assert checksum(answer.data) == answer.crc32c


@both
def test_other_projects_give_the_same_checksums(checksum: Checksum) -> None:
    for vector in third_party_vectors("crc32c"):
        assert checksum(input_bytes(vector)) == vector["expected"], vector["id"]


@both
@given(data=st.binary(max_size=1000), value=checksums)
def test_it_is_the_division_that_defines_it(checksum: Checksum, data: bytes, value: int) -> None:
    assert checksum(data, value) == oracle(data, value)


@both
def test_it_is_that_division_for_long_input_too(checksum: Checksum) -> None:
    data = noise(LONGEST)
    assert checksum(data) == oracle(data)


def test_both_agree_on_every_length() -> None:
    data = memoryview(noise(LONGEST))
    expected = 0
    for length in range(LONGEST):
        assert crc32c(data[:length]) == expected, length
        expected = _crc32c_software(data[length : length + 1], expected)


@pytest.mark.parametrize("length", [1, 7, 8, 71, 72, 73, 1000, 12288, 20000])
def test_both_agree_on_every_alignment(length: int) -> None:
    data = memoryview(noise(length + 64))
    for offset in range(64):
        assert crc32c(data[offset : offset + length]) == _crc32c_software(data[offset : offset + length])


@both
@given(
    length=st.integers(min_value=0, max_value=LONGEST),
    cuts=st.lists(st.integers(min_value=0, max_value=LONGEST), max_size=5),
)
def test_the_parts_of_a_message_chain_to_the_checksum_of_the_whole(
    checksum: Checksum, length: int, cuts: list[int]
) -> None:
    data = memoryview(noise(length))
    bounds = [0, *sorted(min(cut, length) for cut in cuts), length]
    chained = 0
    for start, end in itertools.pairwise(bounds):
        chained = checksum(data[start:end], chained)
    assert chained == checksum(data)


@both
@pytest.mark.parametrize("value", [-1, 2**32, 2**64])
def test_a_value_that_is_no_checksum_is_refused(checksum: Checksum, value: int) -> None:
    with pytest.raises(ValueError, match="value must be a checksum of 32 bits"):
        checksum(b"data", value)


@both
def test_a_value_of_another_type_is_refused(checksum: Checksum) -> None:
    with pytest.raises(TypeError, match="value must be an int, not str"):
        checksum(b"data", "0")


def test_the_processors_own_instruction_is_used_where_there_is_one() -> None:
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        pytest.skip("what this processor can do is read from /proc/cpuinfo, which is missing here")
    words = set(cpuinfo.read_text().split())
    if platform.machine() == "x86_64" and {"sse4_2", "pclmulqdq"} <= words:
        expected = "sse4.2"
    elif platform.machine() == "aarch64" and "crc32" in words:
        expected = "armv8"
    else:
        expected = "software"
    assert _crc32c_implementation() == expected
