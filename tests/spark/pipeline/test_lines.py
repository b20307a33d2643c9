"""The line of each key of a TOML text is the one that it begins on, whatever the text looks like around it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.pipeline.lines import KeyPath, key_lines


def leaves(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    if isinstance(value, dict | list):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(below, (*path, key))
    else:
        yield path, value


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a = 1", {("a",): 1}),
        ("\n\na = 1 # b = 2\nb = 3", {("a",): 3, ("b",): 4}),
        ("a.b = 1\na.c = 2", {("a",): 1, ("a", "b"): 1, ("a", "c"): 2}),
        ('[x."y.z"]\na = 1', {("x",): 1, ("x", "y.z"): 1, ("x", "y.z", "a"): 2}),
        ("[x.y]\na = 1\n[x]\nb = 2", {("x", "y"): 1, ("x", "y", "a"): 2, ("x",): 3, ("x", "b"): 4}),
        ('a = """\nb = 1\n"""\nc = 1', {("a",): 1, ("c",): 4}),
        ("a = '''\n[b]\n''''\nc = 1", {("a",): 1, ("c",): 4}),
        ('a = "\\"#\\\\"\nb = 1', {("a",): 1, ("b",): 2}),
        ("a = [\n1, # one\n[2,\n3]]", {("a",): 1, ("a", 0): 2, ("a", 1): 3, ("a", 1, 0): 3, ("a", 1, 1): 4}),
        ("a = { b = 1, c.d = [] }", {("a",): 1, ("a", "b"): 1, ("a", "c"): 1, ("a", "c", "d"): 1}),
        ("[[t]]\na=1\n[[t]]\na=2\n[t.u]\nb=3", {("t", 1, "u"): 5, ("t", 1, "u", "b"): 6, ("t", 1, "a"): 4}),
        ("a = 1\r\nb = 2\r\n", {("a",): 1, ("b",): 2}),
        ("a = 1979-05-27 07:32:00 # b\nb = 1", {("a",): 1, ("b",): 2}),
        ("\"\\u00e9\" = 1\n'x y' = 2", {("é",): 1, ("x y",): 2}),
    ],
)
def test_each_key_has_the_line_that_it_begins_on(text: str, lines: dict[KeyPath, int]) -> None:
    tomllib.loads(text)
    assert key_lines(text) | lines == key_lines(text)


# Texts that are made with their lines: each leaf is a number that occurs once, or a long string that begins with it.

KEYS = st.sampled_from(
    ["a", "b-c", "'x.y'", '"q\\"r"', "3", "'#'", '"="', "é".encode("unicode_escape").decode()]
)
KEYS = KEYS.filter(lambda key: "\\x" not in key)
GAPS = st.sampled_from(["", "\n", "# a = 1 [b]\n", "\n  # ]\n\n", "\t"])


class Writer:
    """Writes values, and knows nothing of lines."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data
        self._numbers = count(1000)

    def value(self, depth: int) -> str:
        kinds = ["number", "text", "long", "literal", *(["array", "inline"] if depth else [])]
        number = next(self._numbers)
        match self._data.draw(st.sampled_from(kinds)):
            case "text":
                return f'"@{number} \\"#[ = {{"'
            case "long":
                return f'"""@{number}\n[x]\n\\""" y = 1 """"'
            case "literal":
                return f"'''@{number}\n\"\n'''"
            case "array":
                inside = [
                    self.gap() + self.value(depth - 1) for _ in range(self._data.draw(st.integers(0, 3)))
                ]
                comma = "," if len(inside) > 0 and self._data.draw(st.booleans()) else ""
                return f"[{','.join(inside)}{comma}{self.gap()}]"
            case "inline":
                keys = self._data.draw(st.lists(KEYS, max_size=3, unique=True))
                pairs = (f"{key} = {self.value(0)}" for key in keys)
                return f"{{ {', '.join(pairs)} }}"
        return str(number)

    def gap(self) -> str:
        return self._data.draw(GAPS)

    def pairs(self) -> str:
        keys = self._data.draw(st.lists(KEYS, max_size=4, unique=True))
        return "".join(f"{self.gap()}{key} = {self.value(2)} # c\n" for key in keys)

    def document(self) -> str:
        text = self.pairs()
        for number in range(self._data.draw(st.integers(0, 4))):
            many = self._data.draw(st.booleans())
            if not many:
                text += f"{self.gap()}[t{number}.{self._data.draw(KEYS)}]\n{self.pairs()}"
            else:
                name = f"many.{self._data.draw(KEYS)}"
                text += f"{self.gap()}[[ {name} ]]\n{self.pairs()}[{name}.below]\n{self.pairs()}"
        return text


@given(st.data())
def test_the_lines_of_any_text_are_those_that_tomllib_has_read(data: st.DataObject) -> None:
    text = Writer(data).document()
    rows = text.split("\n")
    lines = key_lines(text)
    read = list(leaves(tomllib.loads(text)))
    for path, value in read:
        # The mark of a text is on the line on which its quotes open.
        mark = value.partition(" ")[0].partition("\n")[0] if isinstance(value, str) else str(value)
        assert mark in rows[lines[path] - 1], (path, text)
    unread = {path for path in lines if not any(path == known[: len(path)] for known, _ in read)}
    assert all(_is_empty(tomllib.loads(text), path) for path in unread)


def _is_empty(value: object, path: KeyPath) -> bool:
    """Whether there is a table or an array without leaves at the path."""
    for key in path:
        assert isinstance(value, dict | list)
        value = value[key]  # type: ignore[index]
    return not list(leaves(value))
