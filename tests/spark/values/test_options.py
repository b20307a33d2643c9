"""value.*: what may be said, and which columns it gives."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql import types as t

from ottla.spark.options.parsing import OptionError
from ottla.spark.values import ValueOptions

SCHEMA = "id bigint, customer string"


def parse(**options: str) -> ValueOptions:
    parsed = ValueOptions.parse({f"value.{name.replace('_', '.')}": value for name, value in options.items()})
    assert parsed is not None
    return parsed


def names(options: ValueOptions) -> list[str]:
    return [f"{field.name} {field.dataType.simpleString()}" for field in options.fields()]


def test_without_a_format_the_value_stays_as_it_is() -> None:
    assert ValueOptions.parse({"subscribe": "t"}) is None


def test_columns_replace_the_value() -> None:
    assert names(parse(format="json", schema=SCHEMA)) == ["id bigint", "customer string"]
    assert names(parse(format="JSON ", schema=SCHEMA, nested="TRUE")) == [
        "value struct<id:bigint,customer:string>"
    ]
    assert names(parse(format="string")) == ["value string"]
    assert names(parse(format="string", malformed="column")) == ["value string", "_malformed binary"]
    assert names(parse(format="json", schema=SCHEMA, malformed="column", malformed_column="bad")) == [
        "id bigint",
        "customer string",
        "bad binary",
    ]


def test_avro_says_its_columns_itself_and_they_can_be_chosen_from() -> None:
    order = (
        '{"type":"record","name":"R","fields":[{"name":"id","type":"long"},{"name":"at","type":"string"}]}'
    )
    options = parse(format="avro", schema=order, malformed="column")
    assert names(options) == ["id bigint", "at string", "_malformed binary"]
    assert names(parse(format="Avro", schema=order, nested="true")) == ["value struct<id:bigint,at:string>"]
    assert names(parse(format="avro", schema='"long"')) == ["value bigint"]
    assert options.bound_to(t.StructType([t.StructField("at", t.StringType())])) == options
    with pytest.raises(
        OptionError, match="the schema has the column id string, but the columns of the value"
    ):
        options.bound_to(t.StructType([t.StructField("id", t.StringType())]))


def test_keys_are_read_in_any_case() -> None:
    parsed = ValueOptions.parse({"Value.Format": "json", "VALUE.SCHEMA": SCHEMA})
    assert parsed is not None
    assert names(parsed) == ["id bigint", "customer string"]


def test_options_travel() -> None:
    options = parse(format="json", schema=SCHEMA, malformed="drop")
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (
            {"value.schema": SCHEMA},
            "option 'value.schema' has no meaning without value.format: set it to json, avro or string",
        ),
        ({"value.format": "xml"}, "option 'value.format' cannot be 'xml': it takes json, avro or string"),
        (
            {"value.format": "avro"},
            "value.format is avro, but nothing says what the values were written with: "
            "set value.schema to the JSON of the Avro schema",
        ),
        (
            {"value.format": "avro", "value.schema": '"int"', "value.nested": "true"},
            "option 'value.nested' has no meaning where value.schema is no record: the column is named value anyway",
        ),
        (
            {"value.format": "avro", "value.schema": '"int"', "value.schema.id": "-1"},
            "option 'value.schema.id' cannot be '-1': it takes a whole number of at least 0",
        ),
        (
            {"value.format": "json", "value.schema": SCHEMA, "value.schema.id": "1"},
            "option 'value.schema.id' needs value.format=avro",
        ),
        (
            {"value.format": "json", "value.malformed": "ignore"},
            "option 'value.malformed' cannot be 'ignore': it takes fail, drop or column",
        ),
        (
            {"value.format": "json", "value.nested": "yes"},
            "option 'value.nested' cannot be 'yes': it takes true or false",
        ),
        (
            {"value.format": "string", "value.schema": SCHEMA},
            "option 'value.schema' has no meaning with value.format=string: "
            "leave it out, or set value.format to json or avro",
        ),
        (
            {"value.format": "string", "value.malformed.column": "bad"},
            "option 'value.malformed.column' needs value.malformed=column",
        ),
        (
            {"value.format": "string", "value.malformed": "column", "value.malformed.column": ""},
            "option 'value.malformed.column' cannot be '': it takes the name of a column",
        ),
        (
            {"value.format": "json", "value.schema": "id int, Key string, timestamp timestamp"},
            "the value has columns that are named as Kafka's: Key, timestamp. "
            "Set value.nested to true to get the value in one struct column",
        ),
        (
            {
                "value.format": "json",
                "value.schema": SCHEMA,
                "value.malformed": "column",
                "value.malformed.column": "ID",
            },
            "option 'value.malformed.column' cannot be 'ID': there is a column of that name; choose another",
        ),
        (
            {"value.format": "string", "value.malformed": "column", "value.malformed.column": "offset"},
            "option 'value.malformed.column' cannot be 'offset': there is a column of that name; choose another",
        ),
    ],
)
def test_what_cannot_be_followed_is_refused(options: dict[str, str], found: str) -> None:
    with pytest.raises(OptionError) as raised:
        ValueOptions.parse(options)
    assert str(raised.value) == found


def test_a_nested_value_may_have_fields_named_as_kafkas_columns() -> None:
    assert names(parse(format="json", schema="key int, offset int", nested="true")) == [
        "value struct<key:int,offset:int>"
    ]


def test_json_without_any_schema_is_refused_when_columns_are_needed() -> None:
    with pytest.raises(
        OptionError, match=r"set value.schema, such as 'id bigint, customer string', or give .schema"
    ):
        parse(format="json").fields()


def test_a_user_schema_says_what_to_read() -> None:
    user = (
        t.StructType()
        .add("key", "binary")
        .add("id", "long")
        .add("at", "date")
        .add("timestampType", "integer")
    )
    bound = parse(format="json").bound_to(user)
    assert names(bound) == ["id bigint", "at date"]
    with_malformed = parse(format="json", malformed="column").bound_to(user.add("_malformed", "binary"))
    assert names(with_malformed) == ["id bigint", "at date", "_malformed binary"]
    nested = parse(format="json", nested="true").bound_to(
        t.StructType().add("value", t.StructType().add("offset", "integer"))
    )
    assert names(nested) == ["value struct<offset:int>"]


def test_a_user_schema_chooses_from_value_schema() -> None:
    options = parse(format="json", schema=SCHEMA)
    assert options.bound_to(t.StructType().add("customer", "string").add("offset", "long")) == options
    for wrong in (t.StructType().add("id", "integer"), t.StructType().add("name", "string")):
        with pytest.raises(OptionError, match="but the columns of the value are: id bigint, customer string"):
            options.bound_to(wrong)
    with pytest.raises(OptionError, match="the schema has the column value binary"):
        parse(format="string").bound_to(t.StructType().add("value", "binary"))


@pytest.mark.parametrize(
    ("user", "found"),
    [
        (t.StructType().add("key", "binary"), "the schema has none but Kafka's columns"),
        (t.StructType().add("id", t.NullType()), "which cannot be read from JSON"),
        (
            t.StructType().add("id", "integer", nullable=False),
            "the schema says that id, or something inside of it, is never null",
        ),
        (
            t.StructType().add("tags", t.ArrayType(t.StringType(), containsNull=False)),
            "the schema says that tags, or something inside of it, is never null",
        ),
    ],
)
def test_a_user_schema_that_cannot_be_read_is_refused(user: t.StructType, found: str) -> None:
    with pytest.raises(OptionError, match=found):
        parse(format="json").bound_to(user)


def test_a_nested_user_schema_must_be_one_struct() -> None:
    with pytest.raises(OptionError, match=r"value struct<...>"):
        parse(format="json", nested="true").bound_to(t.StructType().add("id", "integer"))
