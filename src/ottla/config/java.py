"""A Java client's settings as ours: dotted names, values as text, and what that client adjusts by itself.

The Java client mends some combinations that `agreement` refuses, but only where the user did not name the
option that it changes. A file that works there must work here, so the same is done here, never in silence.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from ottla.config.agreement import least_delivery_timeout_ms
from ottla.config.names import JAVA_ONLY, no_option
from ottla.config.options import Option

logger: Final = logging.getLogger("ottla.config")


def options_from(properties: Mapping[str, object], options: Mapping[str, Option]) -> dict[str, object]:
    """The keywords of ClientConfig that the properties stand for."""
    known = {option.dotted: option for option in options.values()}
    given: dict[str, object] = {}
    for name, value in properties.items():
        if name in known:
            option = known[name]
            given[option.name] = option.parse(value) if isinstance(value, str) else option.check(value)
        else:
            _leave_out(name, value, options)
    _adjust(given, options)
    return given


def _leave_out(name: str, value: object, options: Mapping[str, Option]) -> None:
    """Warn about a setting that a Python program does without; refuse one that would be missed."""
    java_only = JAVA_ONLY.get(name)
    if java_only is None or not (java_only.harmless or value in ("", None, [], ())):
        raise no_option(name, options, dotted=True)
    logger.warning("%s is left out: %s", name, java_only.advice)


def _adjust(given: dict[str, object], options: Mapping[str, Option]) -> None:
    adjustment = _Adjustment(given, options)
    adjustment.idempotence()
    adjustment.timeouts()
    adjustment.backoffs()


class _Adjustment:
    """The Java client's own changes to what it was given. Every value in `given` is checked already."""

    def __init__(self, given: dict[str, object], options: Mapping[str, Option]) -> None:
        self._given = given
        self._options = options
        self._named = frozenset(given)

    def idempotence(self) -> None:
        if "enable_idempotence" in self._named:
            return
        if self._value("acks") != "all":
            self._set("enable_idempotence", False, "acks is not all")
        elif self._value("retries") == 0:
            self._set("enable_idempotence", False, "retries is 0")

    def timeouts(self) -> None:
        request = self._number("request_timeout_ms")
        least = least_delivery_timeout_ms(self._number("linger_ms"), request)
        if "delivery_timeout_ms" not in self._named and self._number("delivery_timeout_ms") < least:
            self._set("delivery_timeout_ms", least, "it has to hold linger.ms and request.timeout.ms")
        if "default_api_timeout_ms" not in self._named and self._number("default_api_timeout_ms") < request:
            self._set("default_api_timeout_ms", request, "it has to hold request.timeout.ms")

    def backoffs(self) -> None:
        if "reconnect_backoff_ms" in self._named and "reconnect_backoff_max_ms" not in self._named:
            first = self._number("reconnect_backoff_ms")
            self._set("reconnect_backoff_max_ms", first, "reconnect.backoff.ms is set alone and never grows")
        for name in ("retry_backoff", "reconnect_backoff", "socket_connection_setup_timeout"):
            most = self._number(f"{name}_max_ms")
            if self._number(f"{name}_ms") > most:
                self._set(f"{name}_ms", most, f"{self._dotted(f'{name}_max_ms')} is the most")
        # Not Java's: our own lower bound gives way to an upper one from a file that cannot know of it.
        oldest = self._number("metadata_max_age_ms")
        if "metadata_min_age_ms" not in self._named and self._number("metadata_min_age_ms") > oldest:
            self._set("metadata_min_age_ms", oldest, "metadata.max.age.ms is the most")

    def _value(self, name: str) -> object:
        return self._given.get(name, self._options[name].default)

    def _number(self, name: str) -> int:
        value = self._value(name)
        assert isinstance(value, int), name
        return value

    def _set(self, name: str, value: object, why: str) -> None:
        if self._value(name) != value:
            logger.warning("%s becomes %s: %s", self._dotted(name), str(value).lower(), why)
        self._given[name] = value

    def _dotted(self, name: str) -> str:
        return self._options[name].dotted
