"""The keyword arguments that type checkers know are the options that there are."""

from __future__ import annotations

import dataclasses

from ottla.config import ClientConfig, ClientOptions


def test_the_keywords_are_the_options_with_their_types() -> None:
    fields = {
        field.name: str(field.type)
        for field in dataclasses.fields(ClientConfig)
        if field.init and field.name != "bootstrap_servers"
    }
    keywords = {name: each.__forward_arg__ for name, each in ClientOptions.__annotations__.items()}
    assert keywords == fields
