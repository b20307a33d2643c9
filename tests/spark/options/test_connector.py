"""The options of source and sink: every one of the JVM connector's, its defaults and its refusals."""

from __future__ import annotations

import pickle
import re

import pytest

from ottla.spark.options import parsing
from ottla.spark.options.connector import PARALLELISM, UNSTABLE, SinkOptions, SourceOptions
from ottla.spark.options.offsets import Earliest, GlobalTimestamp, Latest
from ottla.spark.options.parsing import OptionError
from ottla.spark.options.topics import Topics

KAFKA = {"kafka.bootstrap.servers": "localhost:9092"}
SUBSCRIBED = {**KAFKA, "subscribe": "t"}


@pytest.fixture(autouse=True)
def nothing_logged_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_logged", set())


def batch(**options: str) -> SourceOptions:
    return SourceOptions.parse({**SUBSCRIBED, **options}, streaming=False)


def stream(**options: str) -> SourceOptions:
    return SourceOptions.parse({**SUBSCRIBED, **options}, streaming=True)


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


def test_the_number_of_tasks_is_the_users_else_that_of_the_cluster_else_a_constant(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert stream(targetPartitions="5", **{PARALLELISM: "3"}).target_partitions == 5
    assert stream(targetPartitions="OFF", **{PARALLELISM: "3"}).target_partitions is None
    assert stream(**{PARALLELISM: "3"}).target_partitions == 3
    assert stream().target_partitions == 8
    assert caplog.text == ""


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
        start=GlobalTimestamp(5),
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
    ("name", "text", "refusal"),
    [
        ("minPartitions", "x", "'minPartitions' cannot be 'x': it takes a whole number"),
        ("minPartitions", " 3 ", "whole number"),
        ("minPartitions", "", "whole number"),
        ("minPartitions", "0", "minPartitions must be positive"),
        ("minPartitions", "2147483648", "of at most 2147483647"),
        ("targetPartitions", "0", "targetPartitions must be positive.*or off"),
        ("targetPartitions", "none", "'targetPartitions' cannot be 'none'.*whole number.*or off"),
        ("targetPartitions", "9" * 5000, "whole number"),
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


def test_a_sink_has_options_for_its_topic_and_for_headers() -> None:
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


def test_a_group_for_the_progress_is_a_name_and_for_streams_only(caplog: pytest.LogCaptureFixture) -> None:
    assert stream(**{"ottla.commit.group": " lag "}).commit_group == "lag"
    assert stream().commit_group is None
    with pytest.raises(OptionError, match=r"'ottla.commit.group' is empty: name a consumer group"):
        stream(**{"ottla.commit.group": " "})
    assert caplog.text == ""
    assert batch(**{"ottla.commit.group": "lag"}).commit_group is None
    assert "ottla.commit.group has no effect in batch queries" in caplog.text


def test_a_sink_writes_exactly_once_unless_it_is_told_otherwise() -> None:
    assert SinkOptions.parse(KAFKA).is_exactly_once
    assert not SinkOptions.parse({**KAFKA, "ottla.delivery": "At-Least-Once"}).is_exactly_once
    with pytest.raises(OptionError, match=r"'ottla\.delivery' cannot be 'twice': it takes exactly-once or"):
        SinkOptions.parse({**KAFKA, "ottla.delivery": "twice"})


def test_a_sink_has_the_id_that_it_is_given_if_kafka_has_topics_of_that_name() -> None:
    options = SinkOptions.parse({**KAFKA, "ottla.sink.id": "copies", "checkpointLocation": "/c"})
    assert (options.sink_id, options.checkpoint) == ("copies", "/c")
    with pytest.raises(OptionError, match=r"'ottla\.sink\.id' cannot be 'a b'.*letters, digits"):
        SinkOptions.parse({**KAFKA, "ottla.sink.id": "a b"})


def test_rows_that_depend_on_chance_are_refused_exactly_once_only() -> None:
    with pytest.raises(OptionError, match=r"on chance: a sample.*or set ottla\.delivery to at-least-once"):
        SinkOptions.parse({**KAFKA, UNSTABLE: "a sample"})
    SinkOptions.parse({**KAFKA, UNSTABLE: "a sample", "ottla.delivery": "at-least-once"})
