"""Regular expressions of subscriptions, in the syntax of RE2 that Kafka's coordinator takes (KIP-848).

An expression is read as RE2 reads it and written down again for Python's `re`, which has another syntax: what only
Python has is refused, in the words of RE2, and what only RE2 has is spelled out. It matches a topic when it matches
the whole name. Names are made of 65 characters, and a class is written down as those of them that are in it: so the
classes of Unicode need no tables.

RE2 takes linear time and `re` may not; there are no back references, and names have at most 249 characters.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable
from typing import Final

from ottla.errors import InvalidRegularExpressionError

_LEGAL: Final = string.ascii_letters + string.digits + "._-"
_MOST_REPEATS: Final = 1000
_POSIX: Final = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "ascii": _LEGAL,
    "blank": "",
    "cntrl": "",
    "digit": string.digits,
    "graph": _LEGAL,
    "lower": string.ascii_lowercase,
    "print": _LEGAL,
    "punct": "._-",
    "space": "",
    "upper": string.ascii_uppercase,
    "word": string.ascii_letters + string.digits + "_",
    "xdigit": string.hexdigits,
}
_PERL: Final = {"d": _POSIX["digit"], "s": "", "w": _POSIX["word"]}
_SCRIPTS: Final = {
    "Any": _LEGAL,
    "Latin": string.ascii_letters,
    "Common": string.digits + "._-",
    "Greek": "",
    "Cyrillic": "",
    "Han": "",
}
_CATEGORIES: Final = frozenset(unicodedata.category(chr(code)) for code in range(0x3000))
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
# In groups, because RE2 lets them be repeated.
_ASSERTIONS: Final = {"A": r"(?:\A)", "b": r"(?a:\b)", "B": r"(?a:\B)", "z": r"(?:\Z)"}
_COUNT: Final = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
_FLAGS: Final = re.compile(r"\(\?(?P<on>[imsU]*)(-(?P<off>[imsU]+))?(?P<end>[:)])")
_NAME: Final = re.compile(r"\(\?P?<(\w+)>", re.ASCII)
_HEX: Final = re.compile(r"\\x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))")
_OCTAL: Final = re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})")
_UNICODE: Final = re.compile(r"\\[pP](?:\{(\^?\w+)\}|(\w))")


def compile_regex(regex: str) -> re.Pattern[str]:
    """The expression; an InvalidRegularExpressionError says what RE2 has against it."""
    try:
        return re.compile(_Translation(regex).translate())
    except (_SyntaxError, re.error, RecursionError) as error:
        raise InvalidRegularExpressionError(
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
        ) from None


def matching(regex: str, topics: Iterable[str]) -> frozenset[str]:
    """The topics that an expression matches."""
    pattern = compile_regex(regex)
    return frozenset(topic for topic in topics if pattern.fullmatch(topic) is not None)


class _SyntaxError(Exception):
    """In RE2's words."""


class _Translation:
    """One pass over an expression, from left to right."""

    def __init__(self, regex: str) -> None:
        self._regex = regex
        self._at = 0
        self._out: list[str] = []
        self._flags = frozenset[str]()
        self._groups: list[frozenset[str]] = []
        """The flags before each group that is open: they hold again behind it."""
        self._names: set[str] = set()

    def translate(self) -> str:
        may_repeat = is_repetition = False
        while self._at < len(self._regex):
            char = self._regex[self._at]
            if char in "*+?" or (char == "{" and _COUNT.match(self._regex, self._at)):
                if is_repetition:
                    raise _SyntaxError("invalid nested repetition operator")
                if not may_repeat:
                    raise _SyntaxError("missing argument to repetition operator")
                self._repeat(char)
                is_repetition = True
                continue
            is_repetition = False
            may_repeat = self._piece(char)
        if self._groups:
            raise _SyntaxError("missing closing )")
        return "".join(self._out)

    def _piece(self, char: str) -> bool:
        """Takes the next piece; whether it can be repeated."""
        match char:
            case "(":
                return self._begin_group()
            case ")":
                return self._end_group()
            case "|":
                self._put("|", 1)
                return False
            case "[":
                self._put_class(*self._bracket())
            case "\\":
                self._escape()
            case ".":
                # A name has no line break, which is all that the flag s would add.
                self._put(".", 1)
            case "^":
                self._put(r"(?:\A)", 1)
            case "$":
                self._put(r"(?:\Z)", 1)
            case _:
                self._literal(char, 1)
        return True

    def _put(self, text: str, length: int) -> None:
        self._out.append(text)
        self._at += length

    def _literal(self, char: str, length: int) -> None:
        escaped = re.escape(char)
        self._put(f"(?i:{escaped})" if "i" in self._flags else escaped, length)

    def _put_class(self, chars: Iterable[str], length: int) -> None:
        found = set(chars)
        if "i" in self._flags:
            found |= {char.swapcase() for char in found}
        listed = "".join(re.escape(char) for char in sorted(found))
        self._put(f"[{listed}]" if listed else "(?!)", length)

    def _repeat(self, char: str) -> None:
        text = char
        if char == "{":
            count = _COUNT.match(self._regex, self._at)
            assert count is not None
            low, high = int(count[1]), int(count[3] or count[1])
            if low > _MOST_REPEATS or high > _MOST_REPEATS or high < low:
                raise _SyntaxError("invalid repeat count")
            text = count[0]
        self._put(text, len(text))
        if self._regex[self._at : self._at + 1] == "?":
            self._put("?", 1)

    def _begin_group(self) -> bool:
        before = self._flags
        if not self._regex.startswith("(?", self._at):
            self._put("(?:", 1)
        elif (named := _NAME.match(self._regex, self._at)) is not None:
            if named[1] in self._names:
                raise _SyntaxError("duplicate capture group name")
            self._names.add(named[1])
            self._put("(?:", len(named[0]))
        elif self._regex.startswith(("(?P<", "(?<"), self._at):
            raise _SyntaxError("invalid named capture")
        elif (flags := _FLAGS.match(self._regex, self._at)) is not None:
            # U swaps which repetitions are greedy, and m which ends of lines count: neither changes whether a whole
            # name matches.
            self._flags = (before | set(flags["on"])) - set(flags["off"] or "")
            if flags["end"] == ")":
                self._at += len(flags[0])
                return False
            self._put("(?:", len(flags[0]))
        else:
            raise _SyntaxError("invalid or unsupported Perl syntax")
        self._groups.append(before)
        return False

    def _end_group(self) -> bool:
        if not self._groups:
            raise _SyntaxError("regexp/syntax: internal error")  # so Kafka's implementation of RE2 calls it
        self._flags = self._groups.pop()
        self._put(")", 1)
        return True

    def _escape(self) -> None:
        """An escape outside of brackets."""
        regex, at = self._regex, self._at
        follower = regex[at + 1 : at + 2]
        if follower in _ASSERTIONS and follower:
            self._put(_ASSERTIONS[follower], 2)
        elif follower == "Q":
            end = regex.find("\\E", at + 2)
            quoted = regex[at + 2 :] if end < 0 else regex[at + 2 : end]
            self._at += 2
            # As one piece each, so that a repetition behind it is of the last one only.
            for char in quoted:
                self._literal(char, 1)
            self._at += 0 if end < 0 else 2
        elif (known := self._class_escape(at)) is not None:
            self._put_class(*known)
        else:
            self._literal(*self._char_escape(at))

    def _class_escape(self, at: int) -> tuple[frozenset[str], int] | None:
        r"""The class of \d, \p{Lu} and their like, and its length."""
        follower = self._regex[at + 1 : at + 2]
        if follower and follower.lower() in _PERL:
            chars = frozenset(_PERL[follower.lower()])
            return (chars if follower.islower() else frozenset(_LEGAL) - chars), 2
        if follower not in ("p", "P"):
            return None
        found = _UNICODE.match(self._regex, at)
        if found is None:
            raise _SyntaxError("invalid character class range")
        name = found[1] or found[2]
        negated = (follower == "P") != name.startswith("^")
        chars = _unicode_class(name.removeprefix("^"))
        return (frozenset(_LEGAL) - chars if negated else chars), len(found[0])

    def _char_escape(self, at: int) -> tuple[str, int]:
        """The character that an escape stands for, and its length."""
        follower = self._regex[at + 1 : at + 2]
        if not follower:
            raise _SyntaxError("trailing backslash at end of expression")
        if follower in _CONTROLS:
            return _CONTROLS[follower], 2
        code = _HEX.match(self._regex, at)
        if code is not None and int(code[1] or code[2], 16) <= 0x10FFFF:
            return chr(int(code[1] or code[2], 16)), len(code[0])
        octal = _OCTAL.match(self._regex, at)
        if octal is not None:
            return chr(int(octal[1], 8)), len(octal[0])
        if not follower.isascii() or follower.isalnum():
            raise _SyntaxError("invalid escape sequence")
        return follower, 2

    def _bracket(self) -> tuple[frozenset[str], int]:
        """The class in brackets at this place, and its length."""
        regex, at = self._regex, self._at + 1
        negated = regex.startswith("^", at)
        at += negated
        chars: set[str] = set()
        first = True
        while first or not regex.startswith("]", at):
            first = False
            if at >= len(regex):
                raise _SyntaxError("missing closing ]")
            if regex.startswith("[:", at) and (end := regex.find(":]", at + 2)) >= 0:
                chars |= _posix_class(regex[at + 2 : end])
                at = end + 2
            elif regex[at] == "\\" and (known := self._class_escape(at)) is not None:
                chars |= known[0]
                at += known[1]
            else:
                members, at = self._range(at)
                chars |= members
        found = frozenset(_LEGAL) - chars if negated else frozenset(chars)
        return found, at + 1 - self._at

    def _range(self, at: int) -> tuple[set[str], int]:
        """A character of a class or a range of them, and where it ends."""
        low, at = self._class_char(at)
        if not self._regex.startswith("-", at) or self._regex.startswith("-]", at):
            return {low}, at
        high, at = self._class_char(at + 1)
        if high < low:
            raise _SyntaxError("invalid character class range")
        return {char for char in _LEGAL if low <= char <= high}, at

    def _class_char(self, at: int) -> tuple[str, int]:
        if at >= len(self._regex):
            raise _SyntaxError("missing closing ]")
        if self._regex[at] == "\\":
            char, length = self._char_escape(at)
            return char, at + length
        return self._regex[at], at + 1


def _posix_class(name: str) -> frozenset[str]:
    negated = name.startswith("^")
    known = _POSIX.get(name.removeprefix("^"))
    if known is None:
        raise _SyntaxError("invalid character class range")
    return frozenset(_LEGAL) - frozenset(known) if negated else frozenset(known)


def _unicode_class(name: str) -> frozenset[str]:
    """The characters of a script, or of a category like L or Lu."""
    if name in _SCRIPTS:
        return frozenset(_SCRIPTS[name])
    if not any(category.startswith(name) for category in _CATEGORIES):
        raise _SyntaxError("invalid character class range")
    return frozenset(char for char in _LEGAL if unicodedata.category(char).startswith(name))
