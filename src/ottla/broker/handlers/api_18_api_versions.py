"""ApiVersions: which APIs this node serves, in which versions, and the features of the cluster.

Derived from the handlers that there are. Since version 3 clients say who they are (KIP-511), and a name or version
of another form is INVALID_REQUEST. Features as in KIP-584; up to version 3 those that may be off are not listed as
supported, because old clients take a level of zero for an error. Telemetry is listed once a test has subscribed to
it, as Kafka lists it only where a plugin receives it. An unknown version of ApiVersions is the
business of dispatch.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ottla.broker.metadata.features import supported
from ottla.broker.server.registry import handles
from ottla.errors import InvalidRequestError
from ottla.wire.messages import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.context import NodeContext
    from ottla.broker.server.call import Call

_CLIENTS_SAY_WHO_SINCE: Final = 3
_FEATURES_FROM_ZERO_SINCE: Final = 4
_TELEMETRY: Final = (71, 72)
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@handles(ApiVersionsRequest, versions=range(5))
def api_versions(node: NodeContext, request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    if call.version >= _CLIENTS_SAY_WHO_SINCE:
        for text in (request.client_software_name, request.client_software_version):
            if _SOFTWARE.fullmatch(text) is None:
                raise InvalidRequestError(f"{text!r} is no name or version of a client's software")
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=key,
                min_version=handler.advertised.start,
                max_version=handler.advertised.stop - 1,
            )
            for key, handler in sorted(node.apis.items())
            if key not in _TELEMETRY or node.telemetry.is_offered
        ],
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(
                name=feature.name, min_version=feature.min_version, max_version=feature.max_version
            )
            for feature in supported(node.max_versions)
            if feature.min_version > 0 or call.version >= _FEATURES_FROM_ZERO_SINCE
        ],
        finalized_features_epoch=node.image.offset,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(
                name=name, max_version_level=level, min_version_level=level
            )
            for name, level in node.image.features.items()
        ],
    )
