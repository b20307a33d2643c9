"""Records as people and programs read them."""

from __future__ import annotations

import json

import pytest

from ottla.cli.outgoing import TemplateError, renderer
from tests.cli.records import Example


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


def test_null_is_nothing_but_its_length_tells() -> None:
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


def test_a_letter_that_does_not_exist_is_answered_with_all_that_do() -> None:
    with pytest.raises(TemplateError, match=r"there is no %x\. %t topic; .*%% a percent sign"):
        renderer("%v %x")


def test_a_format_that_does_not_exist_is_answered_with_those_that_do() -> None:
    with pytest.raises(TemplateError, match="--format jsn: expected value, raw, json, or a template"):
        renderer("jsn")
