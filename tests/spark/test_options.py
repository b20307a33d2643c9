"""The options of source and sink: every one of the JVM connector's, its defaults and its refusals."""

from __future__ import annotations

import logging
import pickle
import re

import pytest

from ottla.client.topic_partition import TopicPartition
from ottla.spark import option_names
from ottla.spark.options import OptionError, SinkOptions, SourceOptions, Topics
from ottla.spark.places import Earliest, Latest, Timestamp

KAFKA = {"kafka.bootstrap.servers": "localhost:9092"}
SUBSCRIBED = {**KAFKA, "subscribe": "t"}


@pytest.fixture(autouse=True)
def nothing_logged_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(option_names, "_logged", set())


def batch(**options: str) -> SourceOptions:
    return SourceOptions.parse({**SUBSCRIBED, **options}, streaming=False)


def stream(**options: str) -> SourceOptions:
    return SourceOptions.parse({**SUBSCRIBED, **options}, streaming=True)


def topics(**options: str) -> Topics:
    return SourceOptions.parse({**KAFKA, **options}, streaming=False).topics


def test_what_is_not_said_is_as_in_the_jvm_connector() -> None:
    assert stream() == SourceOptions(
        kafka={"bootstrap.servers": "localhost:9092"},
        topics=Topics(subscribe=("t",)),
        start=Latest(),
        end=Latest(),
        by_timestamp_strategy="error",
        fail_on_data_loss=True,
        min_partitions=None,
        max_records_per_partition=None,
        max_offsets_per_trigger=None,
        min_offsets_per_trigger=None,
        max_trigger_delay=900.0,
        include_headers=False,
        fetch_offset_retries=3,
        fetch_offset_retry_interval=1.0,
        poll_timeout=120.0,
        value=None,
    )
    assert batch().start == Earliest()


def test_everything_that_is_said_is_kept_whatever_the_case_of_its_name() -> None:
    options = stream(
        **{
            "startingtimestamp": "5",
            "STARTINGOFFSETSBYTIMESTAMPSTRATEGY": "latest",
            "failOnDataLoss": "FALSE",
            "minPartitions": "+7",
            "maxRecordsPerPartition": "8",
            "maxOffsetsPerTrigger": "10",
            "minOffsetsPerTrigger": "9",
            "maxTriggerDelay": "2min",
            "includeHeaders": "true",
            "fetchOffset.numRetries": "11",
            "fetchOffset.retryIntervalMs": "12",
            "kafkaConsumer.pollTimeoutMs": "13",
            "groupIdPrefix": "unused",
            "Kafka.Isolation.Level": "read_committed",
        }
    )
    assert options == SourceOptions(
        kafka={"bootstrap.servers": "localhost:9092", "isolation.level": "read_committed"},
        topics=Topics(subscribe=("t",)),
        start=Timestamp(5),
        by_timestamp_strategy="latest",
        fail_on_data_loss=False,
        min_partitions=7,
        max_records_per_partition=8,
        max_offsets_per_trigger=10,
        min_offsets_per_trigger=9,
        max_trigger_delay=120.0,
        include_headers=True,
        fetch_offset_retries=11,
        fetch_offset_retry_interval=0.012,
        poll_timeout=0.013,
    )


def test_options_travel_to_executors() -> None:
    options = batch(startingOffsets='{"t":{"0":5}}')
    assert pickle.loads(pickle.dumps(options)) == options


def test_options_for_kafka_stay_out_of_the_repr_where_a_password_would_be_logged() -> None:
    secret = {"kafka.sasl.jaas.config": "secret"}
    assert "secret" not in repr(batch(**secret))
    assert "secret" not in repr(SinkOptions.parse({**KAFKA, **secret}))


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


@pytest.mark.parametrize(
    ("name", "text", "refusal"),
    [
        ("minPartitions", "x", "'minPartitions' cannot be 'x': it takes a whole number"),
        ("minPartitions", " 3 ", "whole number"),
        ("minPartitions", "", "whole number"),
        ("minPartitions", "0", "minPartitions must be positive"),
        ("minPartitions", "2147483648", "of at most 2147483647"),
        ("maxRecordsPerPartition", "-3", "maxRecordsPerPartition must be positive"),
        ("maxRecordsPerPartition", "9" * 5000, "whole number"),
        ("maxOffsetsPerTrigger", "x", "'maxOffsetsPerTrigger' cannot be 'x'"),
        ("maxOffsetsPerTrigger", "0", "maxOffsetsPerTrigger must be positive"),
        ("minOffsetsPerTrigger", "x", "'minOffsetsPerTrigger' cannot be 'x'"),
        ("maxTriggerDelay", "1.5s", "'maxTriggerDelay' cannot be '1.5s'.*as in 90s"),
        ("maxTriggerDelay", "10 s", "as in 90s"),
        ("maxTriggerDelay", "1w", "as in 90s"),
        ("failOnDataLoss", "x", "'failOnDataLoss' cannot be 'x': it takes true or false"),
        ("failOnDataLoss", " true", "true or false"),
        ("includeHeaders", "", "'includeHeaders' cannot be '': it takes true or false"),
        ("fetchOffset.numRetries", "0", "'fetchOffset.numRetries' cannot be '0'.*of at least 1"),
        ("fetchOffset.retryIntervalMs", "-1", "'fetchOffset.retryIntervalMs' cannot be '-1'"),
        ("kafkaConsumer.pollTimeoutMs", " 5000", "'kafkaConsumer.pollTimeoutMs' cannot be ' 5000'"),
        ("endingOffsets", "latest", "ending offset not valid in streaming queries: leave out endingOffsets"),
        ("endingOffsetsByTimestamp", "{}", "ending timestamp not valid in streaming queries"),
    ],
)
def test_a_value_that_an_option_cannot_have_is_refused_by_name(name: str, text: str, refusal: str) -> None:
    with pytest.raises(OptionError, match=refusal):
        stream(**{name: text})


@pytest.mark.parametrize(
    ("text", "seconds"), [("5", 0.005), (" 15M ", 900.0), ("3min", 180.0), ("1h", 3600.0), ("250us", 0.00025)]
)
def test_durations_are_written_as_everywhere_in_spark(text: str, seconds: float) -> None:
    assert stream(maxTriggerDelay=text).max_trigger_delay == pytest.approx(seconds)


def test_fewest_offsets_above_the_most_are_refused_in_batches_too() -> None:
    refusal = re.escape("The value of minOffsetPerTrigger(5) is higher than the maxOffsetsPerTrigger(3)")
    for parse in (batch, stream):
        with pytest.raises(OptionError, match=refusal):
            parse(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="3")


def test_a_batch_says_that_it_ignores_limits_of_triggers(caplog: pytest.LogCaptureFixture) -> None:
    options = batch(maxOffsetsPerTrigger="x", maxTriggerDelay="y")
    assert (options.max_offsets_per_trigger, options.max_trigger_delay) == (None, 900.0)
    assert "maxOffsetsPerTrigger option ignored in batch queries" in caplog.text


def test_a_stream_says_that_it_ignores_the_time_of_an_end(caplog: pytest.LogCaptureFixture) -> None:
    assert stream(endingTimestamp="5").end == Latest()
    assert "endingTimestamp has no effect in streaming queries" in caplog.text


def test_a_batch_from_latest_is_refused() -> None:
    with pytest.raises(OptionError, match="starting offset can't be latest for batch queries on Kafka"):
        batch(startingOffsets="latest")


@pytest.mark.parametrize("streaming", [False, True])
def test_the_servers_must_be_named(streaming: bool) -> None:
    with pytest.raises(
        OptionError, match=r"'kafka\.bootstrap\.servers' must be specified for configuring Kafka consumer"
    ):
        SourceOptions.parse({"subscribe": "t"}, streaming=streaming)
    with pytest.raises(
        OptionError, match=r"'kafka\.bootstrap\.servers' must be specified for configuring Kafka producer"
    ):
        SinkOptions.parse({"topic": "t"})


def test_kafka_options_are_checked_when_the_query_is_planned() -> None:
    with pytest.raises(OptionError, match=r"'kafka\.isolation\.level'.*read_committed"):
        batch(**{"kafka.isolation.level": "READ_COMMITTED"})


def test_a_misspelt_option_is_logged_once_with_what_was_meant(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        batch(startingOffset="earliest")
    assert [record.getMessage() for record in caplog.records] == [
        "option startingoffset has no effect: did you mean startingOffsets?"
    ]
    assert caplog.records[0].levelno == logging.WARNING


def test_options_that_spark_reads_itself_or_the_other_side_has_are_not_remarked_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    batch(path="x", topic="t")
    SinkOptions.parse({**SUBSCRIBED, "checkpointLocation": "/c", "startingOffsets": "earliest"})
    assert caplog.records == []


def test_a_sink_may_be_told_its_topic_and_whether_there_are_headers() -> None:
    options = SinkOptions.parse({**KAFKA, "TOPIC": " t ", "includeHeaders": "true", "kafka.linger.ms": "5"})
    assert options == SinkOptions(
        kafka={"bootstrap.servers": "localhost:9092", "linger.ms": "5"}, topic="t", include_headers=True
    )
    assert SinkOptions.parse(KAFKA) == SinkOptions(kafka={"bootstrap.servers": "localhost:9092"})
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("name", "text", "refusal"),
    [
        ("topic", " ", "'topic' is empty: name a topic, or leave it out"),
        ("includeHeaders", "x", "'includeHeaders' cannot be 'x'"),
        ("kafka.key.serializer", "x", "Kafka option 'key.serializer' is not supported"),
    ],
)
def test_a_sink_refuses_what_it_cannot_do(name: str, text: str, refusal: str) -> None:
    with pytest.raises(OptionError, match=refusal):
        SinkOptions.parse({**KAFKA, name: text})
