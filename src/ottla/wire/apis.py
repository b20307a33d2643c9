"""The APIs of the protocol: a key, a name, a request, a response, and the versions of both.

What one broker serves is not known here: that is negotiated (ApiVersions).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from ottla.errors import ProtocolError
from ottla.wire.message import Message, message_class
from ottla.wire.schema import Versions, api_names

API_VERSIONS_KEY: Final = 18


@dataclass(frozen=True, slots=True)
class Api:
    """One kind of request and its response."""

    key: int
    name: str
    request: type[Message]
    response: type[Message]

    @property
    def versions(self) -> Versions:
        """Every version that can be read and written here, unstable ones included."""
        return self.request.VERSIONS

    @property
    def stable_versions(self) -> Versions:
        """The versions that will not change: those that are offered to a peer."""
        low, high = self.versions.low, self.versions.high
        return Versions(low, high - 1 if self.request.SCHEMA.latest_unstable else high)

    def request_header_version(self, version: int) -> int:
        """Also defined above the versions known here: a newer peer's header can be read, and responded to."""
        return 2 if self._flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        # A client must be able to read the response to its ApiVersions request before it knows what the broker
        # speaks, so that one never has a flexible header (KIP-511).
        return 1 if self._flexible(version) and self.key != API_VERSIONS_KEY else 0

    def _flexible(self, version: int) -> bool:
        return version >= _first_flexible(self.key)


@cache
def _first_flexible(key: int) -> float:
    """Cached, because every frame needs it."""
    flexible = api_for_key(key).request.SCHEMA.flexible
    return flexible.low if len(flexible) > 0 else float("inf")


def api_keys() -> tuple[int, ...]:
    """The keys of all APIs, ascending."""
    return tuple(sorted(api_names()))


@cache
def api_for_key(key: int) -> Api:
    name = api_names().get(key)
    if name is None:
        raise ProtocolError(f"the Kafka protocol has no API with key {key}")
    return Api(key, name, message_class(name + "Request"), message_class(name + "Response"))


@cache
def api_named(name: str) -> Api:
    """By Kafka's name: `api_named("Fetch")`."""
    return api_for_key(api_key(name))


def api_key(name: str) -> int:
    """By Kafka's name. Makes no classes: a table of all APIs costs nothing of those that are never sent."""
    key = _keys().get(name)
    if key is None:
        raise ProtocolError(f"the Kafka protocol has no API named {name!r}")
    return key


@cache
def _keys() -> Mapping[str, int]:
    return {name: key for key, name in api_names().items()}
