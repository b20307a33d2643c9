"""Sinks: every shape of columns, where the topic and the partition come from, and what is refused for its columns."""

from __future__ import annotations

from tests.interop.spark.cases.case import Case
from tests.interop.spark.sinks import write, write_stream

T = {"topic": "@t@"}
HEADERS = "array(struct('a' AS key, CAST('1' AS binary) AS value), struct('a' AS key, CAST(NULL AS binary) AS value))"
NUMBERS = "SELECT CAST(id AS string) AS key, concat('value ', id) AS value FROM range(0, 50, 1, 2)"
NOT_STRING_OR_BINARY = ("string", "binary")

CASES: tuple[Case, ...] = (
    Case("sink-value", write("SELECT 'v' AS value"), T, full=True),
    Case("sink-binary-value", write("SELECT CAST('v' AS binary) AS value"), T, full=True),
    Case("sink-key-and-value", write("SELECT 'k' AS key, 'v' AS value"), T, full=True),
    Case("sink-binary-key", write("SELECT CAST('k' AS binary) AS key, 'v' AS value"), T, full=True),
    Case("sink-nulls", write("SELECT CAST(NULL AS string) AS key, CAST(NULL AS binary) AS value"), T),
    Case(
        "sink-columns-in-any-order", write("SELECT 'v' AS value, '@prefix@t' AS topic, 'k' AS key"), full=True
    ),
    Case("sink-columns-in-any-case", write("SELECT 'v' AS VALUE, 'k' AS Key"), T, ("value", "not found")),
    Case("sink-more-columns", write("SELECT 'v' AS value, 1 AS other, current_date() AS day"), T, full=True),
    Case("sink-keys-choose-partitions", write(NUMBERS, partitions=4), T),
    Case("sink-no-rows", write("SELECT 'v' AS value WHERE false"), T, full=True),
    Case(
        "sink-partition-column",
        write(
            "SELECT concat('v', id) AS value, CAST(id % 3 AS int) AS partition FROM range(9)", partitions=3
        ),
        T,
    ),
    Case(
        "sink-partition-column-with-nulls",
        write("SELECT 'k' AS key, 'v' AS value, CAST(NULL AS int) AS partition", partitions=3),
        T,
        full=True,
    ),
    Case(
        "sink-partition-not-there",
        write("SELECT 'v' AS value, 7 AS partition"),
        {**T, "kafka.max.block.ms": "3000"},
        ("partition",),
        full=True,
    ),
    Case(
        "sink-headers", write(f"SELECT 'v' AS value, {HEADERS} AS headers"), {**T, "includeHeaders": "true"}
    ),
    Case(
        "sink-headers-without-the-option", write(f"SELECT 'v' AS value, {HEADERS} AS headers"), T, full=True
    ),
    Case(
        "sink-topic-column",
        write(
            "SELECT concat('v', id) AS value, concat('@prefix@', if(id % 2 = 0, 't', 'u')) AS topic FROM range(6)"
        ),
    ),
    Case(
        "sink-topic-option-beats-the-column", write("SELECT 'v' AS value, '@prefix@u' AS topic"), T, full=True
    ),
    Case("sink-topic-option-with-spaces", write("SELECT 'v' AS value"), {"topic": " @t@ "}, full=True),
    Case("sink-without-a-mode", write("SELECT 'v' AS value", mode=None), T),
    Case("sink-append", write("SELECT 'v' AS value", mode="append"), T, full=True),
    Case("sink-error-if-exists", write("SELECT 'v' AS value", mode="errorifexists"), T, full=True),
    Case(
        "sink-with-options-of-the-client",
        write(NUMBERS),
        {
            **T,
            "kafka.compression.type": "lz4",
            "kafka.acks": "all",
            "kafka.linger.ms": "5",
            "kafka.retries": "3",
            "kafka.batch.size": "2000",
            "kafka.client.id": "mine",
        },
    ),
    Case("sink-without-a-topic", write("SELECT 'v' AS value"), {}, ("topic",), full=True),
    Case(
        "sink-null-topic",
        write("SELECT 'v' AS value, CAST(NULL AS string) AS topic"),
        {},
        ("null topic",),
        full=True,
    ),
    Case(
        "sink-some-topics-null",
        write("SELECT 'v' AS value, CAST(if(id = 1, NULL, '@prefix@t') AS string) AS topic FROM range(1, 2)"),
        {},
        ("null topic",),
        full=True,
    ),
    Case("sink-without-a-value", write("SELECT 'k' AS key"), T, ("value", "not found"), full=True),
    Case("sink-value-of-int", write("SELECT 1 AS value"), T, ("value", *NOT_STRING_OR_BINARY)),
    Case(
        "sink-key-of-int",
        write("SELECT 1 AS key, 'v' AS value"),
        T,
        ("key", *NOT_STRING_OR_BINARY),
        full=True,
    ),
    Case("sink-topic-of-int", write("SELECT 1 AS topic, 'v' AS value"), {}, ("topic", "string"), full=True),
    Case(
        "sink-partition-of-string",
        write("SELECT 'v' AS value, '1' AS partition"),
        T,
        ("partition", "int"),
        full=True,
    ),
    Case(
        "sink-partition-of-bigint",
        write("SELECT 'v' AS value, 1L AS partition"),
        T,
        ("partition", "int"),
        full=True,
    ),
    Case(
        "sink-headers-of-string",
        write("SELECT 'v' AS value, 'h' AS headers"),
        {**T, "includeHeaders": "true"},
        ("headers", "array"),
        full=True,
    ),
    Case("sink-topic-that-comes-into-being", write("SELECT 'v' AS value", looks_at=("v",)), {"topic": "@v@"}),
    Case(
        "sink-record-too-large",
        write("SELECT repeat('x', 2000000) AS value"),
        T,
        ("max.request.size",),
        full=True,
    ),
    Case("stream-sink", write_stream("key", "value"), T),
    Case(
        "stream-sink-topic-column",
        write_stream("value", "concat('@prefix@', if(partition = 0, 't', 'u')) AS topic"),
        full=True,
    ),
    Case(
        "stream-sink-headers",
        write_stream("value", f"{HEADERS} AS headers"),
        {**T, "includeHeaders": "true"},
        full=True,
    ),
    Case("stream-sink-partition", write_stream("value", "0 AS partition"), T, full=True),
    Case("stream-sink-update", write_stream("key", "value", mode="update"), T),
    Case("stream-sink-without-a-topic", write_stream("value"), {}, ("topic",), full=True),
    Case("stream-sink-without-a-value", write_stream("key"), T, ("value", "not found"), full=True),
    Case(
        "stream-sink-value-of-int",
        write_stream("partition AS value"),
        T,
        ("value", *NOT_STRING_OR_BINARY),
        full=True,
    ),
    Case(
        "stream-sink-null-topic",
        write_stream("value", "CAST(NULL AS string) AS topic"),
        {},
        ("null topic",),
        full=True,
    ),
)
