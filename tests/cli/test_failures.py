"""Errors in one line."""

from __future__ import annotations

from ottla.cli.failures import sentence, unknown_topic
from ottla.errors import ApiTimeoutError, ConfigurationError, KafkaError, NoBrokersError


def test_an_error_and_its_notes_are_one_line() -> None:
    error = ConfigurationError("linger.ms is x:\nexpected a number")
    error.add_note("in client.properties, line 3")
    assert sentence(error) == "linger.ms is x: expected a number; in client.properties, line 3"


def test_a_timeout_is_told_by_the_brokers_that_could_not_be_reached() -> None:
    error = ApiTimeoutError("listing topics took longer than 10 s")
    error.__cause__ = NoBrokersError("none of localhost:1 could be reached: refused")
    assert sentence(error) == "none of localhost:1 could be reached: refused"


def test_a_file_is_named() -> None:
    assert (
        sentence(FileNotFoundError(2, "No such file or directory", "x.txt"))
        == "x.txt: No such file or directory"
    )


def test_an_error_without_words_has_its_name() -> None:
    assert sentence(KafkaError()) == "KafkaError"


def test_a_misspelt_topic_is_answered_with_the_closest() -> None:
    assert (
        str(unknown_topic("order", ["orders", "payments"])) == "there is no topic order: did you mean orders?"
    )


def test_a_topic_like_no_other_is_answered_with_how_to_see_them() -> None:
    assert "`ottla topic list`" in str(unknown_topic("zzz", ["orders"]))
    assert "`ottla topic create zzz`" in str(unknown_topic("zzz", []))
