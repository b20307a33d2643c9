"""Bootstrap servers: what is an address, and what the error says of anything else."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.addresses import Address, parse_servers
from ottla.config.errors import InvalidValueError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost:9092", "localhost", 9092),
        ("  kafka-1.example.com:1 ", "kafka-1.example.com", 1),
        ("some_service:65535", "some_service", 65535),
        ("127.0.0.1:09092", "127.0.0.1", 9092),
        ("[::1]:9092", "::1", 9092),
        ("[fe80::1%eth0]:9092", "fe80::1%eth0", 9092),
        ("plaintext://[2001:db8::7]:9092", "2001:db8::7", 9092),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert parse_servers(text) == (Address(host, port),)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "no server is named"),
        (" , ", "no server is named"),
        ("a:1,", "there is nothing before or after a comma"),
        ("a:1,,b:2", "there is nothing before or after a comma"),
        ("a:1;b:2", "in 'a:1;b:2' there is no comma between servers: write host:9092,other:9092"),
        ("kafka", "'kafka' has no port: write kafka:9092"),
        ("kafka:", "'kafka:' has no port after the colon"),
        (":9092", "':9092' has no host"),
        (
            "::1:9092",
            "'::1:9092' has more than one colon: an IPv6 address is written in brackets, [::1]:9092",
        ),
        ("[::1]", "'[::1]' has no port: write [::1]:9092"),
        ("[::1]9092", "'[::1]9092' has no port: write [::1]:9092"),
        ("[::1:9092", "'[::1:9092' has no closing bracket"),
        ("[kafka]:9092", "'[kafka]:9092' is no IPv6 address in brackets: "),
        ("[]:9092", "'[]:9092' is no IPv6 address in brackets: "),
        ("kafka:0", "the port of 'kafka:0' is no number from 1 to 65535"),
        ("kafka:65536", "the port of 'kafka:65536' is no number from 1 to 65535"),
        ("kafka:-1", "the port of 'kafka:-1' is no number from 1 to 65535"),
        ("kafka:port", "the port of 'kafka:port' is no number from 1 to 65535"),
        ("kafka:\N{ARABIC-INDIC DIGIT NINE}", "is no number from 1 to 65535"),
        ("ka fka:9092", "'ka fka:9092' has characters that no host name has"),
        ("user@kafka:9092", "'user@kafka:9092' has characters that no host name has"),
        ("SSL://kafka:9093", "'SSL://kafka:9093' begins with a scheme: leave it out"),
        ("a:1,b:2,a:1", "a:1 is named twice"),
    ],
)
def test_anything_else_is_refused_with_what_is_wrong(text: str, wrong: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse_servers(text)
    assert wrong in str(caught.value)


def test_a_list_is_refused_for_the_entry_that_is_wrong() -> None:
    with pytest.raises(InvalidValueError, match="'b' has no port"):
        parse_servers(["a:1", "b"])
    with pytest.raises(InvalidValueError, match="no server is named"):
        parse_servers([])


@given(
    st.lists(
        st.builds(
            Address,
            st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)
            | st.ip_addresses().map(str),
            st.integers(1, 65535),
        ),
        min_size=1,
        max_size=5,
        unique=True,
    )
)
def test_what_an_address_is_written_as_is_read_as_that_address(addresses: list[Address]) -> None:
    assert parse_servers(",".join(map(str, addresses))) == tuple(addresses)
    assert parse_servers(list(map(str, addresses))) == tuple(addresses)


@given(st.text(max_size=30))
def test_no_text_breaks_the_parser(text: str) -> None:
    with suppress(InvalidValueError):
        addresses = parse_servers(text)
        assert parse_servers(",".join(map(str, addresses))) == addresses
