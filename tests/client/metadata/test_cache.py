"""The cache of admin calls: a machine fed with views and times."""

from __future__ import annotations

from ottla.client.metadata.cache import TopicCache
from ottla.client.metadata.merge import GONE
from ottla.client.metadata.view import ClusterView, PartitionView, TopicView

KEEP = 5.0


def topic(name: str, leader: int = 1, error: int = 0) -> TopicView:
    return TopicView(name, error_code=error, partitions=(PartitionView(0, leader, 0),))


def view(*topics: TopicView) -> ClusterView:
    return ClusterView(topics={each.name: each for each in topics})


def test_topics_are_found_while_they_are_fresh() -> None:
    cache = TopicCache(KEEP)
    cache.put(view(topic("a"), topic("b")), ["a"], now=0.0)
    assert cache.get(["a"], 1.0, now=0.9) == {"a": topic("a")}
    assert cache.get(["a"], 1.0, now=1.0) is None
    assert cache.get(["a"], 0.0, now=0.0) is None, "0 always asks"
    assert cache.get(["a", "b"], 1.0, now=0.5) is None, "b was not in the answer"


def test_any_answer_is_enough_for_who_needs_only_brokers() -> None:
    cache = TopicCache(KEEP)
    assert cache.get([], 1.0, now=0.0) is None
    cache.put(view(), [], now=0.0)
    assert cache.get([], 1.0, now=0.5) == {}
    assert cache.get([], 1.0, now=1.0) is None


def test_all_topics_are_only_found_after_an_answer_about_all() -> None:
    cache = TopicCache(KEEP)
    cache.put(view(topic("a")), ["a"], now=0.0)
    assert cache.get(None, 1.0, now=0.0) is None
    cache.put(view(topic("a"), topic("b")), None, now=0.0)
    assert cache.get(None, 1.0, now=0.5) == {"a": topic("a"), "b": topic("b")}
    assert cache.get(["b"], 1.0, now=0.5) == {"b": topic("b")}


def test_troubled_topics_are_not_kept() -> None:
    cache = TopicCache(KEEP)
    cache.put(view(topic("a"), topic("b")), None, now=0.0)
    cache.put(view(topic("a", leader=-1)), ["a"], now=0.1)
    assert cache.get(["a"], 1.0, now=0.2) is None
    assert cache.get(None, 1.0, now=0.2) is None
    cache.put(view(topic("b", error=GONE)), ["b"], now=0.3)
    assert cache.topics == {}


def test_what_is_old_is_dropped() -> None:
    cache = TopicCache(KEEP)
    cache.put(view(topic("a")), ["a"], now=0.0)
    cache.put(view(topic("b")), ["b"], now=KEEP)
    assert list(cache.topics) == ["b"]
