"""Names of resources, and orders of names that Apache Kafka 4.3.1 showed in its responses."""

from __future__ import annotations

import pytest

from ottla.broker.configs.names import check_is_node, check_name, hash_order, node_id_of
from ottla.errors import InvalidRequestError
from ottla.wire.resources import ConfigResourceType

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


@pytest.mark.parametrize(
    ("name", "node_id"),
    [
        ("7", 7),
        ("+7", 7),
        ("-1", -1),
        ("007", 7),
        ("2147483647", 2**31 - 1),
        ("2147483648", None),
        ("", None),
        ("one", None),
    ],
)
def test_a_broker_is_named_by_a_number_of_32_bits(name: str, node_id: int | None) -> None:
    assert node_id_of(name) == node_id


def test_a_request_about_another_broker_is_refused() -> None:
    check_is_node("07", 7, "another node")
    with pytest.raises(InvalidRequestError, match="another node"):
        check_is_node("8", 7, "another node")
    with pytest.raises(InvalidRequestError, match="Node id must be an integer, but it is: x"):
        check_is_node("x", 7, "another node")
    with pytest.raises(InvalidRequestError, match="Broker id must be an integer, but it is: x"):
        check_is_node("x", 7, "another node", subject="Broker")


def test_only_brokers_have_defaults_under_the_empty_name() -> None:
    check_name(ConfigResourceType.BROKER, "")
    for kind in (ConfigResourceType.TOPIC, ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS):
        with pytest.raises(InvalidRequestError):
            check_name(kind, "")
