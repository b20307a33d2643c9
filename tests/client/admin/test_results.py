"""What a call about several things returns: in the caller's order, with the failed ones beside the others."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.admin.results import Results, in_order
from ottla.errors import KafkaError
from ottla.wire.resources import ConfigSource


def test_results_are_in_the_order_of_the_call_and_what_it_did_not_name_comes_last() -> None:
    refused = KafkaError("refused")
    results = in_order(["c", "a", "b"], {"x": 0, "a": 1, "c": 3}, {"b": refused})
    assert list(results.items()) == [("c", 3), ("a", 1), ("x", 0)]
    assert results.errors == {"b": refused}


def test_the_first_error_is_raised_with_a_note_for_each_other_one() -> None:
    first = KafkaError("first")
    results: Results[str, int] = Results({}, {"a": first, "b": first, "c": KafkaError("third")})
    with pytest.raises(KafkaError, match="first") as raised:
        results.checked("raise")
    assert raised.value.__notes__ == ["c failed too: third"]
    assert results.checked("collect") is results


def test_errors_are_raised_or_collected_and_nothing_else() -> None:
    ignore: Any = "ignore"
    with pytest.raises(ValueError, match='"raise" or "collect"'):
        Results({}, {}).checked(ignore)


def test_a_source_of_configs_that_is_not_known_yet_is_unknown() -> None:
    assert ConfigSource(5) is ConfigSource.DEFAULT
    assert ConfigSource(99) is ConfigSource.UNKNOWN
