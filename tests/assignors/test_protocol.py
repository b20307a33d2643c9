"""Subscriptions, assignments and user data: the bytes of Kafka's clients, there and back, and bytes that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.assignors import MemberSubscription
from ottla.assignors.protocol import (
    decode_assignment,
    decode_cooperative_data,
    decode_sticky_data,
    decode_subscription,
    encode_assignment,
    encode_cooperative_data,
    encode_sticky_data,
    encode_subscription,
)
from ottla.errors import DecodeError

_MEMBER = MemberSubscription(
    "m", ("b", "a"), rack="r1", owned=(("a", 1), ("a", 0), ("b", 2)), generation=5, user_data=b"\1\2"
)
# Written by Kafka 4.3's client.
_SUBSCRIPTIONS = (
    "000000000002000161000162000000020102",
    "000100000002000161000162000000020102000000020001610000000200000000000000010001620000000100000002",
    "00020000000200016100016200000002010200000002000161000000020000000000000001000162000000010000000200000005",
    "0003000000020001610001620000000201020000000200016100000002000000000000000100016200000001000000020000000500027231",
)
_ASSIGNMENT = "{version:04x}000000020001740000000200000000000000030001730000000100000001ffffffff"
_STICKY_DATA = "000000020002743100000002000000000000000200027432000000010000000100000007"


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_has_the_bytes_of_kafkas_client(version: int) -> None:
    assert encode_subscription(_MEMBER, version).hex() == _SUBSCRIPTIONS[version]


def test_a_subscription_of_the_latest_version_is_read_back_whole() -> None:
    read = decode_subscription(encode_subscription(_MEMBER), "m", "instance")
    assert read == MemberSubscription(
        "m", ("a", "b"), "instance", "r1", (("a", 0), ("a", 1), ("b", 2)), 5, b"\1\2"
    )


def test_an_old_subscription_has_no_generation_and_no_rack() -> None:
    read = decode_subscription(bytes.fromhex(_SUBSCRIPTIONS[0]), "m")
    assert (read.topics, read.owned, read.generation, read.rack) == (("a", "b"), (), -1, None)


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_has_the_bytes_of_kafkas_client(version: int) -> None:
    partitions = [("t", 0), ("t", 3), ("s", 1)]
    data = bytes.fromhex(_ASSIGNMENT.format(version=version))
    assert encode_assignment(partitions, version=version) == data
    assert decode_assignment(data) == (partitions, None)


def test_a_version_that_is_not_known_yet_is_read_as_the_latest_known() -> None:
    newer = b"\0\7" + encode_subscription(_MEMBER)[2:] + b"fields of version 7"
    assert decode_subscription(newer, "m").rack == "r1"
    assert decode_assignment(b"\0\7" + encode_assignment([("t", 1)])[2:] + b"more") == ([("t", 1)], None)


def test_a_member_that_the_leader_left_out_has_no_partitions() -> None:
    assert decode_assignment(b"") == ([], None)


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\xff\xff", b"\0\1\0\0\0\1", b"\0\3\x7f\xff\xff\xff", b"a text"]
)
def test_bytes_that_are_no_subscription_are_refused_by_the_name_of_the_member(data: bytes) -> None:
    with pytest.raises(DecodeError, match="the subscription of member 'm1'"):
        decode_subscription(data, "m1")


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff\0", b"\0\1\0\0\0\1", b"a text"])
def test_bytes_that_are_no_assignment_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError, match="an assignment"):
        decode_assignment(data)


def test_the_user_data_of_sticky_has_the_bytes_of_kafkas_client() -> None:
    owned = [("t1", 0), ("t1", 2), ("t2", 1)]
    assert encode_sticky_data(owned, 7).hex() == _STICKY_DATA
    assert decode_sticky_data(bytes.fromhex(_STICKY_DATA)) == (owned, 7)


def test_the_user_data_of_older_sticky_members_has_no_generation() -> None:
    assert decode_sticky_data(bytes.fromhex("000000010003743033" + "0000000100000005")) == ([("t03", 5)], -1)


def test_the_user_data_of_cooperative_sticky_is_the_generation() -> None:
    assert encode_cooperative_data(7).hex() == "00000007"
    assert decode_cooperative_data(encode_cooperative_data(7)) == 7
    assert decode_cooperative_data(None) == decode_cooperative_data(b"\0") == -1


@given(st.binary(max_size=60))
def test_no_user_data_stops_an_assignment(data: bytes) -> None:
    owned, generation = decode_sticky_data(data)
    assert -(2**31) <= generation < 2**31
    assert all(-(2**31) <= number < 2**31 for _, number in owned)


@given(st.binary(max_size=80))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (lambda: decode_subscription(data, "m"), lambda: decode_assignment(data)):
        try:
            read()
        except DecodeError:
            continue


@given(st.lists(st.tuples(st.text("ab", min_size=1, max_size=3), st.integers(0, 2**31 - 1)), unique=True))
def test_what_was_owned_comes_back_from_the_user_data(owned: list[tuple[str, int]]) -> None:
    read, generation = decode_sticky_data(encode_sticky_data(owned, 3))
    assert (sorted(read), generation) == (sorted(owned), 3)
