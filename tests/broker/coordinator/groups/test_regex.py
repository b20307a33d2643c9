"""Regular expressions in RE2's syntax; what Kafka 4.3.1 says to each was asked of it."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.coordinator.groups.regex import compile_regex, matching
from ottla.errors import InvalidRegularExpressionError

REFUSED = {
    "(a": "missing closing )",
    "a)": "regexp/syntax: internal error",
    "([": "missing closing ]",
    "(?P<n": "invalid named capture",
    "a{2}{3}": "invalid nested repetition operator",
    "a{2,1}": "invalid repeat count",
    "(?i-)a": "invalid or unsupported Perl syntax",
    "a(?=b)": "invalid or unsupported Perl syntax",
    "(?>a)": "invalid or unsupported Perl syntax",
    "(?#c)a": "invalid or unsupported Perl syntax",
    "(?x)a": "invalid or unsupported Perl syntax",
    r"(a)\1": "invalid escape sequence",
    r"a\Z": "invalid escape sequence",
    r"\C": "invalid escape sequence",
    r"\h": "invalid escape sequence",
    "a**": "invalid nested repetition operator",
    "a++": "invalid nested repetition operator",
    "*": "missing argument to repetition operator",
    "a{1001}": "invalid repeat count",
    "[b-a]": "invalid character class range",
    "[[:word:]-[:nope:]]": "invalid character class range",
    "a\\": "trailing backslash at end of expression",
}


@pytest.mark.parametrize("regex", REFUSED)
def test_what_re2_lacks_is_refused_in_its_words(regex: str) -> None:
    with pytest.raises(InvalidRegularExpressionError) as refused:
        compile_regex(regex)
    assert refused.value.message == (
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {REFUSED[regex]}."
    )


@pytest.mark.parametrize(
    ("regex", "found"),
    [
        ("orders", {"orders"}),
        ("order", set()),
        ("order.*", {"orders", "orders.eu", "Orders"} - {"Orders"}),
        (r"orders\.eu|t1", {"orders.eu", "t1"}),
        (r"\Qorders.eu\E", {"orders.eu"}),
        ("(?i)ORDERS", {"orders", "Orders"}),
        ("x(?i)a|ORDERS", {"orders", "Orders"}),
        ("(?i:o)rders", {"orders", "Orders"}),
        ("(?i)o(?-i)RDERS", set()),
        ("[[:alpha:]]+", {"orders", "Orders"}),
        ("[^[:alpha:]]+", set()),
        (r"\pL\d", {"t1"}),
        (r"\p{Lu}.*", {"Orders"}),
        (r"[\PL]*", set()),
        (r"t\x31|\x{4f}rders", {"t1", "Orders"}),
        ("(?P<n>t)1", {"t1"}),
        ("(?<n>t)1", {"t1"}),
        (r"\Aorders\z", {"orders"}),
        ("^orders$", {"orders"}),
        ("^*orders$*", {"orders"}),
        ("(?)orders", {"orders"}),
        (r"\border\Bs", {"orders"}),
        ("a{,2}", {"a{,2}"} & set()),
        ("[a-z]{6}", {"orders"}),
        ("[]a-z]*", {"orders"}),
        ("[a-z-]+1", {"t1"}),
        ("", set()),
    ],
)
def test_an_expression_has_the_topics_whose_whole_name_it_matches(regex: str, found: set[str]) -> None:
    assert matching(regex, ["orders", "orders.eu", "Orders", "t1"]) == found


LITERALS = st.text(st.sampled_from("ab._-("), max_size=5)


@given(LITERALS, LITERALS)
def test_quoted_text_matches_itself_and_nothing_else(quoted: str, topic: str) -> None:
    assert matching(rf"\Q{quoted}\E", [topic]) == ({topic} if topic == quoted else set())


@given(st.text(st.sampled_from("ab|*+?.()[]^$-"), max_size=7), st.text(st.sampled_from("ab"), max_size=4))
def test_what_both_syntaxes_have_means_the_same(regex: str, topic: str) -> None:
    try:
        ours = matching(regex, [topic])
        with warnings.catch_warnings():
            # Python may read "[[" otherwise one day.
            warnings.simplefilter("ignore", FutureWarning)
            theirs = re.compile(regex)
    except (InvalidRegularExpressionError, re.error):
        return
    assert ours == ({topic} if theirs.fullmatch(topic) else set())
