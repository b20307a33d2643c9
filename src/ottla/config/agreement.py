"""What options may be together: each rule names the option to change and the one it has to agree with.

Timeouts that were not named do not contradict: they follow those that were, so that one of them is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Final

from ottla.config.errors import disagrees
from ottla.config.rules import INT32
from ottla.errors import ConfigurationError

if TYPE_CHECKING:
    from ottla.config.client import ClientConfig

# Brokers remember the last five batches of a producer per partition, to recognize one that comes again.
MAX_IN_FLIGHT_WITH_IDEMPOTENCE: Final = 5

_LONGEST_INSTANCE_ID: Final = 249


def least_delivery_timeout_ms(linger_ms: int, request_timeout_ms: int) -> int:
    """What delivery_timeout_ms has to hold; no more than it can be, for a linger without end."""
    return min(linger_ms + request_timeout_ms, INT32)


def derived_timeouts(config: ClientConfig, named: Set[str]) -> Iterator[tuple[str, int]]:
    """The timeouts that are not `named`, where another one needs more or less than their default; one by one.

    The caller sets each before it takes the next, which may follow from it.
    """
    if "request_timeout_ms" not in named and config.request_timeout_ms > config.default_api_timeout_ms:
        yield "request_timeout_ms", config.default_api_timeout_ms
    if "default_api_timeout_ms" not in named and config.default_api_timeout_ms < config.request_timeout_ms:
        yield "default_api_timeout_ms", config.request_timeout_ms
    if "max_block_ms" not in named and config.max_block_ms > config.default_api_timeout_ms:
        yield "max_block_ms", config.default_api_timeout_ms
    if "heartbeat_interval_ms" not in named and config.heartbeat_interval_ms >= config.session_timeout_ms:
        yield "heartbeat_interval_ms", max(1, config.session_timeout_ms // 3)
    if "fetch_max_wait_ms" not in named and config.fetch_max_wait_ms >= config.request_timeout_ms:
        yield "fetch_max_wait_ms", config.request_timeout_ms // 2
    least = least_delivery_timeout_ms(config.linger_ms, config.request_timeout_ms)
    if "delivery_timeout_ms" not in named and config.delivery_timeout_ms < least:
        yield "delivery_timeout_ms", least


def check_agreement(config: ClientConfig) -> None:
    """ConfigurationError for the first two options that contradict each other."""
    if config.enable_idempotence:
        _check_idempotence(config)
    elif config.transactional_id:
        raise _disagrees(
            config, "enable_idempotence", "True", "transactional_id is set, and transactions need it"
        )
    _check_timeouts(config)
    _check_group(config)
    for first, most in (
        ("retry_backoff_ms", "retry_backoff_max_ms"),
        ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
        ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
        ("metadata_min_age_ms", "metadata_max_age_ms"),
    ):
        _check_order(config, first, most)


def _check_idempotence(config: ClientConfig) -> None:
    without = "enable_idempotence=False does without"
    if config.acks != "all":
        raise _disagrees(config, "acks", "'all'", f"idempotence needs every replica's word ({without})")
    if config.retries == 0:
        raise _disagrees(
            config, "retries", "a whole number of at least 1", f"idempotence is for retries ({without})"
        )
    if config.max_in_flight_requests_per_connection > MAX_IN_FLIGHT_WITH_IDEMPOTENCE:
        raise _disagrees(
            config,
            "max_in_flight_requests_per_connection",
            f"at most {MAX_IN_FLIGHT_WITH_IDEMPOTENCE}",
            f"brokers recognize no more batches than that when they come again ({without})",
        )


def _check_timeouts(config: ClientConfig) -> None:
    least = least_delivery_timeout_ms(config.linger_ms, config.request_timeout_ms)
    if config.delivery_timeout_ms < least:
        raise _disagrees(
            config,
            "delivery_timeout_ms",
            f"at least {least}",
            f"it has to hold linger_ms={config.linger_ms} and request_timeout_ms={config.request_timeout_ms}",
        )
    if config.default_api_timeout_ms < config.request_timeout_ms:
        raise _disagrees(
            config,
            "default_api_timeout_ms",
            f"at least {config.request_timeout_ms}",
            f"it has to hold request_timeout_ms={config.request_timeout_ms}",
        )
    if config.fetch_max_wait_ms >= config.request_timeout_ms:
        raise _disagrees(
            config,
            "fetch_max_wait_ms",
            f"less than {config.request_timeout_ms}",
            f"a fetch without records would always exceed request_timeout_ms={config.request_timeout_ms}",
        )


def _check_group(config: ClientConfig) -> None:
    if config.heartbeat_interval_ms >= config.session_timeout_ms:
        raise _disagrees(
            config,
            "heartbeat_interval_ms",
            f"less than {config.session_timeout_ms}",
            f"a member without a heartbeat for session_timeout_ms={config.session_timeout_ms} is dropped",
        )
    if config.group_instance_id and len(config.group_instance_id) > _LONGEST_INSTANCE_ID:
        raise _disagrees(
            config, "group_instance_id", f"at most {_LONGEST_INSTANCE_ID} characters", "brokers take no more"
        )


def _check_order(config: ClientConfig, first: str, most: str) -> None:
    low, high = getattr(config, first), getattr(config, most)
    if low > high:
        raise _disagrees(config, first, f"at most {high}", f"{most}={high} is the most (change both)")


def _disagrees(config: ClientConfig, name: str, allowed: str, why: str) -> ConfigurationError:
    kafka_name = next(option.kafka_name for option in config.describe() if option.name == name)
    return disagrees(name, kafka_name, getattr(config, name), allowed, why)
