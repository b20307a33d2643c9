"""The options that say where to begin and to end: forms, precedence, defaults and refusals."""

from __future__ import annotations

import pickle

import pytest

from ottla.client.topic_partition import TopicPartition
from ottla.spark.options.offsets import (
    Earliest,
    GlobalTimestamp,
    Latest,
    OffsetOption,
    SpecificOffsets,
    SpecificTimestamps,
    check_batch,
    ending_offsets,
    no_match_strategy,
    starting_offsets,
)
from ottla.spark.options.parsing import OptionError

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def start(**options: str) -> OffsetOption:
    return starting_offsets({name.lower(): value for name, value in options.items()}, streaming=False)


def end(**options: str) -> OffsetOption:
    return ending_offsets({name.lower(): value for name, value in options.items()})


def test_streams_begin_with_what_comes_and_batches_with_what_is_there() -> None:
    assert starting_offsets({}, streaming=True) == Latest()
    assert starting_offsets({}, streaming=False) == Earliest()
    assert ending_offsets({}) == Latest()


@pytest.mark.parametrize("text", ["earliest", "  earliest ", "EARLIEST"])
def test_words_are_taken_in_any_case_and_with_blanks_around_them(text: str) -> None:
    assert start(startingOffsets=text) == Earliest()


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ('{"t":{"0":7}}', 7),
        (' {"t": {"0": -2}} ', -2),
        ('{"t":{"0":1e3}}', 1000),
        ('{"t":{"00":7}}', 7),
        ('{"t":{"0":1,"0":7}}', 7),
    ],
)
def test_offsets_are_read_from_json(text: str, offset: int) -> None:
    assert start(startingOffsets=text) == SpecificOffsets({T0: offset})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "foo",
        "[]",
        "null",
        '{"t":7}',
        '{"t":{"0":"7"}}',
        '{"t":{"0":1.5}}',
        '{"t":{"0":null}}',
        '{"t":{"0":true}}',
        '{"t":{"a":1}}',
        '{"t":{" 0 ":1}}',
        '{"t":{"-1":1}}',
        '{"t":{"9999999999":1}}',
        '{"t":{"0":99999999999999999999}}',
        '{"t":{"0":' + "9" * 5000 + "}}",
        "{'t':{'0':1}}",
        '{"t":{"0":1}} and more',
        "[" * 100_000,
    ],
)
def test_offsets_that_are_none_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(OptionError, match=r'Expected e\.g\. \{"topicA":\{"0":23,"1":-1\}') as refusal:
        start(startingOffsets=text)
    assert "startingOffsets" in str(refusal.value)


def test_an_offset_below_earliest_is_refused_with_what_the_negative_ones_mean() -> None:
    with pytest.raises(
        OptionError, match="-3 for t-0: below 0 there are only -1 for latest and -2 for earliest"
    ):
        start(startingOffsets='{"t":{"0":-3}}')


def test_a_time_for_all_beats_times_by_partition_which_beat_offsets() -> None:
    offsets, times = '{"t":{"0":1}}', '{"t":{"0":2}}'
    given = {"startingOffsets": offsets, "startingOffsetsByTimestamp": times, "startingTimestamp": " 3 "}
    assert start(**given) == GlobalTimestamp(3)
    del given["startingTimestamp"]
    assert start(**given) == SpecificTimestamps({T0: 2})
    del given["startingOffsetsByTimestamp"]
    assert start(**given) == SpecificOffsets({T0: 1})


def test_what_is_beaten_is_not_even_read() -> None:
    assert end(endingTimestamp="3", endingOffsetsByTimestamp="foo", endingOffsets="bar") == GlobalTimestamp(3)


@pytest.mark.parametrize("text", ["", "x", "1.5", "-1", "1_000", "9" * 30])
def test_a_time_that_is_none_is_refused_with_the_unit(text: str) -> None:
    with pytest.raises(OptionError, match=r"Expected a single long value, got .*milliseconds since 1970"):
        start(startingTimestamp=text)


def test_times_by_partition_are_refused_with_an_example_of_their_own() -> None:
    with pytest.raises(OptionError, match=r'"topicA": \{"0": 123456789'):
        start(startingOffsetsByTimestamp="bar")
    with pytest.raises(OptionError, match=r"-5 for t-0.*milliseconds since 1970"):
        start(startingOffsetsByTimestamp='{"t":{"0":-5}}')


@pytest.mark.parametrize(("text", "strategy"), [("error", "error"), ("LATEST", "latest")])
def test_the_strategy_is_taken_in_any_case(text: str, strategy: str) -> None:
    assert no_match_strategy({"startingoffsetsbytimestampstrategy": text}) == strategy


def test_the_strategy_is_an_error_unless_it_is_set() -> None:
    assert no_match_strategy({}) == "error"
    with pytest.raises(
        OptionError, match=r"'startingOffsetsByTimestampStrategy' cannot be ' latest'.*error or latest"
    ):
        no_match_strategy({"startingoffsetsbytimestampstrategy": " latest"})


@pytest.mark.parametrize(
    ("first", "last", "refusal"),
    [
        (Latest(), Latest(), "starting offset can't be latest for batch queries on Kafka"),
        (
            SpecificOffsets({T0: 3, T1: -1}),
            Latest(),
            "startingOffsets for t-1 can't be latest for batch queries",
        ),
        (Earliest(), Earliest(), "ending offset can't be earliest for batch queries on Kafka"),
        (Earliest(), SpecificOffsets({T0: -2}), "ending offset for t-0 can't be earliest for batch queries"),
        (
            SpecificOffsets({T0: 5}),
            SpecificOffsets({T0: 4}),
            "start offset 5 is greater than the end offset 4 for topic t partition 0",
        ),
        (
            SpecificTimestamps({T0: 5}),
            SpecificTimestamps({T0: 4}),
            "start timestamp 5 is greater than the end timestamp 4",
        ),
        (
            SpecificOffsets({T0: 5, T1: 1}),
            SpecificOffsets({T0: 6}),
            "start offset: t-0, t-1, topic-partitions for end offset: t-0",
        ),
    ],
)
def test_a_batch_that_cannot_be_is_refused_before_any_request(
    first: OffsetOption, last: OffsetOption, refusal: str
) -> None:
    with pytest.raises(OptionError, match=refusal):
        check_batch(first, last)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (Earliest(), Latest()),
        (SpecificOffsets({T0: 5}), SpecificOffsets({T0: 5})),
        (SpecificOffsets({T0: 5}), SpecificOffsets({T0: -1})),
        (SpecificOffsets({T0: -2}), SpecificOffsets({T0: 0})),
        (SpecificOffsets({T0: 5}), SpecificTimestamps({T1: 1})),
        (GlobalTimestamp(7), GlobalTimestamp(3)),
    ],
)
def test_a_batch_that_may_be_is_left_to_the_brokers(first: OffsetOption, last: OffsetOption) -> None:
    check_batch(first, last)


def test_offsets_travel_to_executors() -> None:
    for option in (
        Earliest(),
        Latest(),
        SpecificOffsets({T0: 5}),
        GlobalTimestamp(7),
        SpecificTimestamps({T1: 1}),
    ):
        assert pickle.loads(pickle.dumps(option)) == option
