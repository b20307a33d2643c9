"""Streams lose nothing and read nothing twice: across crashes, restarts, limits, and changes of their topics."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

import ottla
from ottla import TopicPartition
from ottla.broker import Cluster, delay
from ottla.errors import DataLossError
from ottla.spark.options.connector import SourceOptions
from ottla.spark.source import group_progress
from ottla.spark.source.checkpoint import end_offset, from_json, plan_in, start_in
from ottla.spark.source.packing import RangePartition, Split
from ottla.spark.source.stream_reader import KafkaStreamReader, StreamStartError
from tests.spark.reading import source_schema

ALL = ReadAllAvailable()
Offset = dict[str, Any]


class Time:
    """A clock that stands still, except for who sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class MakeReader(Protocol):
    def __call__(self, *, time: Time | None = ..., **options: str) -> KafkaStreamReader: ...


@pytest.fixture
def make(kafka: Cluster) -> Iterator[MakeReader]:
    made: list[KafkaStreamReader] = []

    def make(*, time: Time | None = None, **options: str) -> KafkaStreamReader:
        topics = {} if {"subscribePattern", "assign"} & options.keys() else {"subscribe": "t"}
        given = {"kafka.bootstrap.servers": kafka.bootstrap, **topics, **options}
        parsed = SourceOptions.parse(given, streaming=True)
        time = Time() if time is None else time
        made.append(KafkaStreamReader(parsed, source_schema(parsed), clock=time, sleep=time.sleep))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


@pytest.fixture
def topic(kafka: Cluster) -> str:
    """Five records, in one partition."""
    kafka.create_topic("t", 1)
    kafka.seed("t", [b"%d" % number for number in range(5)])
    return "t"


def through_checkpoint(offset: Offset) -> Offset:
    """As Spark stores an offset, and hands it back."""
    found: Offset = json.loads(json.dumps(offset))
    return found


def latest(reader: KafkaStreamReader, start: Offset, limit: ReadLimit = ALL) -> Offset:
    return through_checkpoint(reader.latestOffset(through_checkpoint(start), limit))


Ranges = list[tuple[str, int, int, int]]


def tasks(reader: KafkaStreamReader, start: Offset, end: Offset) -> list[Ranges]:
    """What each task reads: topic, partition, start and end."""
    planned = reader.partitions(start, end)
    found = [partition.ranges for partition in planned if isinstance(partition, RangePartition)]
    return [[(one.topic, one.partition, one.start, one.end) for one in ranges] for ranges in found]


def ranges(reader: KafkaStreamReader, start: Offset, end: Offset) -> Ranges:
    """What the batch reads."""
    return [one for task in tasks(reader, start, end) for one in task]


def plain(offset: Offset) -> Offset:
    """Where it ends, without where it begins and how it is split."""
    return {topic: partitions for topic, partitions in offset.items() if not topic.startswith(":")}


# The first batch


@pytest.mark.usefixtures("topic")
def test_a_stream_begins_at_the_end_and_says_so_in_its_first_offset(make: MakeReader) -> None:
    reader = make()
    end = latest(reader, reader.initialOffset())
    assert start_in(end) == {TopicPartition("t", 0): 5}
    assert plain(end) == {"t": {"0": 5}}
    assert ranges(reader, reader.initialOffset(), end) == []


@pytest.mark.usefixtures("topic")
def test_the_start_of_a_stream_does_not_move_before_its_first_batch_is_stored(
    kafka: Cluster, make: MakeReader
) -> None:
    reader = make()
    latest(reader, reader.initialOffset())
    kafka.seed("t", [b"5", b"6"])
    end = latest(reader, reader.initialOffset())
    assert ranges(reader, reader.initialOffset(), end) == [("t", 0, 5, 7)]


@pytest.mark.usefixtures("topic")
def test_a_crash_in_the_first_batch_loses_nothing(kafka: Cluster, make: MakeReader) -> None:
    before = make()
    latest(before, before.initialOffset())
    kafka.seed("t", [b"5", b"6"])
    end = latest(before, before.initialOffset())
    kafka.seed("t", [b"7"])
    after = make()  # in another process: where it began is in its offset
    assert ranges(after, after.initialOffset(), end) == [("t", 0, 5, 7)]
    assert ranges(after, end, latest(after, end)) == [("t", 0, 7, 8)]


@pytest.mark.usefixtures("topic")
def test_a_stored_start_beats_options_that_were_changed(make: MakeReader) -> None:
    end = latest(make(), {})
    assert ranges(make(startingOffsets="earliest"), {}, end) == []


@pytest.mark.usefixtures("topic")
def test_without_packing_offsets_are_those_of_the_jvm_connector(kafka: Cluster, make: MakeReader) -> None:
    reader = make(startingOffsets="earliest", targetPartitions="off")
    first = latest(reader, reader.initialOffset())
    assert first == {":start": {"t": {"0": 0}}, "t": {"0": 5}}
    kafka.seed("t", [b"5"])
    assert latest(reader, first) == {"t": {"0": 6}}


@pytest.mark.usefixtures("topic")
def test_an_offset_behind_which_is_nothing_new_is_returned_as_it_came(make: MakeReader) -> None:
    reader = make(startingOffsets="earliest")
    first = latest(reader, reader.initialOffset())
    assert json.dumps(latest(reader, first)) == json.dumps(first)


def test_topics_that_appear_after_the_start_are_read_from_their_first_record(
    kafka: Cluster, make: MakeReader
) -> None:
    first = latest(make(subscribePattern="t.*"), {})
    assert plain(first) == {}
    assert ranges(make(subscribePattern="t.*"), {}, first) == []
    kafka.create_topic("t1", 1)
    kafka.seed("t1", [b"0", b"1"])
    later = make(subscribePattern="t.*")  # a restart: what began with nothing is not begun anew at "latest"
    assert ranges(later, first, latest(later, first)) == [("t1", 0, 0, 2)]


# Checkpoints of the JVM connector


@pytest.mark.usefixtures("topic")
def test_a_checkpoint_of_the_jvm_connector_is_gone_on_with(make: MakeReader) -> None:
    reader = make()
    start = json.loads('{"t":{"0":2}}')
    assert ranges(reader, start, latest(reader, start)) == [("t", 0, 2, 5)]


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize(
    ("starting", "expected"), [("earliest", 0), ('{"t":{"0":2}}', 2), ('{"t":{"0":-2}}', 0)]
)
def test_a_first_batch_that_the_jvm_connector_did_not_finish_is_read_again(
    make: MakeReader, starting: str, expected: int
) -> None:
    assert ranges(make(startingOffsets=starting), {}, {"t": {"0": 4}}) == [("t", 0, expected, 4)]


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("starting", ["latest", '{"t":{"0":-1}}'])
def test_a_start_that_only_the_jvm_connector_knows_has_to_be_given(make: MakeReader, starting: str) -> None:
    with pytest.raises(StreamStartError, match="sources/0/0"):
        make(startingOffsets=starting).partitions({}, {"t": {"0": 4}})


# The plan of a batch


@pytest.fixture
def many(kafka: Cluster) -> str:
    """Six partitions, with ten records each."""
    kafka.create_topic("t", 6)
    for partition in range(6):
        kafka.seed("t", [b"%d" % number for number in range(10)], partition=partition)
    return "t"


def planned(reader: KafkaStreamReader, start: Offset, target: int) -> Offset:
    """The next end offset, with a plan for which ten offsets are enough for a task."""
    end = latest(reader, start)
    plan = Split(target_partitions=target, least_offsets=10)
    return through_checkpoint(end_offset(from_json(end), start=start_in(end), plan=plan))


@pytest.mark.usefixtures("many")
def test_small_partitions_are_read_in_one_task(make: MakeReader) -> None:
    reader = make(startingOffsets="earliest", targetPartitions="4")
    end = latest(reader, {})
    assert plan_in(end) == Split(target_partitions=4)
    assert tasks(reader, {}, end) == [[("t", partition, 0, 10) for partition in range(6)]]


@pytest.mark.usefixtures("many")
def test_a_batch_that_runs_again_is_split_as_before_whatever_the_options_are(
    kafka: Cluster, make: MakeReader
) -> None:
    before = make(startingOffsets="earliest", targetPartitions="3")
    end = planned(before, {}, 3)
    split = tasks(before, {}, end)
    assert [len(task) for task in split] == [2, 2, 2]
    kafka.seed("t", [b"later"])
    for changed in (
        {"targetPartitions": "1"},
        {"targetPartitions": "off"},
        {"minPartitions": "17"},
        {"maxRecordsPerPartition": "3"},
        {"startingOffsets": "latest"},
    ):
        assert tasks(make(time=None, **changed), {}, end) == split


@pytest.mark.usefixtures("many")
def test_a_batch_that_runs_again_is_split_as_before_although_partitions_were_added(
    kafka: Cluster, make: MakeReader
) -> None:
    before = make(startingOffsets="earliest")
    end = planned(before, {}, 3)
    split = tasks(before, {}, end)
    with ottla.Client(kafka.bootstrap) as client:
        client.admin.create_partitions("t", 8)
    kafka.seed("t", [b"0"], partition=7)
    after = make(startingOffsets="earliest")
    assert tasks(after, {}, end) == split
    assert ranges(after, end, latest(after, end)) == [("t", 7, 0, 1)]


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("is_back", [False, True])
def test_a_partition_that_has_vanished_keeps_its_place_in_a_batch_that_runs_again(
    kafka: Cluster, make: MakeReader, is_back: bool
) -> None:
    kafka.create_topic("s", 1)
    kafka.seed("s", [b"0"] * 10)
    both = {"subscribe": "s,t", "startingOffsets": "earliest", "failOnDataLoss": "false"}
    before = make(time=None, **both)
    end = planned(before, {}, 3)
    split = tasks(before, {}, end)
    assert split[0][0] == ("s", 0, 0, 10)
    kafka.delete_topic("s")
    if is_back:
        kafka.create_topic("s", 1)
    assert tasks(make(time=None, **both), {}, end) == split


@pytest.mark.usefixtures("topic")
def test_where_new_partitions_begin_is_decided_once(kafka: Cluster, make: MakeReader) -> None:
    reader = make(failOnDataLoss="false")
    first = latest(reader, {})
    with ottla.Client(kafka.bootstrap) as client:
        client.admin.create_partitions("t", 2)
        kafka.seed("t", [b"0"] * 10, partition=1)
        later = make(failOnDataLoss="false")
        end = latest(later, first)
        assert start_in(end) == {TopicPartition("t", 1): 0}, "and of no partition that is known"
        client.admin.delete_records({TopicPartition("t", 1): 6})
    assert tasks(make(failOnDataLoss="false"), first, end) == [[("t", 1, 0, 10)]]


@pytest.mark.usefixtures("topic")
def test_a_partition_that_appears_before_the_first_batch_ends_is_in_its_start(
    kafka: Cluster, make: MakeReader
) -> None:
    reader = make(startingOffsets="earliest")
    latest(reader, {})
    with ottla.Client(kafka.bootstrap) as client:
        client.admin.create_partitions("t", 2)
    kafka.seed("t", [b"0"], partition=1)
    later = make(startingOffsets='{"t":{"0":2,"1":0}}')
    later._start = {TopicPartition("t", 0): 2}
    end = latest(later, {})
    assert start_in(end) == {TopicPartition("t", 0): 2, TopicPartition("t", 1): 0}
    assert ranges(make(), {}, end) == [("t", 0, 2, 5), ("t", 1, 0, 1)]


@pytest.mark.usefixtures("many")
def test_new_options_count_from_the_next_batch_on(kafka: Cluster, make: MakeReader) -> None:
    first = latest(make(startingOffsets="earliest", targetPartitions="3"), {})
    kafka.seed("t", [b"10"])
    second = latest(make(targetPartitions="5", maxRecordsPerPartition="7"), first)
    assert plan_in(second) == Split(target_partitions=5, max_records_per_partition=7)


@pytest.mark.usefixtures("many")
def test_nothing_new_leaves_the_offset_as_it_was_whatever_the_options_are(make: MakeReader) -> None:
    first = latest(make(startingOffsets="earliest", targetPartitions="3"), {})
    for changed in ({"targetPartitions": "5"}, {"targetPartitions": "off"}, {"minPartitions": "2"}):
        assert json.dumps(latest(make(time=None, **changed), first)) == json.dumps(first)


@pytest.mark.usefixtures("many")
def test_a_batch_without_a_plan_is_not_packed(make: MakeReader) -> None:
    unplanned = latest(make(startingOffsets="earliest", targetPartitions="off"), {})
    separate = [[("t", partition, 0, 10)] for partition in range(6)]
    assert tasks(make(targetPartitions="2"), {}, unplanned) == separate
    of_the_jvm = {"t": {str(partition): 10 for partition in range(6)}}
    start = {"t": {str(partition): 0 for partition in range(6)}}
    assert tasks(make(targetPartitions="2"), start, of_the_jvm) == separate


@pytest.mark.usefixtures("many")
def test_with_packing_switched_off_a_checkpoint_becomes_the_jvm_connectors_with_the_next_batch(
    kafka: Cluster, make: MakeReader
) -> None:
    first = latest(make(startingOffsets="earliest"), {})
    kafka.seed("t", [b"10"])
    back = make(targetPartitions="off")
    second = latest(back, first)
    assert second == {"t": {"0": 11, "1": 10, "2": 10, "3": 10, "4": 10, "5": 10}}
    assert tasks(back, first, second) == [[("t", 0, 10, 11)]]


@pytest.mark.usefixtures("topic")
def test_a_planned_batch_with_a_topic_that_is_no_longer_subscribed_is_read_as_it_was_planned(
    kafka: Cluster, make: MakeReader
) -> None:
    kafka.create_topic("t2", 1)
    kafka.seed("t2", [b"0"])
    start = {"t": {"0": 3}}
    end = latest(make(subscribe="t,t2"), start)
    without = make()
    assert ranges(without, start, end) == [("t", 0, 3, 5), ("t2", 0, 0, 1)]
    with pytest.raises(DataLossError, match="no longer covers topic t2"):
        without.partitions(end, latest(without, end))


# Limits


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "5"}, ReadMaxRows(5)),
        ({"minOffsetsPerTrigger": "3"}, ReadMinRows(3)),
        ({"minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "5"}, ReadMaxRows(5)),
    ],
)
def test_the_default_limit_is_that_of_the_options(
    make: MakeReader, options: dict[str, str], expected: ReadLimit
) -> None:
    assert make(time=None, **options).getDefaultReadLimit() == expected


@pytest.mark.usefixtures("topic")
def test_a_batch_is_limited_unless_all_is_wanted(make: MakeReader) -> None:
    reader = make(startingOffsets="earliest", maxOffsetsPerTrigger="2")
    assert plain(latest(reader, {}, reader.getDefaultReadLimit())) == {"t": {"0": 2}}
    assert plain(latest(reader, {}, ALL)) == {"t": {"0": 5}}
    assert reader.reportLatestOffset() == {"t": {"0": 5}}


@pytest.mark.usefixtures("topic")
def test_a_limited_batch_begins_new_partitions_at_their_first_record(
    kafka: Cluster, make: MakeReader
) -> None:
    with ottla.Client(kafka.bootstrap) as client:
        client.admin.create_partitions("t", 2)
    kafka.seed("t", [b"%d" % number for number in range(5)], partition=1)
    reader = make()
    assert plain(latest(reader, {"t": {"0": 0}}, ReadMaxRows(4))) == {"t": {"0": 2, "1": 2}}


@pytest.mark.usefixtures("topic")
def test_a_batch_waits_for_enough_records_or_long_enough(kafka: Cluster, make: MakeReader) -> None:
    time = Time()
    reader = make(time=time, startingOffsets="earliest", minOffsetsPerTrigger="3", maxTriggerDelay="10s")
    limit = reader.getDefaultReadLimit()
    first = latest(reader, {}, limit)
    assert plain(first) == {"t": {"0": 5}}
    kafka.seed("t", [b"5", b"6"])
    assert latest(reader, first, limit) == first
    assert plain(latest(reader, first, ALL)) == {"t": {"0": 7}}, "Trigger.Once takes what there is"
    time.now += 10.0
    assert plain(latest(reader, first, limit)) == {"t": {"0": 7}}
    kafka.seed("t", [b"7", b"8", b"9"])
    assert plain(latest(reader, {"t": {"0": 7}}, limit)) == {"t": {"0": 10}}


@pytest.mark.usefixtures("topic")
def test_available_now_ends_at_what_was_there_when_it_began(kafka: Cluster, make: MakeReader) -> None:
    reader = make(startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    first = latest(reader, {}, ReadMaxRows(3))
    kafka.seed("t", [b"late"])
    with ottla.Client(kafka.bootstrap) as client:
        client.admin.create_partitions("t", 2)
    second = latest(reader, first, ReadMaxRows(3))
    assert plain(second) == {"t": {"0": 5}}
    assert latest(reader, second, ReadMaxRows(3)) == second


# Partitions come and go


@pytest.mark.usefixtures("topic")
def test_new_partitions_are_read_from_their_first_record(kafka: Cluster, make: MakeReader) -> None:
    reader = make()
    first = latest(reader, {})
    with ottla.Client(kafka.bootstrap) as client:
        client.admin.create_partitions("t", 2)
    kafka.seed("t", [b"0", b"1"], partition=1)
    later = make()
    assert ranges(later, first, latest(later, first)) == [("t", 1, 0, 2)]


@pytest.mark.usefixtures("topic")
def test_a_deleted_topic_is_lost_data(
    kafka: Cluster, make: MakeReader, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic("t2", 1)
    both = {"subscribe": "t,t2"}
    start = {"t": {"0": 3}, "t2": {"0": 0}}
    kafka.delete_topic("t2")
    strict = make(time=None, **both)
    with pytest.raises(DataLossError, match=r"Partitions t2-0 have been deleted.*failOnDataLoss"):
        strict.partitions(start, latest(strict, start))
    lenient = make(time=None, **both, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        end = latest(lenient, start)
        assert ranges(lenient, start, end) == [("t", 0, 3, 5)]
    assert "Partitions t2-0 have been deleted" in caplog.text
    assert latest(lenient, end) == end, "and it goes on without it"


CHANGED = [
    ({"subscribe": "t"}, {"t": {"0": 3}, "t2": {"0": 1}}, "subscribe", "topic t2 (t2-0)", [("t", 0, 3, 5)]),
    (
        {"subscribePattern": "^t$"},
        {"t": {"0": 3}, "t2": {"0": 1}},
        "subscribePattern",
        "topic t2",
        [("t", 0, 3, 5)],
    ),
    ({"assign": '{"t":[0]}'}, {"t": {"0": 3}, "t2": {"0": 1}}, "assign", "topic t2", [("t", 0, 3, 5)]),
    ({"assign": '{"t2":[0]}'}, {"t": {"0": 3}, "t2": {"0": 1, "1": 0}}, "assign", "t2-1", [("t2", 0, 1, 2)]),
    (
        {"subscribe": "t2"},
        {"t": {"0": 3}, "gone": {"0": 1}},
        "subscribe",
        "topics gone, t (gone-0, t-0)",
        None,
    ),
]


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize(("options", "start", "option", "names", "read"), CHANGED)
def test_a_topic_that_is_no_longer_subscribed_is_not_called_deleted(
    kafka: Cluster,
    make: MakeReader,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, str],
    start: Offset,
    option: str,
    names: str,
    read: list[tuple[str, int, int, int]] | None,
) -> None:
    kafka.create_topic("t2", 2)
    kafka.seed("t2", [b"0", b"1"], partition=0)
    strict = make(time=None, **options)
    with pytest.raises(DataLossError) as caught:
        strict.partitions(start, latest(strict, start))
    said = str(caught.value)
    assert f"option {option} no longer covers" in said
    assert names in said
    assert f"in {option} again" in said
    assert "new checkpoint" in said
    assert "failOnDataLoss to false" in said
    assert "deleted" not in said
    assert "not available in Kafka" not in said
    lenient = make(time=None, **options, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        end = latest(lenient, start)
        found = ranges(lenient, start, end)
    assert read is None or found == read
    assert names in caplog.text
    assert "deleted" not in caplog.text
    caplog.clear()
    assert ranges(lenient, end, latest(lenient, end)) == []
    assert caplog.text == "", "it is said once: the next offset has no such topic"


@pytest.mark.usefixtures("topic")
def test_a_topic_that_is_no_longer_subscribed_is_not_waited_for(make: MakeReader) -> None:
    time = Time()
    reader = make(time=time)
    before = time.now
    assert plain(latest(reader, {"t": {"0": 3}, "t2": {"0": 1}})) == {"t": {"0": 5}}
    assert time.now == before


@pytest.mark.usefixtures("topic")
def test_a_deleted_topic_and_one_that_is_no_longer_subscribed_are_reported_each_as_what_it_is(
    kafka: Cluster, make: MakeReader, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic("t2", 1)
    start = {"t": {"0": 3}, "t2": {"0": 0}, "t3": {"0": 0}}
    lenient = make(subscribe="t,t3", failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "ottla.spark.source.data_loss"):
        assert ranges(lenient, start, latest(lenient, start)) == [("t", 0, 3, 5)]
    deleted, unsubscribed = [record.getMessage() for record in caplog.records if "data_loss" in record.name]
    assert "Partitions t3-0 have been deleted" in deleted
    assert "t2" not in deleted
    assert "no longer covers topic t2 (t2-0)" in unsubscribed


@pytest.mark.usefixtures("topic")
def test_an_unfinished_batch_with_a_topic_that_is_no_longer_subscribed_says_so(
    kafka: Cluster, make: MakeReader
) -> None:
    """The batch had come to a new topic, and the query was restarted without it."""
    kafka.create_topic("t2", 1)
    kafka.seed("t2", [b"0"])
    with pytest.raises(DataLossError, match=r"subscribe no longer covers topic t2 \(t2-0\)"):
        make().partitions({"t": {"0": 3}}, {"t": {"0": 5}, "t2": {"0": 1}})


@pytest.mark.usefixtures("topic")
def test_a_stream_whose_only_topic_is_gone_reads_it_from_the_beginning_when_it_is_back(
    kafka: Cluster, make: MakeReader
) -> None:
    kafka.delete_topic("t")
    reader = make(failOnDataLoss="false", startingOffsets='{"t":{"0":3}}')
    end = latest(reader, {"t": {"0": 5}})
    assert ranges(reader, {"t": {"0": 5}}, end) == []
    kafka.create_topic("t", 1)
    kafka.seed("t", [b"new"])
    later = make(failOnDataLoss="false", startingOffsets='{"t":{"0":3}}')
    assert ranges(later, end, latest(later, end)) == [("t", 0, 0, 1)]


@pytest.mark.usefixtures("topic")
def test_a_topic_that_ends_before_what_was_read_is_lost_data(kafka: Cluster, make: MakeReader) -> None:
    reader = make()
    with pytest.raises(DataLossError, match="Partition t-0 offset was changed from 9 to 5"):
        reader.partitions({"t": {"0": 9}}, latest(reader, {"t": {"0": 9}}))
    lenient = make(failOnDataLoss="false")
    end = latest(lenient, {"t": {"0": 9}})
    assert ranges(lenient, {"t": {"0": 9}}, end) == []
    kafka.seed("t", [b"5"])
    assert ranges(lenient, end, latest(lenient, end)) == [("t", 0, 5, 6)]


@pytest.mark.usefixtures("topic")
def test_a_new_partition_whose_first_records_are_gone_is_lost_data(kafka: Cluster, make: MakeReader) -> None:
    with ottla.Client(kafka.bootstrap) as client:
        client.admin.delete_records({TopicPartition("t", 0): 2})
    with pytest.raises(DataLossError, match="Added partition t-0 starts from 2 instead of 0"):
        make().partitions({":start": {}}, {"t": {"0": 5}})
    assert ranges(make(failOnDataLoss="false"), {":start": {}}, {"t": {"0": 5}}) == [("t", 0, 2, 5)]


# Rest


@pytest.mark.usefixtures("topic")
def test_an_idle_stream_sends_requests_twenty_times_a_second(kafka: Cluster, make: MakeReader) -> None:
    time = Time()
    reader = make(time=time)
    first = latest(reader, {})
    assert latest(reader, first) == first
    time.now += 1.0  # it has been idle for long enough
    requests = kafka.faults.add(api="ListOffsets", when="response", action=delay(0.0))
    discovered = kafka.faults.add(api="Metadata", when="response", action=delay(0.0))
    until = time.now + 2.0
    while time.now < until:
        assert latest(reader, first) == first
        time.now += 0.011  # as Spark does
    assert 35 <= requests.hits <= 41
    assert discovered.hits <= 5


@pytest.mark.usefixtures("topic")
def test_nothing_new_is_never_said_from_memory(kafka: Cluster, make: MakeReader) -> None:
    time = Time()
    reader = make(time=time)
    first = latest(reader, {})
    assert latest(reader, first) == first
    kafka.seed("t", [b"5"])
    before = time.now
    assert plain(latest(reader, first)) == {"t": {"0": 6}}
    assert time.now - before <= 0.05


# Travel


@pytest.mark.usefixtures("topic")
def test_a_task_reads_with_a_copy_of_the_reader(make: MakeReader) -> None:
    reader = make(startingOffsets="earliest")
    (partition,) = reader.partitions({}, latest(reader, {}))
    batches = list(pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(partition))))
    assert [value for batch in batches for value in batch.column("value").to_pylist()] == [
        b"%d" % number for number in range(5)
    ]


# Progress in a consumer group

GROUP = {"ottla.commit.group": "lag"}


@pytest.fixture
def patient_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer to commit than a query should wait."""
    monkeypatch.setattr(group_progress, "FAREWELL", 60.0)


def committed(kafka: Cluster) -> dict[TopicPartition, int]:
    with ottla.Client(kafka.bootstrap) as client:
        found = client.admin.group_offsets("lag")
    return {partition: offset.offset for partition, offset in found.items() if offset is not None}


@pytest.mark.usefixtures("topic", "patient_end")
def test_a_group_is_told_what_is_finished_and_nothing_that_may_not_be(
    kafka: Cluster, make: MakeReader
) -> None:
    reader = make(time=None, startingOffsets="earliest", **GROUP)
    end = latest(reader, reader.initialOffset())
    reader.stop()
    assert committed(kafka) == {TopicPartition("t", 0): 0}, "the first batch may not have run"
    again = make(time=None, **GROUP)
    latest(again, end)
    again.stop()
    assert committed(kafka) == {TopicPartition("t", 0): 5}


@pytest.mark.usefixtures("topic", "patient_end")
def test_a_query_that_ends_by_itself_has_committed_its_last_batch_before(
    kafka: Cluster, make: MakeReader
) -> None:
    reader = make(time=None, startingOffsets="earliest", **GROUP)
    reader.prepareForTriggerAvailableNow()
    end = latest(reader, reader.initialOffset())
    assert latest(reader, end) == end
    assert committed(kafka) == {TopicPartition("t", 0): 5}


@pytest.mark.usefixtures("topic")
def test_without_the_option_there_is_no_group(kafka: Cluster, make: MakeReader) -> None:
    reader = make(startingOffsets="earliest")
    latest(reader, latest(reader, reader.initialOffset()))
    reader.stop()
    with ottla.Client(kafka.bootstrap) as client:
        assert client.admin.list_groups() == {}
