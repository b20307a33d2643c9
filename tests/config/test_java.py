"""Settings of a Java client: what they become, what is left out with a warning, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.config import ClientConfig
from ottla.errors import ConfigurationError


def read(properties: Mapping[str, object]) -> ClientConfig:
    return ClientConfig.from_properties({"bootstrap.servers": "a:1", **properties})


def refusal(properties: Mapping[str, object]) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        read(properties)
    return caught.value


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert all(record.name == "ottla.config" for record in caplog.records)
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize(
    ("name", "value", "option", "expected"),
    [
        ("linger.ms", "5", "linger_ms", 5),
        ("linger.ms", " +5 ", "linger_ms", 5),
        ("linger.ms", 5, "linger_ms", 5),
        ("send.buffer.bytes", "-1", "send_buffer_bytes", -1),
        ("check.crcs", "false", "check_crcs", False),
        ("check.crcs", " TRUE ", "check_crcs", True),
        ("check.crcs", False, "check_crcs", False),
        ("acks", "-1", "acks", "all"),
        ("acks", "ALL", "acks", "all"),
        ("acks", "all", "acks", "all"),
        ("compression.type", "zstd ", "compression_type", "zstd"),
        ("metadata.recovery.strategy", "NONE", "metadata_recovery_strategy", "none"),
        ("auto.offset.reset", "by_duration:PT1H", "auto_offset_reset", "by_duration:PT1H"),
        ("client.id", " as it is ", "client_id", " as it is "),
        ("bootstrap.servers", "b:2, c:3", "bootstrap_servers", ("b:2", "c:3")),
        ("bootstrap.servers", ["b:2", "c:3"], "bootstrap_servers", ("b:2", "c:3")),
        ("metadata.min.age.ms", "100", "metadata_min_age_ms", 100),
    ],
)
def test_a_dotted_name_sets_its_option(
    name: str, value: object, option: str, expected: object, caplog: pytest.LogCaptureFixture
) -> None:
    assert getattr(read({name: value}), option) == expected
    assert warnings(caplog) == []


def test_every_option_can_be_written_as_text() -> None:
    texts = {
        option.dotted: str(option.default).lower()
        if isinstance(option.default, bool)
        else ",".join(option.default)
        if isinstance(option.default, tuple)
        else str(option.default)
        for option in ClientConfig.describe()
        if option.default is not None
    }
    assert read(texts) == ClientConfig(bootstrap_servers="a:1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("linger.ms", "five"),
        ("linger.ms", ""),
        ("linger.ms", "5.0"),
        ("linger.ms", "5_000"),
        ("linger.ms", "-1"),
        ("linger.ms", "9" * 5000),
        ("linger.ms", None),
        ("linger.ms", True),
        ("check.crcs", "yes"),
        ("check.crcs", "1"),
        ("acks", "2"),
        ("acks", "some"),
        ("compression.type", "ZSTD"),
        ("isolation.level", ""),
        ("security.protocol", "SASL_SSL"),
        ("bootstrap.servers", "a"),
        ("client.id", 5),
    ],
)
def test_a_value_that_the_option_cannot_have_is_refused(name: str, value: object) -> None:
    error = refusal({name: value})
    assert (error.option, error.kafka_name, error.value) == (name.replace(".", "_"), name, value)


def test_servers_have_to_be_given() -> None:
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers is missing"):
        ClientConfig.from_properties({"linger.ms": "5"})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lingr.ms", "there is no option lingr.ms: did you mean linger.ms?"),
        ("linger_ms", "Kafka's dotted names stand here, so write linger.ms"),
        (
            "transaction.two.phase.commit.enable",
            "two-phase commit by brokers (KIP-939), not supported yet",
        ),
        ("ssl.truststore.location", "belongs to TLS, not supported yet"),
    ],
)
def test_a_name_that_is_no_option_is_refused(name: str, message: str) -> None:
    assert message in str(refusal({name: "x"}))


def test_a_secret_is_not_repeated_in_an_error() -> None:
    error = refusal({"sasl.jaas.config": "password='hunter2'"})
    assert "hunter2" not in f"{error} {vars(error)}"


def test_what_python_does_without_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    string = "org.apache.kafka.common.serialization.StringSerializer"
    config = read({"key.serializer": string, "metrics.num.samples": "2", "linger.ms": "5"})
    assert config.linger_ms == 5
    assert warnings(caplog) == [
        "key.serializer is left out: serializers are Python objects: give the client one of ottla.serde",
        "metrics.num.samples is left out: it is about metrics of the Java client: watch this one with hooks",
    ]


@pytest.mark.parametrize("name", ["interceptor.classes", "partitioner.class", "config.providers"])
def test_what_would_be_missed_is_refused_unless_it_is_empty(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert "Java class" in str(refusal({name: "com.example.Thing"}))
    read({name: ""})
    assert [text.split(":")[0] for text in warnings(caplog)] == [f"{name} is left out"]


@pytest.mark.parametrize(
    ("properties", "adjusted", "warning"),
    [
        ({"acks": "1"}, {"enable_idempotence": False}, "enable.idempotence becomes false: acks is not all"),
        ({"retries": "0"}, {"enable_idempotence": False}, "enable.idempotence becomes false: retries is 0"),
        (
            {"request.timeout.ms": "200000"},
            {"delivery_timeout_ms": 200_010, "default_api_timeout_ms": 200_000},
            "delivery.timeout.ms becomes 200010: it has to hold linger.ms and request.timeout.ms",
        ),
        (
            {"linger.ms": str(2**63 - 1)},
            {"delivery_timeout_ms": 2**31 - 1},
            "delivery.timeout.ms becomes 2147483647: it has to hold linger.ms and request.timeout.ms",
        ),
        (
            {"reconnect.backoff.ms": "2000"},
            {"reconnect_backoff_max_ms": 2_000},
            "reconnect.backoff.max.ms becomes 2000: reconnect.backoff.ms is set alone and never grows",
        ),
        (
            {"reconnect.backoff.ms": "10"},
            {"reconnect_backoff_max_ms": 10},
            "reconnect.backoff.max.ms becomes 10: reconnect.backoff.ms is set alone and never grows",
        ),
        (
            {"retry.backoff.ms": "5000"},
            {"retry_backoff_ms": 1_000},
            "retry.backoff.ms becomes 1000: retry.backoff.max.ms is the most",
        ),
        (
            {"socket.connection.setup.timeout.max.ms": "5000"},
            {"socket_connection_setup_timeout_ms": 5_000},
            "socket.connection.setup.timeout.ms becomes 5000: socket.connection.setup.timeout.max.ms is the most",
        ),
        (
            {"metadata.max.age.ms": "1000"},
            {"metadata_min_age_ms": 1_000},
            "metadata.min.age.ms becomes 1000: metadata.max.age.ms is the most",
        ),
    ],
)
def test_what_the_java_client_adjusts_is_adjusted_with_a_warning(
    properties: dict[str, str], adjusted: dict[str, Any], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = read(properties)
    assert {name: getattr(config, name) for name in adjusted} == adjusted
    assert warning in warnings(caplog)
    assert len(warnings(caplog)) == len(adjusted)


@pytest.mark.parametrize(
    ("properties", "option"),
    [
        ({"acks": "1", "enable.idempotence": "true"}, "acks"),
        ({"retries": "0", "enable.idempotence": "true"}, "retries"),
        ({"max.in.flight.requests.per.connection": "6"}, "max_in_flight_requests_per_connection"),
        ({"request.timeout.ms": "30000", "delivery.timeout.ms": "100"}, "delivery_timeout_ms"),
        ({"default.api.timeout.ms": "100", "request.timeout.ms": "200"}, "default_api_timeout_ms"),
        ({"metadata.max.age.ms": "10", "metadata.min.age.ms": "20"}, "metadata_min_age_ms"),
    ],
)
def test_what_was_named_is_never_adjusted_but_refused(properties: dict[str, str], option: str) -> None:
    assert refusal(properties).option == option


def test_a_shorter_api_timeout_alone_is_followed_by_the_request_timeout() -> None:
    config = read({"default.api.timeout.ms": "5000"})
    assert (config.default_api_timeout_ms, config.request_timeout_ms) == (5_000, 5_000)


def written(folder: Path, text: str) -> Path:
    path = folder / "client.properties"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_of_a_java_client_is_read(tmp_path: Path) -> None:
    path = written(
        tmp_path, "# servers\nbootstrap.servers=a:1,\\\n  b:2\nlinger.ms : 5\nclient.id=caf\\u00e9\n"
    )
    config = ClientConfig.from_file(str(path))
    assert config == ClientConfig(bootstrap_servers="a:1,b:2", linger_ms=5, client_id="café")
    assert ClientConfig.from_file(path) == config


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\nlinger.ms=x", ", line 2"),
        ("\n\nlingr.ms=5", ", line 3"),
        ("metadata.min.age.ms=-1", ", line 1"),
        ("sasl.mechanism=PLAIN", ", line 1"),
        ("linger.ms=5", ""),
        ("linger.ms=\\u1", ""),
    ],
)
def test_an_error_has_a_note_with_the_file_and_the_line(tmp_path: Path, text: str, line: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        ClientConfig.from_file(path)
    assert caught.value.__notes__ == [f"in {path}{line}"]


def test_a_name_that_is_set_twice_counts_the_second_time_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path, "bootstrap.servers=a:1\nlinger.ms=1\nlinger.ms=2")
    assert ClientConfig.from_file(path).linger_ms == 2
    assert warnings(caplog) == [f"{path}: line 3 sets linger.ms again, which counts"]


def test_a_file_that_is_not_there_is_pythons_own_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ClientConfig.from_file(tmp_path / "missing.properties")
