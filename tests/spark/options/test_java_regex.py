"""Java's patterns for topics, matched by Python as Java matches them."""

from __future__ import annotations

import re

import pytest

from ottla.spark.options.java_regex import PatternError, python_pattern

TOPICS = ("orders", "orders.eu", "orders-2024", "ORDERS", "o", "a-b", "x_1", "___")


@pytest.mark.parametrize(
    ("java", "matched"),
    [
        ("orders", {"orders"}),
        ("orders.*", {"orders", "orders.eu", "orders-2024"}),
        (r"\Qorders.\E\w+", {"orders.eu"}),
        (r"\Qorders.eu", {"orders.eu"}),
        (r"[\Q.-\Ea-z]+", {"orders", "orders.eu", "o", "a-b"}),
        (r"(?i)orders", {"orders", "ORDERS"}),
        (r"(?i:O)rders", {"orders"}),
        (r"(?<name>o)rders", {"orders"}),
        (r"(?<c>_)\k<c>\1", {"___"}),
        (r"orders-\d{4}", {"orders-2024"}),
        (r"\p{Lower}+", {"orders", "o"}),
        (r"\p{javaUpperCase}+", {"ORDERS"}),
        (r"\p{IsAlphabetic}+", {"orders", "ORDERS", "o"}),
        (r"\P{Lower}+", {"ORDERS", "___"}),
        (r"\pL+", {"orders", "ORDERS", "o"}),
        (r"[\p{Lower}\p{Digit}_]+", {"orders", "o", "x_1", "___"}),
        (r"[]a-z--]+", {"orders", "o", "a-b"}),
        (r"[^]._-]+", {"orders", "ORDERS", "o"}),
        (r"^orders$", {"orders"}),
        (r"\Aorders\z", {"orders"}),
        (r"o(?>rd)ers(?!x)", {"orders"}),
        (r"[a-z]++", {"orders", "o"}),
        (r"\x6f", {"o"}),
    ],
)
def test_a_pattern_matches_the_topics_that_it_matches_in_java(java: str, matched: set[str]) -> None:
    pattern = python_pattern(java)
    assert {topic for topic in TOPICS if re.fullmatch(pattern, topic)} == matched


@pytest.mark.parametrize(
    ("java", "why"),
    [
        ("(", "unterminated"),
        ("[a", "unterminated"),
        ("orders\\", "ends in a backslash"),
        ("x{", "the { at position 1 repeats nothing"),
        ("x{,3}", "repeats nothing"),
        ("[a-z&&[^b]]", "classes within classes and &&"),
        ("[a[b]]", "classes within classes"),
        (r"\p{IsGreek}", "IsGreek} is not supported"),
        (r"[\P{Lower}]", "within brackets"),
        ("a(?i)b", "global flags not at the start"),
        (r"\G", "bad escape"),
        ("a{1,99999999999999999999}", "repetition"),
        ("(" * 50, "unterminated"),
    ],
)
def test_a_pattern_that_python_would_misread_is_refused(java: str, why: str) -> None:
    with pytest.raises(PatternError, match=re.escape(why)):
        python_pattern(java)
