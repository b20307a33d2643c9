"""What a query reads: topics by name, by pattern, or partitions one by one; and what is refused."""

from __future__ import annotations

import pytest

from ottla.client.topic_partition import TopicPartition
from ottla.spark.options.parsing import OptionError
from ottla.spark.options.topics import Topics, parse_topics


def topics(**options: str) -> Topics:
    return parse_topics({name.lower(): value for name, value in options.items()})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"subscribe": " t , u,t,"}, Topics(subscribe=("t", "u"))),
        ({"subscribePattern": " orders-.* "}, Topics(pattern="orders-.*")),
        ({"assign": ' {"t":[1,0,1]}'}, Topics(assign=(TopicPartition("t", 1), TopicPartition("t", 0)))),
    ],
)
def test_topics_are_named_matched_or_assigned(options: dict[str, str], expected: Topics) -> None:
    assert topics(**options) == expected


@pytest.mark.parametrize(
    ("options", "option", "covered"),
    [
        ({"subscribe": "t,u"}, "subscribe", ["t-0", "t-1", "u-0"]),
        ({"subscribePattern": "t"}, "subscribePattern", ["t-0", "t-1", "tt-0"]),
        ({"assign": '{"t":[1]}'}, "assign", ["t-1"]),
    ],
)
def test_topics_cover_the_partitions_that_the_option_names(
    options: dict[str, str], option: str, covered: list[str]
) -> None:
    found = topics(**options)
    there = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("tt", 0), TopicPartition("u", 0)]
    assert found.option == option
    assert [str(partition) for partition in there if found.covers(partition)] == covered


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (
            {},
            "One of the following options must be specified for Kafka source: subscribe, subscribePattern, assign",
        ),
        ({"topic": "t"}, "'topic' is the sink's: write subscribe"),
        (
            {"subscribe": "t", "assign": "{}"},
            "Only one of the following options can be specified.*subscribe and assign",
        ),
        (
            {"subscribe": " , "},
            "No topics to subscribe to as specified value for option 'subscribe' is ' , '",
        ),
        (
            {"subscribePattern": " "},
            "Pattern to subscribe is empty as specified value for option 'subscribePattern'",
        ),
        ({"subscribePattern": "("}, "'subscribePattern' cannot be '\\('"),
        ({"assign": ""}, "No topicpartitions to assign as specified value for option 'assign' is ''"),
        ({"assign": "{}"}, "No topicpartitions to assign"),
        ({"assign": '{"t":[]}'}, "No topicpartitions to assign"),
        ({"assign": "{x"}, r'Expected e\.g\. {"topicA":\[0,1\],"topicB":\[0,1\]}, got {x'),
        ({"assign": '{"t":0}'}, "Expected e.g."),
        ({"assign": '{"t":["0"]}'}, "Expected e.g."),
        ({"assign": '{"t":[-1]}'}, "Expected e.g."),
    ],
)
def test_topics_that_cannot_be_read_are_refused(options: dict[str, str], refusal: str) -> None:
    with pytest.raises(OptionError, match=refusal):
        topics(**options)
