"""What is tracked, and what is asked because of it."""

from __future__ import annotations

import pytest

from ottla.client.metadata.merge import GONE
from ottla.client.metadata.tracked import TopicsQuery, TrackedTopics
from ottla.client.metadata.view import ClusterView, TopicView

NOTHING = ClusterView()


def tracked(**topics: bool) -> TrackedTopics:
    made = TrackedTopics()
    for topic, create in topics.items():
        made.track(topic, create)
    return made


def knowing(*names: str, error: int = 0) -> ClusterView:
    return ClusterView(topics={name: TopicView(name, error_code=error) for name in names})


def test_without_topics_only_the_brokers_are_asked_for() -> None:
    assert tracked().queries(NOTHING) == [TopicsQuery(())]


def test_topics_are_counted() -> None:
    topics = tracked(orders=False)
    topics.track("orders", create=False)
    assert not topics.untrack("orders")
    assert "orders" in topics
    assert topics.untrack("orders")
    assert "orders" not in topics
    with pytest.raises(ValueError, match="'orders' is not tracked"):
        topics.untrack("orders")


def test_all_topics_are_counted_as_well() -> None:
    topics = tracked(orders=False)
    topics.track_all()
    topics.track_all()
    assert topics.queries(NOTHING) == [TopicsQuery(None)]
    assert not topics.untrack_all()
    assert topics.all
    assert "anything" in topics
    assert topics.untrack_all()
    assert topics.queries(NOTHING) == [TopicsQuery(("orders",))]
    with pytest.raises(ValueError, match="not all topics are tracked"):
        topics.untrack_all()


def test_a_topic_that_may_be_created_is_asked_for_with_creation_until_it_exists() -> None:
    topics = tracked(orders=True)
    assert topics.queries(NOTHING) == [TopicsQuery(("orders",), create=True)]
    assert topics.queries(knowing("orders")) == [TopicsQuery(("orders",))]
    assert topics.queries(knowing("orders", error=GONE)) == [TopicsQuery(("orders",), create=True)]


def test_a_topic_that_must_not_be_created_is_never_asked_for_with_creation() -> None:
    topics = tracked(orders=True, logs=False)
    assert topics.queries(NOTHING) == [TopicsQuery(("orders",), create=True), TopicsQuery(("logs",))]
    assert topics.queries(knowing("orders")) == [TopicsQuery(("orders", "logs"))]
    topics.track_all()
    assert topics.queries(NOTHING) == [TopicsQuery(None), TopicsQuery(("orders",), create=True)]


def test_creation_stays_allowed_until_the_last_one_has_gone() -> None:
    topics = tracked(orders=True)
    topics.track("orders", create=False)
    topics.untrack("orders")
    assert topics.queries(NOTHING) == [TopicsQuery(("orders",), create=True)]
    topics.untrack("orders")
    topics.track("orders", create=False)
    assert topics.queries(NOTHING) == [TopicsQuery(("orders",))]


@pytest.mark.parametrize("version", range(1, 14))
@pytest.mark.parametrize("query", [TopicsQuery(None), TopicsQuery(()), TopicsQuery(("orders",), create=True)])
def test_every_query_can_be_written_in_every_version(query: TopicsQuery, version: int) -> None:
    request = query.request(version)
    read = type(request).decode(request.encode(version), version)
    assert (None if read.topics is None else tuple(topic.name for topic in read.topics)) == query.topics
    assert read.allow_auto_topic_creation == (query.create or version < 4)
