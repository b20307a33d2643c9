"""Names that are no option: every kind of them gets the answer that helps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config import NOT_SUPPORTED_YET, ClientConfig
from ottla.config.names import JAVA_ONLY, no_option
from ottla.errors import ConfigurationError

OPTIONS = {option.name: option for option in ClientConfig.describe()}


def keyword(name: str) -> str:
    return str(no_option(name, OPTIONS, dotted=False))


def dotted(name: str) -> str:
    return str(no_option(name, OPTIONS, dotted=True))


@pytest.mark.parametrize("name", NOT_SUPPORTED_YET)
def test_what_comes_later_is_not_called_unknown(name: str) -> None:
    expected = f"belongs to {NOT_SUPPORTED_YET[name]}, not supported yet: leave it out"
    assert dotted(name) == f"{name} {expected}"
    assert keyword(name.replace(".", "_")) == f"{name.replace('.', '_')} {expected}"


@pytest.mark.parametrize(
    ("name", "what"),
    [("ssl.keystore.location", "TLS"), ("sasl.mechanism", "SASL"), ("sasl.jaas.config", "SASL")],
)
def test_security_comes_later_whatever_its_name(name: str, what: str) -> None:
    assert dotted(name) == f"{name} belongs to {what}, not supported yet: leave it out"


@pytest.mark.parametrize("name", JAVA_ONLY)
def test_what_is_javas_comes_with_advice(name: str) -> None:
    assert dotted(name) == f"{name} is no option: {JAVA_ONLY[name].advice}"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("lingr_ms", "linger_ms"),
        ("lingerMs", "linger_ms"),
        ("bootstrap_server", "bootstrap_servers"),
        ("max_in_flight_requests", "max_in_flight_requests_per_connection"),
        ("fetch_max_wait", "fetch_max_wait_ms"),
        ("groupid", "group_id"),
        ("COMPRESSION_TYPE", "compression_type"),
    ],
)
def test_the_closest_name_is_offered(written: str, meant: str) -> None:
    assert keyword(written) == f"there is no option {written}: did you mean {meant}?"
    assert dotted(written).endswith(f"did you mean {meant.replace('_', '.')}?")


def test_a_name_like_no_other_gets_no_guess() -> None:
    assert keyword("zzz") == "there is no option zzz: ClientConfig.describe() lists them all"


def test_a_name_in_the_other_style_is_recognized() -> None:
    assert keyword("linger.ms") == (
        "linger.ms is not how it is written: as a keyword it has no dots, so write linger_ms"
    )
    assert dotted("linger_ms") == (
        "linger_ms is not how it is written: Kafka's dotted names stand here, so write linger.ms"
    )


def test_names_of_other_clients_are_translated() -> None:
    assert (
        dotted("queue.buffering.max.ms") == "queue.buffering.max.ms is another client's name: write linger.ms"
    )
    assert (
        keyword("compression_codec") == "compression_codec is another client's name: write compression_type"
    )


def test_no_name_is_two_things() -> None:
    options = {option.dotted for option in OPTIONS.values()}
    assert not options & NOT_SUPPORTED_YET.keys()
    assert not options & JAVA_ONLY.keys()
    assert not JAVA_ONLY.keys() & NOT_SUPPORTED_YET.keys()


@given(st.text(max_size=40))
def test_every_other_name_is_answered(name: str) -> None:
    error = no_option(name, OPTIONS, dotted=True)
    assert isinstance(error, ConfigurationError)
    assert error.option == name
