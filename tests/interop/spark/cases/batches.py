"""Batch reads: every place to begin and to end, every way to name topics, and how they are split into tasks."""

from __future__ import annotations

from tests.interop.spark.cases.case import Case
from tests.interop.spark.jobs import count, count_tasks, read, read_key_and_value, read_rows
from tests.interop.spark.topics import FIRST_MS, STEP_MS

PLAIN = {"subscribe": "side-plain"}


def at(second: int) -> str:
    """The time of a record, by its number."""
    return str(FIRST_MS + second * STEP_MS)


def start(offsets: str) -> dict[str, str]:
    return {**PLAIN, "startingOffsets": offsets}


def end(offsets: str) -> dict[str, str]:
    return {**PLAIN, "endingOffsets": offsets}


BY_TIME = f'{{"side-plain":{{"0":{at(4)},"1":{at(6)},"2":{at(29)}}}}}'
NONE_SO_LATE = f'{{"side-plain":{{"0":{at(4)},"1":{at(6)},"2":{at(30)}}}}}'
TRIMMED = {"subscribe": "side-trimmed"}
TRANSACTIONS = {"subscribe": "side-transactions"}
COMMITTED = {"kafka.isolation.level": "read_committed"}

CASES: tuple[Case, ...] = (
    Case("batch-whole", read, PLAIN),
    Case("batch-count", count, PLAIN),
    Case("batch-several-topics", read, {"subscribe": " side-plain , side-other,"}, full=True),
    Case("batch-topic-named-twice", read, {"subscribe": "side-other,side-other"}, full=True),
    Case("batch-pattern", read, {"subscribePattern": "side-(plain|oth.+)"}, full=True),
    Case("batch-pattern-within-the-name", read, {"subscribePattern": "side-othe"}, full=True),
    Case("batch-pattern-of-java", read, {"subscribePattern": r"^side-\p{Lower}ther$|\Qside-pl\E(?<x>.)in\z"}),
    Case("batch-pattern-with-an-intersection", read, {"subscribePattern": "side-[n-z&&[^p-z]]ther"}),
    Case("batch-pattern-without-match", read, {"subscribePattern": "nowhere-.*"}, full=True),
    Case("batch-assign", read, {"assign": '{"side-plain":[0,2],"side-other":[0]}'}),
    Case("batch-assign-a-partition-that-is-not-there", read, {"assign": '{"side-other":[0,7]}'}, full=True),
    Case("batch-empty-topic", read, {"subscribe": "side-empty"}, full=True),
    Case(
        "batch-options-in-any-case",
        read,
        {"SUBSCRIBE": "side-other", "STARTINGOFFSETS": "EARLIEST"},
        full=True,
    ),
    Case("batch-start-earliest", read, start("earliest"), full=True),
    Case("batch-end-latest", read, end("Latest"), full=True),
    Case("batch-start-offsets", read, start('{"side-plain":{"0":3,"1":-2,"2":28}}'), full=True),
    Case("batch-end-offsets", read, end('{"side-plain":{"0":3,"1":-1,"2":28}}'), full=True),
    Case(
        "batch-start-and-end-offsets",
        read,
        {
            **start('{"side-plain":{"0":3,"1":5,"2":28}}'),
            "endingOffsets": '{"side-plain":{"0":7,"1":5,"2":30}}',
        },
    ),
    Case("batch-start-at-the-end", read, start('{"side-plain":{"0":10,"1":20,"2":29}}'), full=True),
    Case("batch-start-time", read, {**PLAIN, "startingTimestamp": at(8)}, full=True),
    Case("batch-start-between-times", read, {**PLAIN, "startingTimestamp": str(int(at(8)) + 1)}, full=True),
    Case("batch-start-times", read, {**PLAIN, "startingOffsetsByTimestamp": BY_TIME}, full=True),
    Case(
        "batch-start-time-beats-the-others",
        read,
        {**start("earliest"), "startingTimestamp": at(9), "startingOffsetsByTimestamp": BY_TIME},
        full=True,
    ),
    Case(
        "batch-start-times-beat-offsets",
        read,
        {**start("earliest"), "startingOffsetsByTimestamp": BY_TIME},
        full=True,
    ),
    Case(
        "batch-start-time-too-late",
        read,
        {**PLAIN, "startingTimestamp": at(15)},
        says=("timestamp",),
        full=True,
    ),
    Case(
        "batch-start-time-too-late-by-default",
        read,
        {**PLAIN, "startingTimestamp": at(15), "startingOffsetsByTimestampStrategy": "error"},
        says=("timestamp",),
        full=True,
    ),
    Case(
        "batch-start-time-too-late-is-latest",
        read,
        {**PLAIN, "startingTimestamp": at(15), "startingOffsetsByTimestampStrategy": "latest"},
        full=True,
    ),
    Case(
        "batch-start-times-too-late",
        read,
        {**PLAIN, "startingOffsetsByTimestamp": NONE_SO_LATE},
        says=("timestamp",),
        full=True,
    ),
    Case(
        "batch-start-times-too-late-are-latest",
        read,
        {
            **PLAIN,
            "startingOffsetsByTimestamp": NONE_SO_LATE,
            "startingOffsetsByTimestampStrategy": "LATEST",
        },
    ),
    Case("batch-end-time", read, {**PLAIN, "endingTimestamp": at(8)}, full=True),
    Case("batch-end-time-too-late-is-latest", read, {**PLAIN, "endingTimestamp": at(25)}, full=True),
    Case("batch-end-times", read, {**PLAIN, "endingOffsetsByTimestamp": BY_TIME}, full=True),
    Case("batch-end-time-beats-the-others", read, {**end("latest"), "endingTimestamp": at(2)}, full=True),
    Case("batch-between-times", read, {**PLAIN, "startingTimestamp": at(3), "endingTimestamp": at(6)}),
    Case("batch-append-time", read, {"subscribe": "side-append-time"}),
    Case("batch-fewer-columns", read_key_and_value, PLAIN, says=("schema",)),
    Case("batch-headers", read, {**PLAIN, "includeHeaders": "true"}),
    Case("batch-headers-not-wanted", read, {"subscribe": "side-other", "includeHeaders": "FALSE"}, full=True),
    Case("batch-codecs", read, {"subscribe": "side-codecs", "includeHeaders": "true"}),
    Case("batch-min-partitions", read, {**PLAIN, "minPartitions": "7"}, full=True),
    Case("batch-min-partitions-fewer-than-there-are", read, {**PLAIN, "minPartitions": "2"}, full=True),
    Case(
        "batch-min-partitions-more-than-records",
        count_tasks,
        {"subscribe": "side-other", "minPartitions": "9"},
        full=True,
    ),
    Case(
        "batch-min-partitions-of-uneven-topics",
        read,
        {"subscribe": "side-plain,side-other,side-empty", "minPartitions": "13"},
    ),
    Case("batch-max-records-per-partition", read, {**PLAIN, "maxRecordsPerPartition": "7"}),
    Case(
        "batch-max-records-and-min-partitions",
        read,
        {**PLAIN, "maxRecordsPerPartition": "25", "minPartitions": "6"},
        full=True,
    ),
    Case("batch-packed-tasks", count_tasks, {**PLAIN, "targetPartitions": "8"}),
    Case("batch-packed", read_rows, {**PLAIN, "targetPartitions": "8"}, full=True),
    Case("batch-tasks", count_tasks, {"subscribe": "side-plain,side-empty,side-other"}, full=True),
    Case("batch-uncommitted", read, TRANSACTIONS, full=True),
    Case("batch-committed", read, {**TRANSACTIONS, **COMMITTED}),
    Case("batch-committed-split", read, {**TRANSACTIONS, **COMMITTED, "minPartitions": "4"}, full=True),
    Case("batch-all-aborted", read, {"subscribe": "side-aborted", **COMMITTED}, full=True),
    Case("batch-aborted-uncommitted", read, {"subscribe": "side-aborted"}, full=True),
    Case("batch-open-transaction", read, {"subscribe": "side-open"}, full=True),
    Case("batch-open-transaction-committed", read, {"subscribe": "side-open", **COMMITTED}),
    Case("batch-trimmed", read, TRIMMED, full=True),
    Case(
        "batch-start-was-trimmed",
        read,
        {**TRIMMED, "startingOffsets": '{"side-trimmed":{"0":2}}'},
        says=("offset", "side-trimmed"),
    ),
    Case(
        "batch-start-was-trimmed-and-need-not-be",
        read,
        {**TRIMMED, "startingOffsets": '{"side-trimmed":{"0":2}}', "failOnDataLoss": "false"},
        full=True,
    ),
    Case(
        "batch-all-was-trimmed",
        read,
        {
            **TRIMMED,
            "startingOffsets": '{"side-trimmed":{"0":0}}',
            "endingOffsets": '{"side-trimmed":{"0":3}}',
            "failOnDataLoss": "false",
        },
        full=True,
    ),
    Case(
        "batch-end-beyond-the-end",
        read,
        {**end('{"side-plain":{"0":11,"1":-1,"2":-1}}'), "kafkaConsumer.pollTimeoutMs": "3000"},
        says=("side-plain",),
        full=True,
    ),
    Case(
        "batch-end-beyond-the-end-need-not-be",
        read,
        {
            **end('{"side-plain":{"0":11,"1":-1,"2":-1}}'),
            "kafkaConsumer.pollTimeoutMs": "3000",
            "failOnDataLoss": "false",
        },
        full=True,
    ),
    Case(
        "batch-start-beyond-the-end",
        read,
        start('{"side-plain":{"0":11,"1":0,"2":0}}'),
        says=("side-plain",),
        full=True,
    ),
    Case(
        "batch-with-options-of-the-client",
        read,
        {
            "subscribe": "side-other",
            "kafka.group.id": "mine",
            "kafka.client.id": "mine",
            "kafka.max.poll.records": "2",
            "kafka.fetch.min.bytes": "1",
            "kafka.session.timeout.ms": "30000",
            "kafka.max.partition.fetch.bytes": "64",
            "groupIdPrefix": "mine",
            "fetchOffset.numRetries": "1",
        },
    ),
    Case(
        "batch-with-an-unknown-option",
        read,
        {"subscribe": "side-other", "kafka.no.such.thing": "1", "nor": "this"},
        full=True,
    ),
)
