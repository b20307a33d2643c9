"""ClientConfig: its defaults against Kafka's, what it refuses and how it says so, and what survives a change.

The table holds facts of Kafka 4.3's producer and consumer (name, default, least, most), so that the options are
checked against something that was not written together with them. `-` stands for no bound, `*` for a default
that is Ottla's own.
"""

from __future__ import annotations

import copy
import dataclasses
import doctest
import pickle
import re
from typing import Any

import pytest

import ottla.config.client
from ottla.config import Address, ClientConfig
from ottla.config.rules import reset_duration_ms
from ottla.errors import ConfigurationError, KafkaError

INT = 2**31 - 1
LONG = 2**63 - 1
KAFKA_4_3 = f"""
acks all
allow.auto.create.topics true
auto.commit.interval.ms 5000 0 {INT}
auto.offset.reset latest
batch.size * 0 {INT}
buffer.memory 33554432 0 {LONG}
check.crcs true
client.dns.lookup use_all_dns_ips
client.id *
client.rack
compression.gzip.level -1 -1 9
compression.lz4.level 9 1 17
compression.type none
compression.zstd.level 3 -131072 22
connections.max.idle.ms 540000 -1 {LONG}
default.api.timeout.ms 60000 0 {INT}
delivery.timeout.ms 120000 0 {INT}
enable.auto.commit true
enable.idempotence true
enable.metrics.push true
exclude.internal.topics true
fetch.max.bytes 52428800 0 {INT}
fetch.max.wait.ms 500 0 {INT}
fetch.min.bytes 1 0 {INT}
group.id
group.instance.id
group.protocol classic
group.remote.assignor
heartbeat.interval.ms 3000
isolation.level read_uncommitted
linger.ms * 0 {LONG}
max.block.ms 60000 0 {LONG}
max.in.flight.requests.per.connection 5 1 {INT}
max.partition.fetch.bytes 1048576 0 {INT}
max.poll.interval.ms 300000 1 {INT}
max.poll.records 500 1 {INT}
max.request.size 1048576 0 {INT}
metadata.max.age.ms 300000 0 {LONG}
metadata.max.idle.ms 300000 5000 {LONG}
metadata.recovery.rebootstrap.trigger.ms 300000 0 {LONG}
metadata.recovery.strategy rebootstrap
partition.assignment.strategy *
partitioner.adaptive.partitioning.enable true
partitioner.availability.timeout.ms 0 0 {LONG}
partitioner.ignore.keys false
receive.buffer.bytes * -1 {INT}
reconnect.backoff.max.ms 1000 0 {LONG}
reconnect.backoff.ms 50 0 {LONG}
request.timeout.ms 30000 0 {INT}
retries 2147483647 0 {INT}
retry.backoff.max.ms 1000 0 {LONG}
retry.backoff.ms 100 0 {LONG}
security.protocol PLAINTEXT
send.buffer.bytes * -1 {INT}
session.timeout.ms 45000
socket.connection.setup.timeout.max.ms 30000 - -
socket.connection.setup.timeout.ms 10000 - -
transaction.timeout.ms 60000
transactional.id
"""

ROWS = [line.split(" ") for line in KAFKA_4_3.strip().splitlines()]
RANGES = [
    (row[0].replace(".", "_"), int(row[2]), int(row[3])) for row in ROWS if len(row) == 4 and row[2] != "-"
]
OPTIONS = {option.name: option for option in ClientConfig.describe()}


def made(**options: Any) -> ClientConfig:
    return ClientConfig(**{"bootstrap_servers": "localhost:9092", **options})


def refusal(**options: Any) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        made(**options)
    return caught.value


def test_every_option_is_one_of_kafkas_or_declared_as_ours() -> None:
    kafkas = {row[0] for row in ROWS} | {"bootstrap.servers"}
    assert {option.kafka_name for option in OPTIONS.values()} == kafkas | {None}
    assert [option.name for option in OPTIONS.values() if option.kafka_name is None] == [
        "metadata_min_age_ms",
        "max_buffered_records",
        "auto_commit_marks",
        "block_rebalance_on_poll",
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_default_is_kafkas_unless_it_is_declared_as_ours(row: list[str]) -> None:
    option = OPTIONS[row[0].replace(".", "_")]
    default = row[1] if len(row) > 1 else ""
    if default != "*":
        shown = str(option.default).lower() if isinstance(option.default, bool) else str(option.default)
        assert shown == default


def test_our_own_defaults() -> None:
    config = made()
    assert (config.linger_ms, config.batch_size, config.client_id) == (10, 1_000_000, "ottla")
    assert config.metadata_min_age_ms == 5_000
    assert (config.send_buffer_bytes, config.receive_buffer_bytes) == (-1, -1)


@pytest.mark.parametrize(("option", "least", "most"), RANGES, ids=lambda each: str(each))
def test_a_number_has_kafkas_range(option: str, least: int, most: int) -> None:
    # By itself: at the ends of their ranges some agree with no other option as it is by default.
    assert OPTIONS[option].check(least) == least
    assert OPTIONS[option].check(most) == most
    for beyond in (least - 1, most + 1):
        error = refusal(**{option: beyond})
        assert (error.option, error.value) == (option, beyond)


def test_the_levels_of_gzip_leave_out_zero() -> None:
    assert made(compression_gzip_level=1).compression_gzip_level == 1
    assert "from 1 to 9, or -1" in str(refusal(compression_gzip_level=0))


@pytest.mark.parametrize(
    "name", [name for name, option in OPTIONS.items() if isinstance(option.default, bool)]
)
@pytest.mark.parametrize("value", [0, 1, "yes", "true", None])
def test_a_flag_is_true_or_false_and_nothing_like_it(name: str, value: object) -> None:
    assert refusal(**{name: value}).allowed == "True or False"


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if type(option.default) is int])
@pytest.mark.parametrize("value", [True, False, "10", "ten", 1.5, 10.0, None, b"10"])
def test_a_number_is_an_int_and_nothing_like_it(name: str, value: object) -> None:
    assert refusal(**{name: value}).option == name


@pytest.mark.parametrize(
    "name", ["client_id", "client_rack", "auto_offset_reset", "compression_type", "isolation_level"]
)
@pytest.mark.parametrize("value", [None, 1, True, b"none"])
def test_a_text_is_a_str_and_nothing_like_it(name: str, value: object) -> None:
    assert refusal(**{name: value}).option == name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"linger_ms": "10"},
            "linger_ms cannot be '10': it takes a whole number of at least 0; write 10, without the quotes. "
            "Kafka calls it linger.ms.",
        ),
        (
            {"linger_ms": True},
            "linger_ms cannot be True: it takes a whole number of at least 0; True is no number. "
            "Kafka calls it linger.ms.",
        ),
        (
            {"check_crcs": "False"},
            "check_crcs cannot be 'False': it takes True or False; write False, without the quotes. "
            "Kafka calls it check.crcs.",
        ),
        (
            {"compression_lz4_level": 18},
            "compression_lz4_level cannot be 18: it takes a whole number from 1 to 17; 17 is the most. "
            "Kafka calls it compression.lz4.level.",
        ),
        (
            {"compression_type": "LZ4"},
            "compression_type cannot be 'LZ4': it takes 'none', 'gzip', 'snappy', 'lz4' or 'zstd'; write 'lz4'. "
            "Kafka calls it compression.type.",
        ),
        ({"acks": "1"}, "acks cannot be '1': it takes 'all', 1 or 0; write 1, without the quotes."),
        (
            {"metadata_min_age_ms": -1},
            "metadata_min_age_ms cannot be -1: it takes a whole number of at least 0.",
        ),
    ],
)
def test_an_error_says_what_was_given_what_is_taken_and_kafkas_name(
    options: dict[str, Any], message: str
) -> None:
    assert str(refusal(**options)) == message


def test_an_error_carries_its_parts_and_is_a_value_error_of_ours() -> None:
    error = refusal(max_poll_records=0)
    assert isinstance(error, KafkaError)
    assert isinstance(error, ValueError)
    assert (error.option, error.value, error.kafka_name) == ("max_poll_records", 0, "max.poll.records")
    assert error.allowed == "a whole number of at least 1"


def test_an_error_survives_being_copied() -> None:
    error = refusal(linger_ms=-1)
    for twin in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert (str(twin), vars(twin)) == (str(error), vars(error))


@pytest.mark.parametrize(("given", "kept"), [("all", "all"), (-1, "all"), (1, 1), (0, 0)])
def test_acks_are_kept_in_one_form(given: Any, kept: object) -> None:
    assert made(acks=given, enable_idempotence=False).acks == kept


@pytest.mark.parametrize("value", [True, False, 2, -2, "ALL", "one", None, 1.0])
def test_other_acks_are_refused(value: object) -> None:
    assert refusal(acks=value, enable_idempotence=False).option == "acks"


@pytest.mark.parametrize("protocol", ["SSL", "sasl_ssl", "SASL_PLAINTEXT"])
def test_security_is_not_supported_yet_and_says_so(protocol: str) -> None:
    assert f"{protocol.upper()} is not supported yet" in str(refusal(security_protocol=protocol))


def test_a_security_protocol_that_kafka_does_not_have_is_not_promised() -> None:
    assert "yet" not in str(refusal(security_protocol="TLS"))


def test_words_that_kafka_takes_in_any_case_are_kept_in_one() -> None:
    config = made(security_protocol="plaintext", metadata_recovery_strategy="NONE")
    assert (config.security_protocol, config.metadata_recovery_strategy) == ("PLAINTEXT", "none")


@pytest.mark.parametrize(
    ("reset", "milliseconds"),
    [
        ("earliest", None),
        ("latest", None),
        ("none", None),
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:P7D", 604_800_000),
        ("by_duration:P1DT2H3M4.5S", 93_784_500),
        ("by_duration:pt0.0019s", 1),
        ("by_duration:PT0S", 0),
        ("by_duration:PT1.S", 1_000),
    ],
)
def test_reading_begins_at_an_end_or_some_time_ago(reset: str, milliseconds: int | None) -> None:
    assert reset_duration_ms(made(auto_offset_reset=reset).auto_offset_reset) == milliseconds


@pytest.mark.parametrize(
    "reset",
    [
        "",
        "Latest",
        "by_duration",
        "by_duration:",
        "by_duration:P",
        "by_duration:PT",
        "by_duration:P1DT",
        "by_duration:1H",
        "by_duration:PT-1H",
        "by_duration:-PT1H",
        "by_duration:P1W",
        "by_duration:P1Y",
        "by_duration:PT1H ",
        "by_duration:PT9223372036854775807H",
        f"by_duration:PT{'9' * 5000}S",
        "BY_DURATION:PT1H",
    ],
)
def test_other_resets_are_refused(reset: str) -> None:
    assert "'by_duration:PnDTnHnMn.nS'" in str(refusal(auto_offset_reset=reset))


def test_a_number_of_thousands_of_digits_is_refused_like_any_other() -> None:
    assert refusal(linger_ms="9" * 5000).option == "linger_ms"


@pytest.mark.parametrize(
    "servers", ["a:1,b:2", "a:1 , b:2", ["a:1", "b:2"], ("a:1", "b:2"), ["a:1,b:2"], "PLAINTEXT://a:1,b:2"]
)
def test_servers_are_kept_in_one_form(servers: Any) -> None:
    config = made(bootstrap_servers=servers)
    assert config.bootstrap_servers == ("a:1", "b:2")
    assert config.addresses == (Address("a", 1), Address("b", 2))


@pytest.mark.parametrize("servers", [None, 9092, b"a:1", [b"a:1"], [("a", 1)], {"a:1"}, iter(["a:1"])])
def test_servers_that_are_no_texts_in_order_are_refused(servers: object) -> None:
    assert refusal(bootstrap_servers=servers).kafka_name == "bootstrap.servers"


def test_servers_have_to_be_given() -> None:
    with pytest.raises(TypeError, match="bootstrap_servers"):
        ClientConfig()  # type: ignore[call-arg]


def test_a_misspelt_keyword_is_answered_with_the_closest_option() -> None:
    assert str(refusal(lingr_ms=5)) == "there is no option lingr_ms: did you mean linger_ms?"


def test_what_is_derived_is_no_option() -> None:
    assert refusal(addresses=()).option == "addresses"
    with pytest.raises(ConfigurationError, match="no option addresses"):
        made().replace(addresses=())


def test_a_config_is_frozen_and_has_no_room_for_more() -> None:
    config = made()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.linger_ms = 5  # type: ignore[misc]
    assert not hasattr(config, "__dict__")


def test_replacing_makes_a_new_config_that_is_checked_again() -> None:
    config = made(linger_ms=5)
    changed = config.replace(acks=1, enable_idempotence=False)
    assert (changed.linger_ms, changed.acks, config.acks) == (5, 1, "all")
    assert config.replace() == config
    assert config.replace(bootstrap_servers="b:2").addresses == (Address("b", 2),)
    with pytest.raises(ConfigurationError, match="acks cannot be 1"):
        config.replace(acks=1)
    with pytest.raises(ConfigurationError, match="did you mean linger_ms"):
        config.replace(lingerms=1)


def test_equal_options_make_equal_configs() -> None:
    assert made(acks=-1) == made()
    assert len({made(acks=-1), made(), made(linger_ms=5)}) == 2


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda config: pickle.loads(pickle.dumps(config))]
)
def test_a_config_survives_being_copied(copied: Any) -> None:
    config = made(linger_ms=5)
    twin = copied(config)
    assert twin == config
    assert twin.addresses == config.addresses


def test_the_repr_shows_what_is_not_default_and_can_be_evaluated() -> None:
    config = made(linger_ms=5, check_crcs=False)
    shown = "ClientConfig(bootstrap_servers=('localhost:9092',), linger_ms=5, check_crcs=False)"
    assert repr(config) == shown
    assert eval(shown) == config


def test_a_batch_is_no_larger_than_a_request() -> None:
    assert made().max_batch_bytes == 1_000_000
    assert made(max_request_size=500_000).max_batch_bytes == 500_000


def test_every_option_is_described_in_one_sentence() -> None:
    assert list(OPTIONS) == [field.name for field in dataclasses.fields(ClientConfig) if field.init]
    for option in OPTIONS.values():
        assert re.fullmatch(r"[A-Z][^\n]+[a-z0-9]\.", option.doc), option.name
        assert ". " not in option.doc, option.name
        assert option.allowed
    assert OPTIONS["bootstrap_servers"].default is None


def test_the_examples_are_true() -> None:
    assert doctest.testmod(ottla.config.client).failed == 0
