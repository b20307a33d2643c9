"""What a broker may change while it runs; the error messages are those of Kafka."""

from __future__ import annotations

import pytest

from ottla.broker.configs import BrokerConfigs
from ottla.broker.configs.broker_changes import check_change
from ottla.broker.configs.values import ConfigError

BROKER = BrokerConfigs(
    {"num.io.threads": 8, "num.network.threads": 4, "log.cleaner.threads": 4, "log.retention.ms": 5000},
    node_id=1,
)


def error_of(overrides: dict[str, str], *, for_all: bool = False) -> str | None:
    try:
        check_change(BROKER, overrides, for_all=for_all)
    except ConfigError as error:
        return str(error)
    return None


def in_transition(message: str) -> str:
    return (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {message} "
        "for configuration Invalid dynamic configuration"
    )


@pytest.mark.parametrize("for_all", [False, True])
def test_a_config_that_is_read_only_is_not_changed(for_all: bool) -> None:
    changes = {"process.roles": "broker", "log.retention.ms": "1000", "zoo": "1"}
    message = "Cannot update these configs dynamically: [process.roles]"
    assert error_of(changes, for_all=for_all) == message
    assert error_of({"log.retention.ms": "1000", "zoo": "1"}, for_all=for_all) is None


def test_a_security_config_changes_under_the_name_of_a_listener_only() -> None:
    message = (
        "These security configs can be dynamically updated only per-listener using the listener prefix: "
        "[ssl.keystore.type]"
    )
    assert error_of({"ssl.keystore.type": "PKCS12"}) == message
    assert error_of({"listener.name.internal.ssl.keystore.type": "PKCS12"}) is None


def test_what_one_broker_has_is_not_set_for_all() -> None:
    name = "listener.name.internal.ssl.keystore.type"
    message = "Cannot update these configs at default cluster level, broker id must be specified"
    assert error_of({name: "PKCS12"}, for_all=True) == f"{message}: [{name}]"
    assert error_of({"listener.name.internal.max.connections": "5"}, for_all=True) is None


def test_a_value_that_cannot_be_read_is_refused_as_such() -> None:
    message = error_of({"num.io.threads": "many"})
    assert message is not None
    assert message.startswith("Invalid value many for configuration num.io.threads")


@pytest.mark.parametrize(
    ("threads", "bound"),
    [
        (3, "value should be at least half the current value 8"),
        (4, None),
        (16, None),
        (17, "value should not be greater than double the current value 8"),
    ],
)
def test_a_pool_of_threads_is_at_most_halved_or_doubled(threads: int, bound: str | None) -> None:
    failed = f"Dynamic thread count update validation failed for num.io.threads={threads}"
    expected = None if bound is None else in_transition(f"{failed}, {bound}")
    assert error_of({"num.io.threads": str(threads)}) == expected


@pytest.mark.parametrize(
    ("threads", "message"),
    [
        (0, "/ by zero"),
        (1, in_transition("Log cleaner threads cannot be reduced to less than half the current value 4")),
        (2, None),
        (8, None),
        (
            9,
            in_transition("Log cleaner threads cannot be increased to more than double the current value 4"),
        ),
    ],
)
def test_the_threads_of_the_cleaner_have_bounds_of_their_own(threads: int, message: str | None) -> None:
    assert error_of({"log.cleaner.threads": str(threads)}) == message


def test_what_is_retained_locally_stays_below_what_is_retained() -> None:
    assert error_of({"log.local.retention.ms": "5000"}) is None
    message = error_of({"log.local.retention.ms": "5001"})
    assert message is not None
    assert "log.local.retention.ms" in message


def test_the_first_check_that_fails_decides_what_is_said() -> None:
    changes = {"num.io.threads": "100", "num.network.threads": "100"}
    message = error_of(changes)
    assert message is not None
    assert "num.network.threads=100" in message
