"""Orders that Apache Kafka 4.3.1 showed in its answers."""

from __future__ import annotations

from ottla.broker.configs.names import hash_order

NAMES = ["no.such.config", "no.such.other", "alpha", "beta", "gamma", "delta"]


def test_names_come_by_their_hashes() -> None:
    names = ["node.id", "broker.rack", "log.dirs", "num.partitions", "auto.create.topics.enable"]
    expected = ["node.id", "num.partitions", "auto.create.topics.enable", "broker.rack", "log.dirs"]
    assert hash_order(names) == hash_order(reversed(names)) == expected


def test_names_that_share_a_bucket_keep_their_order() -> None:
    assert hash_order(NAMES) == ["alpha", "no.such.config", "no.such.other", "delta", "beta", "gamma"]
    assert hash_order(NAMES[::-1]) == ["alpha", "delta", "no.such.other", "no.such.config", "gamma", "beta"]


def test_a_table_that_is_three_quarters_full_has_twice_the_buckets() -> None:
    # Of 16 buckets "q" has the second and "b" the third, of 32 "q" has the eighteenth.
    twelve = ["q", "b", *(f"{letter}" for letter in "cdefghijkl")]
    assert hash_order(twelve)[:2] == ["q", "b"]
    assert hash_order([*twelve, "m"])[:2] == ["b", "c"]


def test_a_name_counts_once_and_may_be_anything() -> None:
    assert hash_order(["a", "a", ""]) == ["", "a"]
    assert hash_order(["\U0001f600", "b"]) == hash_order(["b", "\U0001f600"])
