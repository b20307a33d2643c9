"""murmur2: Kafka's hash of a key, and with it the partition that every client agrees on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla._native import murmur2
from tests.facts import input_bytes, third_party_vectors
from tests.native.known_answers import known_answers
from tests.oracle.murmur2 import murmur2 as oracle
from tests.oracle.murmur2 import partition_for


def test_kafkas_client_gives_the_same_hashes() -> None:
    for answer in known_answers():
        assert murmur2(answer.data) == oracle(answer.data) == answer.murmur2


def test_kafkas_client_chooses_the_same_partitions() -> None:
    for answer in known_answers():
        for count, partition in answer.partitions.items():
            assert (murmur2(answer.data) & 0x7FFFFFFF) % count == partition
            assert partition_for(answer.data, count) == partition


def test_other_projects_give_the_same_hashes() -> None:
    for vector in third_party_vectors("murmur2"):
        assert murmur2(input_bytes(vector)) == vector["expected"], vector["id"]


def test_other_projects_choose_the_same_partitions() -> None:
    for vector in third_party_vectors("murmur2-partition"):
        count = vector["input"]["partitions"]
        assert (murmur2(input_bytes(vector)) & 0x7FFFFFFF) % count == vector["expected"], vector["id"]


@given(st.binary(max_size=1000))
def test_it_is_what_the_slow_twin_says(key: bytes) -> None:
    assert murmur2(key) == oracle(key)


@given(st.binary(max_size=100), st.integers(min_value=0, max_value=15))
def test_the_alignment_of_the_key_does_not_matter(key: bytes, offset: int) -> None:
    assert murmur2(memoryview(bytes(offset) + key)[offset:]) == oracle(key)


@given(st.binary(max_size=100))
def test_the_hash_is_a_java_int(key: bytes) -> None:
    assert -(2**31) <= murmur2(key) < 2**31
