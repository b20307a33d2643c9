"""A file becomes the Pipeline that it says: every key, the environment, what is beside it, what is given over it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.spark import Pipeline, PipelineError, TopicSink, TopicSource, Watermark
from ottla.spark.pipeline.file import load, parse

LEAST = """\
checkpoint = "checkpoints"
[kafka]
bootstrap.servers = "localhost:9092"
[sources.orders]
topic = "orders"
[sinks.copy]
topic = "copy"
format = "bytes"
"""


def pipeline(text: str = LEAST, folder: Path = Path("/jobs"), /, **environment: str) -> Pipeline:
    return parse(text, folder, file="copy.toml", environment=environment)


def said_of(text: str, folder: Path = Path("/jobs"), /, **environment: str) -> str:
    with pytest.raises(PipelineError) as caught:
        pipeline(text, folder, **environment)
    return str(caught.value)


def test_the_least_that_a_file_can_have() -> None:
    assert pipeline() == Pipeline(
        "copy",
        kafka={"bootstrap.servers": "localhost:9092"},
        sources={"orders": TopicSource(topics=("orders",))},
        sinks={"copy": TopicSink(topic="copy", format="bytes")},
        checkpoint="/jobs/checkpoints",
    )


def test_the_most_that_a_file_can_have() -> None:
    text = """
name = "all"
checkpoint = "s3a://bucket/all"
trigger = "1 minute"
mode = "stream"
delivery = "at-least-once"
[kafka]
bootstrap.servers = ["one:9092", "two:9092"]
acks = 1
"linger.ms" = 5
allow.auto.create.topics = false
[sources.orders]
topics = ["orders", "more-orders"]
format = "json"
schema = "at timestamp"
start = { orders = { 0 = 23, 1 = "latest" }, more-orders = { 0 = "earliest" } }
watermark.column = "at"
watermark.delay = "10 seconds"
dead-letter = "dead"
isolation = "read_uncommitted"
[sources.orders.options]
minPartitions = 4
kafka.fetch.min.bytes = 10
[sources.rest]
pattern = "rest-.*"
format = "string"
malformed = "drop"
table = true
[sources.nested]
topic = "nested"
format = "json"
schema = "id bigint"
nested = true
[transform]
sql = "SELECT * FROM orders, rest, nested"
[sinks.totals]
topic = "totals"
key = "id"
columns = ["id", "at"]
where = "id > 0"
output = "complete"
[sinks.totals.options]
kafka.compression.type = "zstd"
[spark]
"spark.sql.shuffle.partitions" = 4
spark.sql.ansi.enabled = true
spark.sql.x = 0.5
"""
    assert pipeline(text) == Pipeline(
        "all",
        kafka={
            "bootstrap.servers": "one:9092,two:9092",
            "acks": "1",
            "linger.ms": "5",
            "allow.auto.create.topics": "false",
        },
        sources={
            "orders": TopicSource(
                topics=("orders", "more-orders"),
                format="json",
                schema="at timestamp",
                start='{"orders":{"0":23,"1":-1},"more-orders":{"0":-2}}',
                watermark=Watermark(column="at", delay="10 seconds"),
                dead_letter="dead",
                isolation="read_uncommitted",
                options={"minPartitions": "4", "kafka.fetch.min.bytes": "10"},
            ),
            "rest": TopicSource(pattern="rest-.*", format="string", malformed="drop", table=True),
            "nested": TopicSource(topics=("nested",), format="json", schema="id bigint", nested=True),
        },
        transform="SELECT * FROM orders, rest, nested",
        sinks={
            "totals": TopicSink(
                topic="totals",
                key="id",
                columns=("id", "at"),
                where="id > 0",
                output="complete",
                options={"kafka.compression.type": "zstd"},
            )
        },
        checkpoint="s3a://bucket/all",
        trigger="1 minute",
        delivery="at-least-once",
        spark={"spark.sql.shuffle.partitions": "4", "spark.sql.ansi.enabled": "true", "spark.sql.x": "0.5"},
    )


@pytest.mark.parametrize(
    ("written", "environment", "read"),
    [
        ("${TOPIC}", {"TOPIC": "a"}, "a"),
        ("x-${TOPIC}-${TOPIC}", {"TOPIC": "a"}, "x-a-a"),
        ("${TOPIC:-b}", {}, "b"),
        ("${TOPIC:-b}", {"TOPIC": ""}, "b"),
        ("${TOPIC:-b}", {"TOPIC": "a"}, "a"),
        ("b${TOPIC:-}", {}, "b"),
        ("b${TOPIC}", {"TOPIC": ""}, "b"),
        ("${TOPIC}", {"TOPIC": "dollar"}, "dollar"),
    ],
)
def test_variables_are_filled_in(written: str, environment: dict[str, str], read: str) -> None:
    text = LEAST.replace('topic = "orders"', f'topic = "{written}"')
    assert pipeline(text, Path(), **environment).sources["orders"].topics == (read,)


def test_what_a_variable_brings_is_not_looked_at_again() -> None:
    text = LEAST.replace(
        "[sinks.copy]", "[transform]\nsql = \"SELECT '$${x}', '${Y}' FROM orders\"\n[sinks.copy]"
    )
    assert pipeline(text, Y="${x}").transform == "SELECT '${x}', '${x}' FROM orders"


def test_a_variable_that_is_missing_is_named_where_it_is_used() -> None:
    text = LEAST.replace('topic = "orders"', 'topics = ["a", "${TOPIC}"]')
    assert said_of(text) == (
        "copy.toml:5: [sources.orders] topics: the environment has no variable TOPIC; set it, or write "
        "${TOPIC:-default}"
    )


def test_schemas_and_sql_may_be_in_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "order.ddl").write_text("id bigint, at timestamp\n")
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "copy.sql").write_text("-- ${this} is left alone\nSELECT id FROM orders\n")
    (tmp_path / "copy.toml").write_text("""
checkpoint = "checkpoints"
[kafka]
bootstrap.servers = "localhost:9092"
[sources.orders]
topic = "orders"
format = "json"
schema-file = "order.ddl"
[transform]
sql-file = "sql/copy.sql"
[sinks.copy]
topic = "copy"
""")
    read = Pipeline.from_file(tmp_path / "copy.toml")
    assert read.name == "copy"
    assert read.checkpoint == str(tmp_path / "checkpoints")
    assert read.sources["orders"].schema == "id bigint, at timestamp\n"
    assert str(read.transform).endswith("SELECT id FROM orders\n")


def test_mistakes_in_files_beside_it_have_the_line_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "order.ddl").write_text("id bigit")
    (tmp_path / "bad.sql").write_bytes(b"\xff")
    text = LEAST.replace('topic = "orders"', 'topic = "orders"\nformat = "json"\nschema-file = "order.ddl"')
    text = text.replace("[sinks.copy]", '[transform]\nsql-file = "bad.sql"\n[sinks.copy]')
    schema, sql = said_of(text, tmp_path).splitlines()
    assert schema.startswith("copy.toml:7: [sources.orders] schema-file: it has 'bigit' at character 4")
    assert sql.startswith(
        f"copy.toml:9: [transform] sql-file: {tmp_path / 'bad.sql'} cannot be read: 'utf-8' codec"
    )
    said = said_of(text.replace('"bad.sql"', r'"\u0000"'), tmp_path)
    assert said.splitlines()[1].endswith("cannot be read: embedded null byte")


def test_a_function_beside_it_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "shape.py").write_text("def shape(orders):\n    return orders\n")
    text = LEAST.replace("[sinks.copy]", '[transform]\npython = "shape.py:shape"\n[sinks.copy]')
    transform: object = pipeline(text, tmp_path).transform
    assert callable(transform)
    assert transform(5) == 5
    (tmp_path / "shape.py").write_text("def shape(order):\n    return order\n")
    assert said_of(text, tmp_path).splitlines() == [
        "copy.toml:7: [transform] python: shape has the parameter order, which is no source; did you mean orders?",
        "copy.toml:7: [transform] python: shape has no parameter orders; add it, or leave that source out",
    ]


def test_what_is_given_over_it_beats_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "copy.toml"
    path.write_text(LEAST + '[spark]\nspark.a.b = 1\n"spark.a.c" = 2\n')
    over = {
        "checkpoint": "elsewhere",
        "trigger": "available-now",
        "delivery": "at-least-once",
        "kafka.bootstrap.servers": "there:9092",
        "kafka.linger.ms": "7",
        "spark.a.b": "${NAME}",
    }
    read = load(path, environment={}, overrides=over)
    assert read.checkpoint == str(tmp_path / "elsewhere")
    assert (read.trigger, read.delivery) == ("available-now", "at-least-once")
    assert read.kafka == {"bootstrap.servers": "there:9092", "linger.ms": "7"}
    assert read.spark == {"spark.a.b": "${NAME}", "spark.a.c": "2"}


def test_a_variable_need_not_be_there_where_another_value_is_given() -> None:
    text = LEAST.replace("localhost:9092", "${KAFKA}")
    read = parse(text, Path("/jobs"), environment={}, overrides={"kafka.bootstrap.servers": "there:9092"})
    assert read.kafka == {"bootstrap.servers": "there:9092"}


def test_mistakes_in_what_is_given_have_no_line() -> None:
    with pytest.raises(PipelineError) as caught:
        parse(LEAST, Path("/jobs"), environment={}, overrides={"trigger": "5s", "kafka.acks": "0"})
    assert [line.partition(";")[0] for line in str(caught.value).splitlines()] == [
        "pipeline.toml: trigger, as given in place of the file's: '5s' is no interval of Spark",
        "pipeline.toml: [kafka] acks, as given in place of the file's: it cannot be '0': the sink writes exactly "
        "once, which takes transactions, and those take an idempotent producer with acks=all. Leave the option out, "
        "or set delivery to at-least-once",
    ]


def test_an_empty_checkpoint_is_not_the_working_directory() -> None:
    """As of a variable that is not set, in a shell."""
    with pytest.raises(PipelineError, match="checkpoint, as given in place of the file's: it is empty"):
        parse(LEAST, Path("/jobs"), environment={}, overrides={"checkpoint": ""})


@pytest.mark.parametrize("name", ["name", "sources.orders.topic", "kafka", "kafka."])
def test_other_keys_are_not_given_over_it(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be overridden"):
        parse(LEAST, Path("/jobs"), environment={}, overrides={name: "x"})


def with_key(line: str) -> str:
    return LEAST.replace("[sources.orders]", f"[sources.orders]\n{line}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LEAST.replace(".orders]\ntopic", "]\norders"), "toml:5: [sources] orders: it is text; write [sources.NAME]"),
        ("sources = 5\n" + LEAST.replace("[sources.", "[x."), "1: sources: it is a number; write [sources.NAME]"),
        ('transform = "SELECT 1"\n' + LEAST, '1: transform: it is text; write sql = "..." below [transform]'),
        (LEAST + "[transform]\n", "9: [transform]: it is empty; write one of sql, sql-file or python"),
        (with_key("watermark = 5"), "5: [sources.orders] watermark: it is a number"),
        (with_key("table = 1979-05-27"), "table: it is a date or a time; write true"),
        (with_key("table = 1979-05-27"), "copy.toml:5: "),
        (with_key("start = { orders = 5 }"), "there is no partition for orders"),
        (with_key("start = { orders = { x = 5 } }"), "partition x of orders has 5"),
        (with_key("start = { orders = { 0 = true } }"), "partition 0 of orders has True"),
        (LEAST + "[[sinks.more]]\ntopic = 'a'", "9: [sinks] more: it is a list; write [sinks.NAME]"),
        (LEAST + "[spark]\nspark.x = [[1, {}]]", "10: [spark] spark.x: it is a list; write text, a number"),
    ],
)  # fmt: skip
def test_values_of_other_types_are_refused(text: str, said: str) -> None:
    assert said in said_of(text)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"none\.toml: it cannot be read: No such file or directory"):
        load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"a = 1\nb = '\xff'\n")
    with pytest.raises(PipelineError, match=r"bad\.toml:2: this is not UTF-8"):
        load(tmp_path / "bad.toml")


def test_start_is_the_connectors_json() -> None:
    text = LEAST.replace(
        "[sources.orders]", '[sources.orders]\nstart = { orders = { 0 = 1, 1 = "earliest" } }'
    )
    assert json.loads(pipeline(text).sources["orders"].start) == {"orders": {"0": 1, "1": -2}}


def test_a_batch_needs_no_checkpoint() -> None:
    text = LEAST.replace('checkpoint = "checkpoints"', 'mode = "batch"')
    assert pipeline(text).checkpoint is None
    late = text.replace('topic = "orders"', 'topic = "orders"\nstart = "latest"')
    assert said_of(late).startswith(
        "copy.toml:6: [sources.orders] start: a batch ends where the latest record is"
    )
