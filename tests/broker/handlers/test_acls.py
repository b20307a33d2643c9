"""A cluster without an authorizer has no ACLs, and says so in every version."""

from __future__ import annotations

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from tests.broker.handlers.requests import connect, send

SECURITY_DISABLED = 54
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


def described(
    resource: int = 2, pattern: int = 3, operation: int = 3, permission: int = 3
) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=resource,
        pattern_type_filter=pattern,
        operation=operation,
        permission_type=permission,
    )


def created(
    resource: int = 2, pattern: int = 3, operation: int = 3, permission: int = 3
) -> CreateAclsRequest.AclCreation:
    return CreateAclsRequest.AclCreation(
        resource_type=resource,
        resource_name="t",
        resource_pattern_type=pattern,
        principal="User:a",
        host="*",
        operation=operation,
        permission_type=permission,
    )


def deleted(
    resource: int = 2, pattern: int = 3, operation: int = 3, permission: int = 3
) -> DeleteAclsRequest.DeleteAclsFilter:
    return DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=resource,
        pattern_type_filter=pattern,
        operation=operation,
        permission_type=permission,
    )


@VERSIONS
def test_describing_is_refused_as_a_whole(kafka: Cluster, version: int) -> None:
    response = send(kafka, described(), version, DescribeAclsResponse)
    assert response == DescribeAclsResponse(
        error_code=SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )


@VERSIONS
def test_creating_is_refused_one_by_one(kafka: Cluster, version: int) -> None:
    response = send(kafka, CreateAclsRequest(creations=[created(), created()]), version, CreateAclsResponse)
    assert [(result.error_code, result.error_message) for result in response.results] == [
        (SECURITY_DISABLED, "No Authorizer is configured.")
    ] * 2
    assert send(kafka, CreateAclsRequest(), version, CreateAclsResponse).results == []


@VERSIONS
def test_deleting_is_refused_one_by_one(kafka: Cluster, version: int) -> None:
    response = send(kafka, DeleteAclsRequest(filters=[deleted(), deleted()]), version, DeleteAclsResponse)
    assert [(result.error_code, result.error_message) for result in response.filter_results] == [
        (SECURITY_DISABLED, "No Authorizer is configured.")
    ] * 2
    assert send(kafka, DeleteAclsRequest(), version, DeleteAclsResponse).filter_results == []


@pytest.mark.parametrize("unknown", ["resource", "pattern", "operation", "permission"])
def test_a_type_of_zero_closes_the_connection(kafka: Cluster, unknown: str) -> None:
    zero = {unknown: 0}
    for request in (
        described(**zero),
        CreateAclsRequest(creations=[created(), created(**zero)]),
        DeleteAclsRequest(filters=[deleted(), deleted(**zero)]),
    ):
        with connect(kafka) as connection, pytest.raises(ConnectionError):
            connection.ask(request, 3)
