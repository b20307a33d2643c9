"""DescribeAcls, CreateAcls and DeleteAcls of a cluster without an authorizer."""

from __future__ import annotations

from ottla.wire.messages import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from tests.interop.comparison.requests import just
from tests.interop.comparison.script import Build, ask, section

TOPICS, LITERAL, PREFIXED, ANY, MATCH = 2, 3, 4, 1, 2
READ, ALLOW = 3, 3


def describe(
    kind: int = TOPICS,
    name: str | None = "t",
    pattern: int = LITERAL,
    principal: str | None = "User:a",
    host: str | None = "*",
    operation: int = READ,
    permission: int = ALLOW,
) -> Build:
    return just(
        DescribeAclsRequest(
            resource_type_filter=kind,
            resource_name_filter=name,
            pattern_type_filter=pattern,
            principal_filter=principal,
            host_filter=host,
            operation=operation,
            permission_type=permission,
        )
    )


def creation(
    kind: int = TOPICS,
    name: str = "t",
    pattern: int = LITERAL,
    principal: str = "User:a",
    host: str = "*",
    operation: int = READ,
    permission: int = ALLOW,
) -> CreateAclsRequest.AclCreation:
    return CreateAclsRequest.AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def create(*creations: CreateAclsRequest.AclCreation) -> Build:
    return just(CreateAclsRequest(creations=list(creations)))


def filter_(
    kind: int = TOPICS,
    name: str | None = "t",
    pattern: int = LITERAL,
    principal: str | None = "User:a",
    host: str | None = "*",
    operation: int = READ,
    permission: int = ALLOW,
) -> DeleteAclsRequest.DeleteAclsFilter:
    return DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=principal,
        host_filter=host,
        operation=operation,
        permission_type=permission,
    )


def delete(*filters: DeleteAclsRequest.DeleteAclsFilter) -> Build:
    return just(DeleteAclsRequest(filters=list(filters)))


DESCRIBED = section(
    "describe acls",
    ask("of a topic", describe(), 1, 2, 3),
    ask("of all", describe(1, None, ANY, None, None, 1, 1), 1, 2, 3),
    ask("matching", describe(pattern=MATCH), 1, 2, 3),
    ask("prefixed", describe(pattern=PREFIXED), 1, 2, 3),
    ask("of users", describe(kind=7), 1, 2, 3),
    ask("of an unknown kind", describe(kind=0), 1, 2, 3),
    ask("of a kind that does not exist", describe(kind=77), 1, 2, 3),
    ask("of a negative kind", describe(kind=-1), 1, 3),
    ask("of an unknown pattern", describe(pattern=0), 1, 2, 3),
    ask("of a pattern that does not exist", describe(pattern=77), 1, 3),
    ask("of an unknown operation", describe(operation=0), 1, 3),
    ask("of an operation that does not exist", describe(operation=77), 1, 3),
    ask("of an unknown permission", describe(permission=0), 1, 3),
    ask("of a permission that does not exist", describe(permission=77), 1, 3),
    ask("of empty names", describe(name="", principal="", host=""), 1, 3),
    ask("of an odd principal", describe(principal="nobody"), 3),
)

CREATED = section(
    "create acls",
    ask("one", create(creation()), 1, 2, 3),
    ask("two", create(creation(), creation(name="u")), 1, 3),
    ask("none", create(), 1, 2, 3),
    ask("prefixed", create(creation(pattern=PREFIXED)), 1, 3),
    ask("for the cluster", create(creation(kind=4, name="kafka-cluster")), 3),
    ask("for another cluster", create(creation(kind=4, name="other")), 3),
    ask("for an unknown kind", create(creation(kind=0)), 1, 3),
    ask("for any kind", create(creation(kind=1)), 1, 3),
    ask("for a kind that does not exist", create(creation(kind=77)), 1, 3),
    ask("for users", create(creation(kind=7)), 1, 3),
    ask("for an unknown pattern", create(creation(pattern=0)), 1, 3),
    ask("for any pattern", create(creation(pattern=ANY)), 1, 3),
    ask("matching", create(creation(pattern=MATCH)), 1, 3),
    ask("an unknown operation", create(creation(operation=0)), 1, 3),
    ask("any operation", create(creation(operation=1)), 1, 3),
    ask("an unknown permission", create(creation(permission=0)), 1, 3),
    ask("any permission", create(creation(permission=1)), 1, 3),
    ask("without names", create(creation(name="", principal="", host="")), 1, 3),
    ask("an odd principal", create(creation(principal="nobody")), 3),
    ask("a good and a bad one", create(creation(), creation(kind=0)), 1, 3),
)

DELETED = section(
    "delete acls",
    ask("of a topic", delete(filter_()), 1, 2, 3),
    ask("two", delete(filter_(), filter_(name=None)), 1, 3),
    ask("none", delete(), 1, 2, 3),
    ask("all", delete(filter_(1, None, ANY, None, None, 1, 1)), 1, 3),
    ask("matching", delete(filter_(pattern=MATCH)), 1, 3),
    ask("of users", delete(filter_(kind=7)), 1, 3),
    ask("of an unknown kind", delete(filter_(kind=0)), 1, 3),
    ask("of a kind that does not exist", delete(filter_(kind=77)), 1, 3),
    ask("of an unknown pattern", delete(filter_(pattern=0)), 1, 3),
    ask("of an unknown operation", delete(filter_(operation=0)), 1, 3),
    ask("of an unknown permission", delete(filter_(permission=0)), 1, 3),
    ask("a good and a bad one", delete(filter_(), filter_(kind=0)), 1, 3),
)
