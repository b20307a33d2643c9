"""The syntax of .properties files, by what java.util.Properties makes of each."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.properties import parse_properties, read_properties
from ottla.errors import ConfigurationError


def pairs(text: str) -> list[tuple[str, str]]:
    return [(name, value) for _, name, value in parse_properties(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("a=b", [("a", "b")]),
        ("a = b", [("a", "b")]),
        ("a:b", [("a", "b")]),
        ("a b", [("a", "b")]),
        ("a\t\f=\t\fb", [("a", "b")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("=b", [("", "b")]),
        ("a==b", [("a", "=b")]),
        ("a : = b", [("a", "= b")]),
        ("servers=host:9092,other:9092", [("servers", "host:9092,other:9092")]),
        ("a=b  ", [("a", "b  ")]),
        ("  a=b", [("a", "b")]),
        ("# a comment\n! another\n  # and one more\n\n \t\na=b", [("a", "b")]),
        ("a=b # no comment", [("a", "b # no comment")]),
        ("a=1\nb=2\r\nc=3\rd=4\n", [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]),
        ("a=b,\\\n    c,\\\n\td", [("a", "b,c,d")]),
        ("a=b\\\r\n  c", [("a", "bc")]),
        ("a=b\\\n# not a comment", [("a", "b# not a comment")]),
        ("a=b\\\n\nc=d", [("a", "b"), ("c", "d")]),
        ("na\\\n me=b", [("name", "b")]),
        ("# no continuation\\\na=b", [("a", "b")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("a=b\\\\\\\nc", [("a", "b\\c")]),
        ("a=b\\", [("a", "b")]),
        ("\\", []),
        ("a\\=b\\:c\\ d=e", [("a=b:c d", "e")]),
        ("\\#a=\\!b", [("#a", "!b")]),
        ('a=\\t\\n\\r\\f\\\\\\q\\"', [("a", '\t\n\r\f\\q"')]),
        ("a=\\ b", [("a", " b")]),
        ("\\u0061=\\u00e9\\uD83D\\uDE00", [("a", "é\N{GRINNING FACE}")]),
        ("a=ü", [("a", "ü")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
    ],
)
def test_a_text_is_read_as_java_reads_it(text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(text) == expected


def test_a_property_knows_the_line_it_begins_on() -> None:
    text = "# comment\na=1\n\nb=2,\\\n  3\nc=4"
    assert [(line, name) for line, name, _ in parse_properties(text)] == [(2, "a"), (4, "b"), (6, "c")]


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u", "a=\\uwxyz", "\\u12=b"])
def test_an_escape_that_is_cut_short_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"line 2: \\u is not followed by four hexadecimal digits"):
        pairs(f"ok=1\n{text}")


@pytest.mark.parametrize("half", ["\\ud83d", "\\ude00", "\\ude00\\ud83d"])
def test_half_a_character_is_refused(half: str) -> None:
    with pytest.raises(ConfigurationError, match=r"line 1: .* half a character"):
        pairs(f"a={half}")


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(b"\xef\xbb\xbfa=\xc3\xa9\r\nb=2")
    assert read_properties(path) == [(1, "a", "é"), (2, "b", "2")]


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(b"a=\xe9")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        read_properties(path)


def escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


@given(st.dictionaries(st.text(min_size=1, max_size=10), st.text(max_size=10), max_size=4))
def test_what_is_escaped_comes_back_whole(properties: dict[str, str]) -> None:
    text = "\n".join(f"{escaped(name)}={escaped(value)}" for name, value in properties.items())
    assert dict(pairs(text)) == properties


@given(st.text(alphabet="ab=: \t\\u0#!\n\r", max_size=30))
def test_no_text_breaks_the_parser(text: str) -> None:
    with suppress(ConfigurationError):
        for line, _, _ in parse_properties(text):
            assert line > 0
