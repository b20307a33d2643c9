"""Records as text: `ottla produce` reads what was meant, `ottla consume` writes for people and programs."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.record_formats import InputError, InputReader, InputRecord, TemplateError, as_json, renderer
from tests.cli.records import Example


def read(reader: InputReader, data: bytes) -> list[InputRecord]:
    return list(reader.file(io.BytesIO(data)))


def test_each_line_is_a_value_without_its_newline() -> None:
    assert [(each.line, each.value) for each in read(InputReader(), b"a\nb \r\n\nc")] == [
        (1, b"a"),
        (2, b"b \r"),
        (3, b""),
        (4, b"c"),
    ]


def test_a_separator_divides_where_it_first_occurs() -> None:
    (record,) = read(InputReader(key_separator=b"::"), b"k::v::w\n")
    assert (record.key, record.value) == (b"k", b"v::w")


def test_a_line_without_the_separator_is_named() -> None:
    with pytest.raises(InputError, match="line 2 has no ':' after a key"):
        read(InputReader(key_separator=b":"), b"k:v\nno key\n")


def test_raw_input_is_one_record() -> None:
    assert [each.value for each in read(InputReader("raw"), b"a\nb\n")] == [b"a\nb\n"]


def test_what_the_command_line_says_is_in_every_record() -> None:
    reader = InputReader(key=b"k", headers=(("h", b"1"),), partition=3)
    for record in read(reader, b"a\nb\n"):
        assert (record.key, record.headers, record.partition) == (b"k", [("h", b"1")], 3)


def test_values_on_the_command_line_keep_bytes_that_are_no_text() -> None:
    (record,) = InputReader().arguments(["\udcff\n"])
    assert record.value == b"\xff"


def test_json_values_that_are_no_text_stay_json() -> None:
    line = b'{"value": {"a": [1, "\xc3\xa4"]}, "key": 7}\n'
    (record,) = read(InputReader("json"), line)
    assert (record.value, record.key) == ('{"a":[1,"ä"]}'.encode(), b"7")


def test_json_null_is_a_tombstone_and_headers_may_be_an_object() -> None:
    (record,) = read(
        InputReader("json"), b'\n{"value": null, "key": "k", "headers": {"a": "1", "b": null}}\n'
    )
    assert (record.line, record.value, record.headers) == (2, None, [("a", b"1"), ("b", None)])


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("[1]", "line 1: a JSON object is expected"),
        ("{", "line 1: "),
        ('{"key": "k"}', 'line 1: there is no "value"'),
        ('{"value": "v", "keys": "k"}', "line 1: there is no field 'keys': did you mean key?"),
        ('{"value": "v", "zzz": 1}', "records have topic, partition"),
        ('{"value": "v", "partition": -1}', 'line 1: "partition" is -1: a whole number from 0 is expected'),
        ('{"value": "v", "timestamp": "now"}', '"timestamp" is "now"'),
        ('{"value": "v", "headers": 1}', '"headers" is an object, or a list'),
        ('{"value": "v", "headers": [{"name": "a"}]}', "a header is"),
        ('{"value_base64": "?"}', "value_base64 is not base64"),
    ],
)
def test_json_that_is_no_record_is_an_error_with_what_is_expected(line: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        read(InputReader("json"), line.encode())
    assert complaint in str(caught.value)


_CONTENT = st.none() | st.binary()


@given(
    key=_CONTENT,
    value=_CONTENT,
    headers=st.lists(st.tuples(st.text(), _CONTENT)),
    timestamp=st.integers(0, 2**62),
    partition=st.integers(0, 2**31 - 1),
)
def test_what_consume_writes_as_json_produce_reads_back(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    timestamp: int,
    partition: int,
) -> None:
    written = as_json(
        Example(key=key, value=value, headers=headers, timestamp=timestamp, partition=partition)
    )
    assert written.count(b"\n") == 1
    (record,) = read(InputReader("json"), written)
    assert record == InputRecord(1, value, key, headers, partition, timestamp)


def test_a_value_is_a_line() -> None:
    assert renderer("value")(Example(value=b"\xff x")) == b"\xff x\n"


def test_raw_values_have_nothing_between_them() -> None:
    render = renderer("raw")
    assert render(Example(value=b"a")) + render(Example(value=None)) + render(Example(value=b"b")) == b"ab"


@pytest.mark.parametrize(
    ("template", "written"),
    [
        ("%k %v %o %p %t %T %h", b"k v 42 2 orders 1700000000000 a=1,b=\n"),
        ("%k=%s\\n", b"k=v\n"),
        ("%v\\0", b"v\0"),
        ("%K,%V,%S", b"1,1,1\n"),
        ("100%%\\t%v\\\\\\x", b"100%\tv\\\\x\n"),
        ("%v%", b"v%\n"),
    ],
)
def test_a_template_has_the_letters_of_kcat(template: str, written: bytes) -> None:
    assert renderer(template)(Example(headers=[("a", b"1"), ("b", None)])) == written


def test_null_is_nothing_but_has_a_length_of_its_own() -> None:
    assert renderer("[%k][%v] %K %V")(Example(key=None, value=None)) == b"[][] -1 -1\n"


def test_json_has_text_as_text_and_other_bytes_as_base64() -> None:
    record = Example(key=None, value=b"\xff", headers=[("h", "ä".encode())])
    assert json.loads(renderer("json")(record)) == {
        "topic": "orders",
        "partition": 2,
        "offset": 42,
        "timestamp": 1_700_000_000_000,
        "key": None,
        "value_base64": "/w==",
        "headers": [{"name": "h", "value": "ä"}],
    }


def test_a_letter_that_does_not_exist_is_an_error_with_all_that_do() -> None:
    with pytest.raises(TemplateError, match=r"there is no %x\. %t topic; .*%% a percent sign"):
        renderer("%v %x")


def test_a_format_that_does_not_exist_is_an_error_with_those_that_do() -> None:
    with pytest.raises(TemplateError, match="--format jsn: expected value, raw, json, or a template"):
        renderer("jsn")
