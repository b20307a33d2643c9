"""ApiVersions: the first thing any client asks, also in versions that the broker does not know (KIP-511)."""

from ottla.wire.messages import ApiVersionsRequest
from tests.interop.comparison.requests import just
from tests.interop.comparison.script import ask, section


def software(name: str, version: str) -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


SECTION = section(
    "api versions",
    ask("all", just(ApiVersionsRequest()), 0, 1, 2),
    ask("all of a named client", just(software("comparison", "1.0")), 3, 4),
    ask("a client without a name", just(software("", "")), 3),
    ask("a client without a version", just(software("comparison", "")), 4),
    ask("a name with a blank", just(software("two words", "1.0")), 3),
    ask("a name with dots and dashes", just(software("a.b-c", "1-2.3")), 3),
    ask("a name that ends with a dash", just(software("a-", "1")), 3),
    ask("a version that starts with a dot", just(software("a", ".1")), 3),
)
