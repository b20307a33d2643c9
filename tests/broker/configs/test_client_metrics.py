"""Subscriptions to clients' metrics; what one may say is in test_recorded.py."""

from __future__ import annotations

from ottla.broker.configs.client_metrics import parse_matches


def test_matches_are_regular_expressions_by_what_they_look_at() -> None:
    matches = parse_matches(("client_id=app-.*", " client_software_name = java "))
    assert list(matches) == ["client_id", "client_software_name"]
    assert matches["client_id"].fullmatch("app-7")
    assert matches["client_software_name"].pattern == "java"
