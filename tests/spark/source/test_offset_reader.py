"""What the driver learns from Kafka, while topics come and go and brokers misbehave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import pytest

import ottla
from ottla import TopicPartition
from ottla.broker import Cluster, TopicSpec, delay, drop, error
from ottla.errors import ApiTimeoutError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from ottla.spark.options.connector import SourceOptions
from ottla.spark.options.parsing import OptionError
from ottla.spark.source.offset_reader import OffsetReader
from ottla.wire.batches import PlainRecord, encode_batch
from tests.broker.log.support import append_to

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
FUTURE = 10**14
"""A time, in milliseconds, that no record has."""


class Sleeps(list[float]):
    """Instead of time.sleep: how long was slept; something may happen meanwhile."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self._meanwhile = meanwhile

    def __call__(self, seconds: float) -> None:
        self.append(seconds)
        self._meanwhile()


class MakeReader(Protocol):
    def __call__(
        self, options: Mapping[str, str] = ..., *, streaming: bool = ..., sleep: Sleeps | None = ...
    ) -> OffsetReader: ...


@pytest.fixture
def make(kafka: Cluster) -> Iterator[MakeReader]:
    """Readers of topic t, unless the options say otherwise; closed at the end, as their client is the process's."""
    made: list[OffsetReader] = []

    def make(
        options: Mapping[str, str] | None = None, *, streaming: bool = True, sleep: Sleeps | None = None
    ) -> OffsetReader:
        topics = {} if options and {"assign", "subscribePattern"} & options.keys() else {"subscribe": "t"}
        given = {"kafka.bootstrap.servers": kafka.bootstrap, **topics, **(options or {})}
        parsed = SourceOptions.parse(given, streaming=streaming)
        made.append(OffsetReader(parsed, sleep=Sleeps() if sleep is None else sleep))
        return made[-1]

    yield make
    for reader in made:
        reader.close()


@pytest.fixture
def topic(kafka: Cluster) -> str:
    """Offsets 0 to 3 in one partition, 0 to 1 in the other."""
    kafka.create_topic("t", 2)
    kafka.seed("t", [b"1", b"2", b"3"])
    kafka.seed("t", [b"1"], partition=1)
    return "t"


# Offset specs


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {T0: 3, T1: 1}),
        ({"startingOffsets": "earliest"}, {T0: 0, T1: 0}),
        ({"startingOffsets": '{"t":{"0":2,"1":-1}}'}, {T0: 2, T1: 1}),
        ({"startingOffsets": '{"t":{"0":-2,"1":77}}'}, {T0: 0, T1: 77}),
        ({"startingTimestamp": "1"}, {T0: 0, T1: 0}),
        ({"startingOffsetsByTimestamp": '{"t":{"0":1,"1":2}}'}, {T0: 0, T1: 0}),
        (
            {"startingTimestamp": str(FUTURE), "startingOffsetsByTimestampStrategy": "latest"},
            {T0: 3, T1: 1},
        ),
        ({"subscribePattern": "t|u"}, {T0: 3, T1: 1}),
        ({"subscribePattern": "."}, {T0: 3, T1: 1}),
        ({"subscribePattern": "tt|u"}, {}),
        ({"assign": '{"t":[1]}'}, {T1: 1}),
        ({"assign": '{"t":[1,9]}'}, {T1: 1}),
    ],
)
def test_every_starting_option_has_its_offsets(
    make: MakeReader, options: dict[str, str], expected: dict[TopicPartition, int]
) -> None:
    assert make(options).start() == expected


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {T0: 3, T1: 1}),
        ({"endingOffsets": '{"t":{"0":2,"1":-1}}'}, {T0: 2, T1: 1}),
        ({"endingTimestamp": "1"}, {T0: 0, T1: 0}),
        ({"endingTimestamp": str(FUTURE)}, {T0: 3, T1: 1}),
        ({"endingOffsetsByTimestamp": f'{{"t":{{"0":1,"1":{FUTURE}}}}}'}, {T0: 0, T1: 1}),
    ],
)
def test_every_ending_option_has_its_offsets(
    make: MakeReader, options: dict[str, str], expected: dict[TopicPartition, int]
) -> None:
    assert make(options, streaming=False).start_and_end() == ({T0: 0, T1: 0}, expected)


@pytest.mark.usefixtures("topic")
def test_a_time_that_no_record_has_is_an_error_that_names_the_option(make: MakeReader) -> None:
    with pytest.raises(OptionError, match=r"No offset matched .* t-0 .* startingOffsetsByTimestampStrategy"):
        make({"startingTimestamp": str(FUTURE)}).start()


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"startingOffsets": '{"t":{"0":1}}'}, "startingOffsets"),
        ({"startingOffsets": '{"t":{"0":1,"1":1,"2":1}}'}, "startingOffsets"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":1}}'}, "startingOffsetsByTimestamp"),
    ],
)
def test_offsets_have_to_name_every_partition_and_no_other(
    make: MakeReader, options: dict[str, str], named: str
) -> None:
    with pytest.raises(OptionError, match=rf"for {named} don't match .* Assigned: t-0, t-1"):
        make(options).start()


def test_with_read_committed_the_latest_offset_is_before_open_transactions(
    kafka: Cluster, make: MakeReader
) -> None:
    kafka.create_topic("t", 1)
    kafka.seed("t", [b"1"])
    _open_transaction(kafka)
    assert make().start() == {T0: 2}
    assert make({"kafka.isolation.level": "read_committed"}).start() == {T0: 1}


def _open_transaction(kafka: Cluster) -> None:
    """One record, of a transaction that has not ended."""
    records: list[PlainRecord] = [(0, 1_700_000_000_000, None, b"open", [])]
    batch = encode_batch(records, transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)

    def append() -> None:
        partition = kafka._cluster.partition("t")
        append_to(partition, batch)
        partition.commit(0)

    kafka.call(append)


# The world changes


def test_a_topic_that_does_not_exist_is_an_error_after_all_attempts(make: MakeReader) -> None:
    sleeps = Sleeps()
    reader = make({"fetchOffset.numRetries": "4", "fetchOffset.retryIntervalMs": "250"}, sleep=sleeps)
    with pytest.raises(UnknownTopicOrPartitionError) as caught:
        reader.start()
    assert sleeps == [0.25] * 3
    assert "fetchOffset.numRetries" in "".join(caught.value.__notes__)


def test_a_topic_that_is_created_between_two_attempts_is_found(kafka: Cluster, make: MakeReader) -> None:
    assert make(sleep=Sleeps(lambda: kafka.create_topic("t", 1))).start() == {T0: 0}


@pytest.mark.usefixtures("topic")
def test_a_partition_that_seems_to_have_lost_records_is_requested_again(
    kafka: Cluster, make: MakeReader
) -> None:
    sleeps = Sleeps(lambda: kafka.seed("t", [b"4", b"5"]))
    assert make(sleep=sleeps).latest({T0: 5, T1: 1}) == {T0: 5, T1: 1}
    assert sleeps == [1.0]


@pytest.mark.usefixtures("topic")
def test_what_kafka_says_three_times_is_true(make: MakeReader) -> None:
    sleeps = Sleeps()
    assert make(sleep=sleeps).latest({T0: 9, T1: 1}) == {T0: 3, T1: 1}
    assert sleeps == [1.0, 1.0]


@pytest.mark.usefixtures("topic")
def test_a_known_topic_that_is_gone_is_left_out(kafka: Cluster, make: MakeReader) -> None:
    reader = make()
    kafka.delete_topic("t")
    assert reader.latest({T0: 3, T1: 1}) == {}


@pytest.mark.usefixtures("topic")
def test_a_topic_that_was_never_read_must_exist_unless_data_may_be_lost(make: MakeReader) -> None:
    both = {"subscribe": "t,u"}
    with pytest.raises(UnknownTopicOrPartitionError):
        make(both).latest({T0: 3, T1: 1})
    assert make({**both, "failOnDataLoss": "false"}).latest({T0: 3, T1: 1}) == {T0: 3, T1: 1}


@pytest.mark.usefixtures("topic")
def test_first_offsets_are_those_of_the_partitions_that_exist(kafka: Cluster, make: MakeReader) -> None:
    with ottla.Client(kafka.bootstrap) as client:
        client.admin.delete_records({T0: 2})
    assert make().earliest([T0, TopicPartition("t", 9)]) == {T0: 2}
    assert make().earliest([]) == {}


@pytest.mark.usefixtures("topic")
def test_new_partitions_are_seen_within_a_second(kafka: Cluster) -> None:
    now = 100.0
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "t"}
    reader = OffsetReader(SourceOptions.parse(options, streaming=True), clock=lambda: now, sleep=Sleeps())
    assert reader.latest({}).keys() == {T0, T1}
    with ottla.Client(kafka.bootstrap) as client:
        client.admin.create_partitions("t", 3)
    requests = kafka.faults.add(api="Metadata", when="response", action=delay(0.0))
    assert reader.latest({}).keys() == {T0, T1}
    assert requests.hits == 0, "the partitions are not requested every time"
    now += 1.0
    assert len(reader.latest({})) == 3
    reader.close()


@pytest.mark.kafka_cluster(brokers=3, topics={"t": TopicSpec(1, 3)})
def test_a_leader_that_moves_is_followed(kafka: Cluster, make: MakeReader) -> None:
    kafka.seed("t", [b"1", b"2"])
    reader = make()
    assert reader.latest({}) == {T0: 2}
    kafka.move_leader("t", 0, kafka.leader("t", 0) % 3 + 1)
    assert reader.latest({T0: 2}) == {T0: 2}


@pytest.mark.usefixtures("topic")
def test_lost_connections_and_passing_errors_do_not_matter(kafka: Cluster, make: MakeReader) -> None:
    kafka.faults.add(api="ListOffsets", when="response", action=drop, count=1)
    kafka.faults.add(api="ListOffsets", when="response", action=error("NOT_LEADER_OR_FOLLOWER"), count=1)
    assert make().start() == {T0: 3, T1: 1}


@pytest.mark.usefixtures("topic")
def test_what_will_not_pass_is_not_tried_again(kafka: Cluster, make: MakeReader) -> None:
    kafka.faults.add(
        api="ListOffsets", when="response", topic="t", action=error("TOPIC_AUTHORIZATION_FAILED")
    )
    sleeps = Sleeps()
    with pytest.raises(TopicAuthorizationFailedError):
        make(sleep=sleeps).start()
    assert sleeps == []


@pytest.mark.parametrize("call", ["start", "start_and_end"])
def test_a_cluster_that_does_not_respond_is_reported_in_one_timeout(call: str) -> None:
    options = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "kafka.default.api.timeout.ms": "200",
        "fetchOffset.numRetries": "3",
        "subscribe": "t",
    }
    sleeps = Sleeps()
    reader = OffsetReader(SourceOptions.parse(options, streaming=False), sleep=sleeps)
    # On a busy machine not even the first connection is refused by then: the note names the address in any case.
    with pytest.raises(ApiTimeoutError, match=r"within 0\.\d+ s ") as caught:
        getattr(reader, call)()
    assert sleeps == []
    assert "kafka.bootstrap.servers=127.0.0.1:1" in "".join(caught.value.__notes__)
    reader.close()


@pytest.mark.usefixtures("topic")
def test_all_requests_of_a_plan_share_one_timeout(kafka: Cluster) -> None:
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "kafka.default.api.timeout.ms": "60000",
        "subscribe": "t",
    }
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 25.0  # each request takes so long
        return now

    reader = OffsetReader(SourceOptions.parse(options, streaming=False), clock=clock, sleep=Sleeps())
    with pytest.raises(ApiTimeoutError, match="60 s") as caught:
        reader.start_and_end()
    assert "kafka.default.api.timeout.ms" in str(caught.value)
    reader.close()
