"""What a broker speaks: the first exchange on every connection, and the versions that come of it (KIP-35, KIP-511).

Negotiated per connection, never remembered beyond it: in a rolling upgrade the broker behind an address changes.
"""

from __future__ import annotations

from typing import Final

from ottla._version import __version__
from ottla.errors import UnsupportedApiError, raise_for_code
from ottla.wire import Message, Versions, api_for_key
from ottla.wire.messages import ApiVersionsRequest, ApiVersionsResponse

_SOFTWARE_NAME: Final = "ottla"
_UNSUPPORTED_VERSION: Final = 35
_KEY: Final = ApiVersionsRequest.API_KEY


def first_request() -> tuple[ApiVersionsRequest, int]:
    """What to send first on a connection, and at which version."""
    request = ApiVersionsRequest(client_software_name=_SOFTWARE_NAME, client_software_version=__version__)
    return request, api_for_key(_KEY).stable_versions.high


def retry_version(response: ApiVersionsResponse, tried: int) -> int | None:
    """The version of ApiVersions to send again to an older broker; None if its response is complete.

    Such a broker responds in version 0, with its range for ApiVersions itself since Kafka 2.4 and nothing before.
    """
    if response.error_code != _UNSUPPORTED_VERSION or tried == 0:
        return None
    offered = [each.max_version for each in response.api_keys if each.api_key == _KEY]
    return max(0, min(offered[0], tried - 1)) if offered else 0


class ApiVersions:
    """The versions that one connection has in common with this client."""

    def __init__(self, response: ApiVersionsResponse, broker: str) -> None:
        """`broker` is how errors call it; the response's own error is raised."""
        raise_for_code(response.error_code)
        self._broker = broker
        self._broker_versions = {
            each.api_key: Versions(each.min_version, each.max_version) for each in response.api_keys
        }
        self._common: dict[int, Versions] = {}

    def best(self, request_class: type[Message], most: int | None = None) -> int:
        """The highest version that both sides know and that is not above `most`."""
        common = self._common.get(request_class.API_KEY)
        if common is None:
            common = self._common[request_class.API_KEY] = self._agree(request_class.API_KEY)
        if most is None or most >= common.high:
            return common.high
        if most < common.low:
            name = api_for_key(request_class.API_KEY).name
            raise UnsupportedApiError(
                f"{self._broker} has versions {common} of {name} in common with this client, "
                f"and the call needs {most} or lower"
            )
        return most

    def _agree(self, key: int) -> Versions:
        api = api_for_key(key)
        offered = self._broker_versions.get(key)
        if offered is None:
            raise UnsupportedApiError(
                f"{self._broker} has no {api.name} API: its Kafka is too old for this call, or does not serve it"
            )
        common = offered.within(api.stable_versions)
        if not len(common):
            raise UnsupportedApiError(
                f"{self._broker} has versions {offered} of {api.name}, this client {api.stable_versions}: "
                "upgrade the one that is behind"
            )
        return common
