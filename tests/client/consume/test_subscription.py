"""Subscription: what may be written for it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ottla.client.consume.subscription import ServerPattern, Subscription
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ConfigurationError

AUDIT = TopicPartition("audit", 0)


def test_takes_names_patterns_partitions_and_mappings() -> None:
    pattern = re.compile("logs.*")
    made = Subscription.of("orders", pattern, AUDIT, {TopicPartition("audit", 3): 7}, ["more", "orders"])
    assert made.topics == ("orders", "more")
    assert made.patterns == (pattern,)
    assert made.partitions == {AUDIT: None, TopicPartition("audit", 3): 7}
    assert made.named == ("orders", "more", "audit")
    assert made.chosen("audit") == {0: None, 3: 7}


def test_patterns_match_whole_names_and_no_internal_topics() -> None:
    made = Subscription.of(re.compile("__.*|orders"), "__named")
    assert made.matches("orders", False)
    assert not made.matches("orders2", False)
    assert not made.matches("__consumer_offsets", True)
    assert made.matches("__named", True)


@pytest.mark.parametrize(
    "what", [(), (5,), (b"orders",), ("",), (re.compile(b"x"),), ({"orders": 1},), (("orders", 0),)]
)
def test_anything_else_is_refused(what: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigurationError, match="cannot be consumed"):
        Subscription.of(*what)


def test_what_the_coordinator_resolves_matches_nothing_here() -> None:
    made = Subscription.of("audit", ServerPattern("orders-.*"))
    assert made.server_pattern == ServerPattern("orders-.*")
    assert not made.matches("orders-1", False)
    assert made.needs_all_topics
    assert not Subscription.of("audit").needs_all_topics


def test_two_patterns_for_the_coordinator_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"join them with \|"):
        Subscription.of(ServerPattern("a"), ServerPattern("b"))


@pytest.mark.parametrize(("given", "error"), [("", ValueError), (b"a", TypeError), (None, TypeError)])
def test_a_pattern_for_the_coordinator_is_a_str_with_something_in_it(
    given: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match="ServerPattern"):
        ServerPattern(given)


def test_a_partition_beside_its_whole_topic_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="named twice"):
        Subscription.of("audit", AUDIT)


def test_a_negative_partition_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        Subscription.of(TopicPartition("audit", -1))
