"""Options that are refused, before anything is read or written."""

from __future__ import annotations

from dataclasses import replace

from tests.interop.spark.cases.batches import PLAIN, at
from tests.interop.spark.cases.case import Case
from tests.interop.spark.jobs import read, stream
from tests.interop.spark.sinks import write

ROW = "SELECT 'v' AS value"


def batch(name: str, options: dict[str, str], *says: str) -> Case:
    return Case(f"refused-batch-{name}", read, {**PLAIN, **options}, says)


def streamed(name: str, options: dict[str, str], *says: str) -> Case:
    return Case(f"refused-stream-{name}", stream, {**PLAIN, **options}, says)


def sink(name: str, options: dict[str, str], *says: str) -> Case:
    return Case(f"refused-sink-{name}", write(ROW), {"topic": "@t@", **options}, says)


NO_PLAIN = {"subscribe": "-"}
SOME_PARTITIONS = '{"side-plain":{"0":1}}'
ANOTHER_TOPIC = '{"side-other":{"0":1}}'
IN_EVERY_RUN = frozenset(
    {
        "refused-batch-no-topics",
        "refused-batch-two-kinds-of-topics",
        "refused-batch-assign-of-no-json",
        "refused-batch-min-partitions-of-zero",
        "refused-batch-offset-reset",
        "refused-batch-offsets-of-some-partitions",
        "refused-batch-strategy-of-no-name",
        "refused-batch-start-latest",
        "refused-batch-end-before-start",
        "refused-batch-unknown-topic",
        "refused-stream-min-above-max-offsets",
        "refused-stream-end",
        "refused-sink-no-brokers",
        "refused-sink-overwrite",
    }
)
"""One of each kind: the others are refused in the same way, for another option."""

_ALL: tuple[Case, ...] = (
    batch("no-topics", NO_PLAIN, "subscribe", "subscribePattern", "assign", "must be specified"),
    streamed("no-topics", NO_PLAIN, "subscribe", "subscribePattern", "assign", "must be specified"),
    batch("two-kinds-of-topics", {"subscribePattern": "side.*"}, "only one of", "subscribe", "assign"),
    batch("no-brokers", {"kafka.bootstrap.servers": "-"}, "kafka.bootstrap.servers", "must be specified"),
    batch("empty-subscribe", {"subscribe": " , "}, "no topics to subscribe"),
    batch("empty-pattern", {**NO_PLAIN, "subscribePattern": "  "}, "pattern", "empty"),
    batch("assign-of-names", {**NO_PLAIN, "assign": "side-plain"}, "assign", "side-plain"),
    batch("assign-of-no-json", {**NO_PLAIN, "assign": '{"side-plain":0}'}, '{"topica":[0,1],"topicb":[0,1]}'),
    batch("min-partitions-of-zero", {"minPartitions": "0"}, "minPartitions", "must be positive"),
    batch("min-partitions-of-text", {"minPartitions": "many"}, "many"),
    batch("max-records-of-zero", {"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition", "positive"),
    batch("offset-reset", {"kafka.auto.offset.reset": "latest"}, "auto.offset.reset", "startingOffsets"),
    batch("key-deserializer", {"kafka.key.deserializer": "x"}, "key.deserializer", "not supported"),
    batch("value-deserializer", {"kafka.value.deserializer": "x"}, "value.deserializer", "not supported"),
    batch("auto-commit", {"kafka.enable.auto.commit": "true"}, "enable.auto.commit", "not supported"),
    batch("interceptors", {"kafka.interceptor.classes": "x"}, "interceptor.classes", "not supported"),
    batch("offsets-of-no-json", {"startingOffsets": "first"}, '{"topicA":', "first"),
    batch("offsets-of-some-partitions", {"startingOffsets": SOME_PARTITIONS}, "side-plain-1"),
    streamed("offsets-of-some-partitions", {"startingOffsets": SOME_PARTITIONS}, "side-plain-1"),
    batch("offsets-of-another-topic", {"startingOffsets": ANOTHER_TOPIC}, "side-plain", "side-other"),
    batch("end-of-some-partitions", {"endingOffsets": SOME_PARTITIONS}, "side-plain-1"),
    batch("times-of-no-json", {"startingOffsetsByTimestamp": "yesterday"}, '{"topicA":', "yesterday"),
    batch("time-of-text", {"startingTimestamp": "noon"}, "noon"),
    batch("strategy-of-no-name", {"startingOffsetsByTimestampStrategy": "guess"}, "guess"),
    batch("fail-on-data-loss-of-text", {"failOnDataLoss": "perhaps"}, "perhaps"),
    batch("headers-of-text", {"includeHeaders": "perhaps"}, "perhaps"),
    streamed("max-offsets-of-text", {"maxOffsetsPerTrigger": "few"}, "few"),
    streamed(
        "min-above-max-offsets",
        {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"},
        "minOffset",
        "higher",
        "maxOffsetsPerTrigger",
    ),
    batch("start-latest", {"startingOffsets": "latest"}, "starting", "latest", "batch"),
    batch(
        "start-of-minus-one",
        {"startingOffsets": '{"side-plain":{"0":-1,"1":0,"2":0}}'},
        "startingOffsets",
        "latest",
        "batch",
    ),
    batch("end-earliest", {"endingOffsets": "earliest"}, "ending", "earliest", "batch"),
    batch(
        "end-of-minus-two",
        {"endingOffsets": '{"side-plain":{"0":-2,"1":0,"2":0}}'},
        "ending",
        "earliest",
        "batch",
    ),
    batch(
        "end-before-start",
        {
            "startingOffsets": '{"side-plain":{"0":5,"1":0,"2":0}}',
            "endingOffsets": '{"side-plain":{"0":3,"1":0,"2":0}}',
        },
        "side-plain",
        "offset 5",
        "offset 3",
    ),
    batch(
        "end-time-before-start-time",
        {"startingTimestamp": at(5), "endingTimestamp": at(3)},
        "side-plain",
        "offset 5",
        "offset 3",
    ),
    batch("unknown-topic", {"subscribe": "side-unknown"}, "topic"),
    streamed("unknown-topic", {"subscribe": "side-unheard"}, "topic"),
    streamed("end", {"endingOffsets": "latest"}, "ending", "streaming"),
    streamed("end-times", {"endingOffsetsByTimestamp": SOME_PARTITIONS}, "ending", "streaming"),
    sink("no-brokers", {"kafka.bootstrap.servers": "-"}, "bootstrap.servers"),
    sink("key-serializer", {"kafka.key.serializer": "x"}, "key.serializer", "not supported"),
    sink("value-serializer", {"kafka.value.serializer": "x"}, "value.serializer", "not supported"),
    Case("refused-sink-overwrite", write(ROW, mode="overwrite"), {"topic": "@t@"}, ("overwrite",)),
    Case("refused-sink-ignore", write(ROW, mode="ignore"), {"topic": "@t@"}, ("ignore",)),
)

CASES = tuple(replace(case, full=case.id not in IN_EVERY_RUN) for case in _ALL)
