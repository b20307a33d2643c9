"""The options `value.*` of the sink: what it takes, what it leaves to a source, and what it refuses."""

from __future__ import annotations

import pickle

import pytest

from ottla.spark.options.connector import SinkOptions, SourceOptions
from ottla.spark.options.encoding import ValueEncoding
from ottla.spark.options.parsing import OptionError

KAFKA = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t"}


def parsed(**options: str) -> ValueEncoding | None:
    """Names with underscores for dots."""
    return SinkOptions.parse(
        {**KAFKA, **{name.replace("_", "."): text for name, text in options.items()}}
    ).value


def test_without_a_format_the_value_is_written_as_it_is() -> None:
    assert parsed() is None
    assert parsed(value_malformed="column", value_malformed_column="bad") is None


@pytest.mark.parametrize("text", ["json", " JSON ", "Json"])
def test_json_is_a_format_in_any_case(text: str) -> None:
    assert parsed(value_format=text) == ValueEncoding(format="json", malformed_column="_malformed")


def test_avro_has_a_schema_and_an_id_if_they_are_given() -> None:
    assert parsed(value_format="avro") == ValueEncoding(format="avro")
    found = parsed(value_format="Avro", value_schema='"long"', value_schema_id="7")
    assert found == ValueEncoding(format="avro", schema='"long"', schema_id=7)


@pytest.mark.parametrize("form", ["json", "string", None])
def test_the_id_of_a_schema_is_for_avro_only(form: str | None) -> None:
    with pytest.raises(OptionError, match=r"'value\.schema\.id' needs value\.format=avro"):
        parsed(value_schema_id="7", **({} if form is None else {"value_format": form}))


def test_the_id_of_a_schema_is_a_number() -> None:
    with pytest.raises(OptionError, match=r"'value\.schema\.id' cannot be '-1': it takes a whole number"):
        parsed(value_format="avro", value_schema_id="-1")


@pytest.mark.parametrize("text", ["string", "bytes"])
def test_strings_and_bytes_need_no_encoding(text: str) -> None:
    assert parsed(value_format=text) is None


def test_another_format_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        OptionError, match=r"'value\.format' cannot be 'xml': it takes json or avro, .*string and bytes"
    ):
        parsed(value_format="xml")


def test_one_set_of_options_serves_a_source_and_a_sink() -> None:
    both = {
        **KAFKA,
        "Value.Format": "json",
        "value.schema": "id bigint",
        "value.malformed": "column",
        "value.malformed.column": "bad",
        "value.nested": "true",
    }
    assert SinkOptions.parse(both).value == ValueEncoding(format="json", malformed_column="bad")
    reading = {name: text for name, text in both.items() if name != "topic"}
    source = SourceOptions.parse({**reading, "subscribe": "t"}, streaming=False).value
    assert source is not None
    assert source.malformed_column == "bad"


def test_an_encoding_travels() -> None:
    found = parsed(value_format="json")
    assert pickle.loads(pickle.dumps(found)) == found
