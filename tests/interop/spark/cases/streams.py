"""Streams: where they begin, how much a batch takes, what they make of a changing topic, and their checkpoints."""

from __future__ import annotations

from tests.interop.spark.cases.batches import BY_TIME, COMMITTED, NONE_SO_LATE, PLAIN, TRANSACTIONS, at
from tests.interop.spark.cases.case import Case
from tests.interop.spark.jobs import (
    lost_old_records,
    lost_records,
    lost_topic,
    more_records,
    new_partition,
    new_topic,
    nothing,
    restart,
    stream,
    stream_ends,
    stream_more,
    stream_once,
    stream_schema,
    topic_made_anew,
)

EARLIEST = {**PLAIN, "startingOffsets": "earliest"}
OWN = {"subscribe": "@t@", "startingOffsets": "earliest"}
CAREFREE = {**OWN, "failOnDataLoss": "false"}
LIMITED = {**EARLIEST, "maxOffsetsPerTrigger": "25"}

CASES: tuple[Case, ...] = (
    Case("stream-schema", stream_schema, PLAIN, full=True),
    Case("stream-schema-with-headers", stream_schema, {**PLAIN, "includeHeaders": "true"}),
    Case("stream-available-now", stream, EARLIEST),
    Case("stream-offsets-of-the-first-batch", stream_ends, EARLIEST),
    Case("stream-offsets-of-a-packed-batch", stream_ends, {**EARLIEST, "targetPartitions": "8"}),
    Case("stream-once", stream_once, EARLIEST),
    Case("stream-headers", stream, {**EARLIEST, "includeHeaders": "true"}, full=True),
    Case(
        "stream-pattern",
        stream,
        {"subscribePattern": "side-(plain|oth.+)", "startingOffsets": "earliest"},
        full=True,
    ),
    Case("stream-assign", stream, {"assign": '{"side-plain":[1]}', "startingOffsets": "earliest"}, full=True),
    Case("stream-start-latest", stream, {**PLAIN, "startingOffsets": "latest"}),
    Case(
        "stream-start-offsets", stream, {**PLAIN, "startingOffsets": '{"side-plain":{"0":3,"1":-2,"2":-1}}'}
    ),
    Case("stream-start-time", stream, {**PLAIN, "startingTimestamp": at(8)}, full=True),
    Case("stream-start-times", stream, {**PLAIN, "startingOffsetsByTimestamp": BY_TIME}),
    Case(
        "stream-start-times-too-late",
        stream,
        {**PLAIN, "startingOffsetsByTimestamp": NONE_SO_LATE},
        says=("timestamp",),
        full=True,
    ),
    Case(
        "stream-start-times-too-late-are-latest",
        stream,
        {
            **PLAIN,
            "startingOffsetsByTimestamp": NONE_SO_LATE,
            "startingOffsetsByTimestampStrategy": "latest",
        },
        full=True,
    ),
    Case("stream-with-an-ending-timestamp", stream, {**EARLIEST, "endingTimestamp": at(1)}, full=True),
    Case("stream-max-offsets", stream, LIMITED),
    Case(
        "stream-max-offsets-fewer-than-partitions",
        stream,
        {**EARLIEST, "maxOffsetsPerTrigger": "2", "startingOffsets": '{"side-plain":{"0":8,"1":19,"2":27}}'},
    ),
    Case("stream-max-offsets-of-once", stream_once, LIMITED, full=True),
    Case("stream-min-offsets", stream, {**EARLIEST, "minOffsetsPerTrigger": "30"}),
    Case(
        "stream-min-offsets-not-there",
        stream,
        {**EARLIEST, "minOffsetsPerTrigger": "100", "maxTriggerDelay": "1h"},
        full=True,
    ),
    Case("stream-min-offsets-of-once", stream_once, {**EARLIEST, "minOffsetsPerTrigger": "100"}, full=True),
    Case(
        "stream-min-and-max-offsets",
        stream,
        {**EARLIEST, "minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "40", "maxTriggerDelay": "1s"},
    ),
    Case("stream-min-partitions", stream, {**EARLIEST, "minPartitions": "7"}, full=True),
    Case("stream-max-records-per-partition", stream, {**EARLIEST, "maxRecordsPerPartition": "12"}, full=True),
    Case("stream-committed", stream, {**TRANSACTIONS, **COMMITTED, "startingOffsets": "earliest"}),
    Case(
        "stream-all-aborted",
        stream,
        {"subscribe": "side-aborted", **COMMITTED, "startingOffsets": "earliest"},
        full=True,
    ),
    Case(
        "stream-open-transaction",
        stream,
        {"subscribe": "side-open", **COMMITTED, "startingOffsets": "earliest"},
        full=True,
    ),
    Case("stream-trimmed", stream, {"subscribe": "side-trimmed", "startingOffsets": "earliest"}, full=True),
    Case(
        "stream-start-was-trimmed",
        stream,
        {"subscribe": "side-trimmed", "startingOffsets": '{"side-trimmed":{"0":1}}'},
        says=("offset", "side-trimmed"),
    ),
    Case(
        "stream-start-was-trimmed-and-need-not-be",
        stream,
        {
            "subscribe": "side-trimmed",
            "startingOffsets": '{"side-trimmed":{"0":1}}',
            "failOnDataLoss": "false",
        },
        full=True,
    ),
    Case("stream-running-from-latest", stream_more, {"subscribe": "@t@"}),
    Case("stream-running-from-earliest", stream_more, OWN, full=True),
    Case("restart-with-nothing-new", restart(nothing), OWN, full=True),
    Case("restart-with-more-records", restart(more_records), OWN),
    Case("restart-from-latest", restart(more_records), {"subscribe": "@t@"}),
    Case(
        "restart-ignores-a-new-start",
        restart(more_records, then={"startingOffsets": "latest"}),
        OWN,
        full=True,
    ),
    Case("restart-with-a-limit", restart(more_records, then={"maxOffsetsPerTrigger": "3"}), OWN, full=True),
    Case("restart-with-a-new-partition", restart(new_partition), OWN),
    Case("restart-with-a-new-topic", restart(new_topic, then={"subscribe": "@t@,@u@"}), OWN, full=True),
    Case(
        "restart-with-a-new-topic-of-the-pattern",
        restart(new_topic),
        {"subscribePattern": "@t@|@u@", "startingOffsets": "earliest"},
        full=True,
    ),
    Case("restart-after-a-loss", restart(lost_records), OWN, says=("offset", "failOnDataLoss")),
    Case("restart-after-a-loss-that-may-be", restart(lost_records), CAREFREE),
    Case("restart-after-a-trim-of-what-was-read", restart(lost_old_records), OWN, full=True),
    Case("restart-without-the-topic", restart(lost_topic), OWN, says=("topic",), full=True),
    Case("restart-without-the-topic-which-may-be", restart(lost_topic), CAREFREE, says=("topic",)),
    Case(
        "restart-with-the-topic-made-anew",
        restart(topic_made_anew),
        OWN,
        says=("offset", "failOnDataLoss"),
        full=True,
    ),
    Case("restart-with-the-topic-made-anew-which-may-be", restart(topic_made_anew), CAREFREE, full=True),
    Case(
        "restart-with-another-topic",
        restart(new_topic, then={"subscribe": "@u@"}),
        OWN,
        says=("failOnDataLoss",),
        full=True,
    ),
    Case(
        "restart-with-another-topic-which-may-be",
        restart(new_topic, then={"subscribe": "@u@"}),
        CAREFREE,
        full=True,
    ),
    Case("takeover-with-nothing-new", restart(nothing, begun_by="kafka"), OWN, full=True),
    Case("takeover-with-more-records", restart(more_records, begun_by="kafka"), OWN),
    Case("takeover-from-latest", restart(more_records, begun_by="kafka"), {"subscribe": "@t@"}, full=True),
    Case("takeover-with-a-new-partition", restart(new_partition, begun_by="kafka"), OWN, full=True),
    Case(
        "takeover-of-limited-batches",
        restart(more_records, begun_by="kafka"),
        {**OWN, "maxOffsetsPerTrigger": "3"},
    ),
    Case(
        "takeover-after-a-loss",
        restart(lost_records, begun_by="kafka"),
        OWN,
        says=("offset", "failOnDataLoss"),
        full=True,
    ),
)
