r"""Java's regular expressions as Python's, for names of topics.

The two syntaxes differ little where it matters here, as the name of a topic has only ASCII letters, digits, dots,
underscores and hyphens. What Python writes otherwise is translated token by token: \Q..\E, named groups, \p{..}, \z.
What Python would read otherwise is refused: classes within classes, their intersection, a { that repeats nothing.
The rest is Python's to compile or to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# Java's names for classes, in lower case and without the prefixes Is and java -> their ASCII part, as in brackets.
_CLASSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("lower", "lowercase", "ll"), "a-z"),
        **dict.fromkeys(("upper", "uppercase", "lu"), "A-Z"),
        **dict.fromkeys(("alpha", "alphabetic", "letter", "latin", "l"), "a-zA-Z"),
        **dict.fromkeys(("digit", "n", "nd"), "0-9"),
        **dict.fromkeys(("alnum", "letterordigit"), "a-zA-Z0-9"),
        "xdigit": "0-9a-fA-F",
        "punct": "!-/:-@\\[-`{-~",
        **dict.fromkeys(("graph", "print", "ascii"), "!-~"),
    }
)
# Between two of these, "--" and the like would be set operations in a later Python; in Java they are characters.
_DOUBLED_IN_CLASS: Final = frozenset("-~|")

_TOKEN: Final = re.compile(
    r"""
      \\Q (?P<quoted>.*?) (?:\\E|\Z)
    | \\(?P<sign>[pP]) (?: \{(?P<property>[^}]*)\} | (?P<letter>[A-Z]) )
    | \\k<(?P<back>[A-Za-z0-9]+)>
    | (?P<end>\\z)
    | (?P<escape>\\.)
    | \(\?<(?P<group>[A-Za-z][A-Za-z0-9]*)>
    | (?P<repetition>\{[0-9]+(?:,[0-9]*)?\})
    | (?P<literal>[^\\])
    """,
    re.VERBOSE | re.DOTALL,
)


class PatternError(ValueError):
    """A pattern that cannot be used; the text says why, to stand behind a colon."""


def python_pattern(java: str) -> str:
    r"""The pattern with which re.search finds what Java's pattern finds.

    >>> python_pattern(r"\Qorders.\E(?<year>\p{Digit}{4})")
    'orders\\.(?P<year>[0-9]{4})'
    """
    translated = _Translation(java).run()
    try:
        re.compile(translated)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"{error} (it is read as {translated})") from None
    return translated


class _Translation:
    """One pass over the tokens, which remembers where the class that it is in began."""

    def __init__(self, java: str) -> None:
        self._java = java
        self._class_begins: int | None = None

    def run(self) -> str:
        written, at = [], 0
        while at < len(self._java):
            token = _TOKEN.match(self._java, at)
            if token is None:
                raise PatternError("it ends in a backslash")
            written.append(self._in_class(token) if self._class_begins is not None else self._outside(token))
            at = token.end()
        return "".join(written)

    def _outside(self, token: re.Match[str]) -> str:
        if token["sign"]:
            return f"[{'^' if token['sign'] == 'P' else ''}{_characters(token)}]"
        if token["back"]:
            return f"(?P={token['back']})"
        if token["group"]:
            return f"(?P<{token['group']}>"
        if token["end"]:
            return r"\Z"
        if token["literal"] == "{":
            raise PatternError(
                f"the {{ at position {token.start()} repeats nothing; a brace itself is written \\{{"
            )
        if token["literal"] == "[":
            self._class_begins = token.end() + self._java.startswith("^", token.end())
        return _quoted_or_same(token)

    def _in_class(self, token: re.Match[str]) -> str:
        if token["sign"] == "P":
            raise PatternError(
                f"{token[0]} within brackets is not supported: write the characters that are meant"
            )
        if token["sign"]:
            return _characters(token)
        literal = token["literal"]
        if literal == "[" or (literal == "&" and self._java.startswith("&", token.end())):
            raise PatternError(
                "classes within classes and && are not supported: write the characters that are meant"
            )
        if literal == "]" and token.start() != self._class_begins:
            self._class_begins = None
        if literal in _DOUBLED_IN_CLASS and self._java.startswith(literal, token.end()):
            return f"\\{literal}"
        return _quoted_or_same(token)


def _quoted_or_same(token: re.Match[str]) -> str:
    return token[0] if token["quoted"] is None else re.escape(token["quoted"])


def _characters(token: re.Match[str]) -> str:
    """What \\p stands for, to be written in brackets."""
    name = token["letter"] or token["property"]
    bare = name.lower().removeprefix("is").removeprefix("java")
    if bare not in _CLASSES:
        raise PatternError(f"{token[0]} is not supported: write the characters that are meant in brackets")
    return _CLASSES[bare]
