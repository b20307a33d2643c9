"""kafka.sasl.jaas.config: who it says the client is."""

from __future__ import annotations

import pytest

from ottla.spark.jaas import Credentials, credentials
from ottla.spark.option_values import OptionError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    "text",
    [
        f'{PLAIN} required username="alice" password="s3cret";',
        f'kafkashaded.{PLAIN} required username="alice" password="s3cret";',
        'org.apache.kafka.common.security.scram.ScramLoginModule required\n  username=alice\n  password="s3cret" ;\n',
        f'{PLAIN} REQUIRED user_bob="x" password="s3cret" serviceName="kafka" username = "alice"',
    ],
)
def test_user_and_password_are_found_whatever_the_package(text: str) -> None:
    assert credentials(text) == Credentials("alice", "s3cret")


def test_quoted_signs_belong_to_the_password() -> None:
    assert credentials(rf'{PLAIN} required username="a;b" password="x\"y\\z=";').password == 'x"y\\z='


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("s3cret", "cannot be read"),
        (f'{PLAIN} required username="alice" password="s3cret', "cannot be read"),
        (f'{PLAIN} required username="alice" password2="s3cret";', "lacks password"),
        (
            'com.sun.security.auth.module.Krb5LoginModule required keyTab="s3cret";',
            "Krb5LoginModule, which only a JVM",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_without_telling_the_secret(text: str, why: str) -> None:
    with pytest.raises(OptionError, match=why) as refusal:
        credentials(text)
    assert "s3cret" not in str(refusal.value)
