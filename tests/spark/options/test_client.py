"""The options that begin with kafka.: what is passed on, what has no use, what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from ottla.config import ClientConfig
from ottla.spark.options.client import (
    Credentials,
    credentials,
    partitioner,
    sink_config,
    source_config,
    transactional_config,
)
from ottla.spark.options.parsing import OptionError

SERVERS = {"bootstrap.servers": "localhost:9092"}
JAAS = 'kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="s3cret";'

Config = Callable[[Mapping[str, str]], ClientConfig]
either_side = pytest.mark.parametrize("config", [source_config, sink_config])


def test_what_a_client_knows_is_passed_on_and_beats_our_defaults() -> None:
    given = {
        **SERVERS,
        "max.partition.fetch.bytes": "5",
        "isolation.level": "read_committed",
        "client.id": "me",
    }
    config = source_config(given)
    assert (config.max_partition_fetch_bytes, config.isolation_level) == (5, "read_committed")
    assert config.client_id == "me"
    assert sink_config({**SERVERS, "linger.ms": "7", "acks": "1"}).linger_ms == 7


def test_reading_creates_no_topics() -> None:
    assert not source_config(SERVERS).allow_auto_create_topics
    assert source_config({**SERVERS, "allow.auto.create.topics": "true"}).allow_auto_create_topics


def test_a_configuration_is_made_once_whatever_the_order_of_its_options() -> None:
    forward, backward = {**SERVERS, "client.id": "a"}, {"client.id": "a", **SERVERS}
    assert source_config(forward) is source_config(backward)


@pytest.mark.parametrize(
    ("config", "name", "advice"),
    [
        (source_config, "auto.offset.reset", "set the source option 'startingOffsets'"),
        (source_config, "key.deserializer", "keys are deserialized as byte arrays"),
        (source_config, "value.deserializer", "values are deserialized as byte arrays"),
        (source_config, "enable.auto.commit", "leave it out"),
        (source_config, "interceptor.classes", "leave it out"),
        (source_config, "config.providers", "put the values themselves"),
        (sink_config, "key.serializer", "keys are serialized as byte arrays"),
        (sink_config, "value.serializer", "values are serialized as byte arrays"),
        (sink_config, "interceptor.classes", "leave it out"),
        (sink_config, "transactional.id", "leave it out"),
        (sink_config, "security.providers", "leave it out"),
    ],
)
def test_what_the_connector_sees_to_itself_is_refused_with_advice(
    config: Config, name: str, advice: str
) -> None:
    with pytest.raises(OptionError, match=f"Kafka option '{name}' is not supported: .*{advice}"):
        config({**SERVERS, name: "x"})


@either_side
@pytest.mark.parametrize(
    "name", ["group.id", "session.timeout.ms", "max.poll.interval.ms", "metric.reporters"]
)
def test_what_java_knows_and_has_no_use_here_is_taken_without_a_word(
    config: Config, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert config({**SERVERS, name: "x"}) == config(SERVERS)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (source_config, "acks"),
        (source_config, "compression.type"),
        (source_config, "key.serializer"),
        (source_config, "partitioner.class"),
        (source_config, "transactional.id"),
        (sink_config, "isolation.level"),
        (sink_config, "auto.offset.reset"),
        (sink_config, "enable.auto.commit"),
        (sink_config, "max.poll.records"),
    ],
)
def test_what_only_the_other_side_has_is_not_even_read(
    config: Config, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert config({**SERVERS, name: "bogus"}) == config(SERVERS)
    assert caplog.records == []


@either_side
def test_an_unknown_name_is_logged_with_what_may_be_meant(
    config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"request.timeout.{config.__name__}"
    assert config({**SERVERS, name: "5"}) == config(SERVERS)
    assert f"option kafka.{name} has no effect: did you mean kafka.request.timeout.ms?" in caplog.text


@either_side
def test_a_value_that_fits_no_option_of_the_client_is_refused_under_kafkas_name(config: Config) -> None:
    with pytest.raises(OptionError, match=r"option 'kafka\.request\.timeout\.ms'.*whole number"):
        config({**SERVERS, "request.timeout.ms": "x"})
    with pytest.raises(OptionError, match=r"option 'kafka\.bootstrap\.servers'.*write nohost:9092"):
        config({"bootstrap.servers": "nohost"})


@either_side
@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "sasl_ssl"])
def test_a_protocol_that_the_client_lacks_is_refused_and_not_ignored(config: Config, protocol: str) -> None:
    with pytest.raises(
        OptionError, match=r"option 'kafka\.security\.protocol'.*not supported yet"
    ) as refusal:
        config(
            {
                **SERVERS,
                "security.protocol": protocol,
                "sasl.jaas.config": JAAS,
                "ssl.truststore.location": "/x",
            }
        )
    assert "s3cret" not in str(refusal.value)


@either_side
def test_a_login_that_cannot_be_read_is_refused(config: Config) -> None:
    with pytest.raises(OptionError, match=r"kafka\.sasl\.jaas\.config' cannot be read"):
        config({**SERVERS, "security.protocol": "SASL_SSL", "sasl.jaas.config": "x"})


@either_side
def test_plain_text_is_a_protocol_in_any_case_and_makes_logins_idle(
    config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"sasl.{config.__name__}"
    assert config({**SERVERS, "security.protocol": " plaintext", name: "x"}) == config(SERVERS)
    assert f"option kafka.{name} has no effect: kafka.security.protocol is PLAINTEXT" in caplog.text


@either_side
@pytest.mark.parametrize("patience", ["1", "400", "500", "501"])
def test_a_short_request_timeout_does_not_disagree_with_a_default(config: Config, patience: str) -> None:
    made = config({**SERVERS, "request.timeout.ms": patience})
    assert made.request_timeout_ms == int(patience)
    assert made.fetch_max_wait_ms < int(patience)


@either_side
@pytest.mark.parametrize("patience", ["", "soon", "-1", "1.5", "9" * 30])
def test_a_request_timeout_that_is_none_is_what_the_refusal_is_about(config: Config, patience: str) -> None:
    with pytest.raises(OptionError, match=r"kafka\.request\.timeout\.ms"):
        config({**SERVERS, "request.timeout.ms": patience})


def test_a_source_waits_as_long_as_its_option_says() -> None:
    short = {**SERVERS, "request.timeout.ms": "400"}
    assert source_config({**short, "fetch.max.wait.ms": "300"}).fetch_max_wait_ms == 300
    assert source_config(SERVERS).fetch_max_wait_ms == 500
    with pytest.raises(OptionError, match=r"kafka\.fetch\.max\.wait\.ms"):
        source_config({**short, "fetch.max.wait.ms": "450"})
    assert sink_config({**short, "fetch.max.wait.ms": "450"}).request_timeout_ms == 400


# kafka.partitioner.class


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("org.apache.kafka.clients.producer.RoundRobinPartitioner", "round_robin"),
        ("org.apache.kafka.clients.producer.internals.DefaultPartitioner", "default"),
        ("round_robin", "round_robin"),
        ("least_backup", "least_backup"),
        ("", "default"),
    ],
)
def test_names_stand_for_partitioners(given: str, name: str) -> None:
    assert partitioner({"partitioner.class": given}) == name


def test_without_the_option_it_is_the_default() -> None:
    assert partitioner({}) == "default"


@pytest.mark.parametrize("given", ["com.example.MyPartitioner", "consistent_random"])
def test_what_cannot_be_done_by_columns_is_refused_with_what_can(given: str) -> None:
    with pytest.raises(OptionError, match=rf"{given}.*round_robin.*column 'partition'"):
        partitioner({"partitioner.class": given})


# kafka.sasl.jaas.config

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


def test_a_sink_that_writes_exactly_once_has_an_idempotent_producer_and_its_own_name() -> None:
    config = transactional_config({**SERVERS, "transaction.timeout.ms": "5000", "acks": "-1"}, "copies")
    assert (config.transactional_id, config.transaction_timeout_ms) == ("copies", 5000)
    assert config.enable_idempotence


@pytest.mark.parametrize(("name", "text"), [("acks", "1"), ("acks", "0"), ("enable.idempotence", "false")])
def test_what_transactions_cannot_do_without_is_refused_with_the_way_out(name: str, text: str) -> None:
    with pytest.raises(
        OptionError, match=f"'kafka.{name}' cannot be '{text}'.*ottla.delivery to at-least-once"
    ):
        transactional_config({**SERVERS, name: text})


def test_transactions_of_the_user_are_refused_in_either_delivery() -> None:
    for config in (sink_config, transactional_config):
        with pytest.raises(OptionError, match=r"'transactional\.id' is not supported.*ottla\.sink\.id"):
            config({**SERVERS, "transactional.id": "mine"})
