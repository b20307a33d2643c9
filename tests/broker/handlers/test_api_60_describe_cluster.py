"""DescribeCluster: brokers, fenced ones, and endpoints of the wrong kind."""

from __future__ import annotations

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import DescribeClusterRequest, DescribeClusterResponse
from tests.broker.handlers.requests import await_fenced, send


def describe(cluster: Cluster, version: int = 2, **fields: int | bool) -> DescribeClusterResponse:
    return send(cluster, DescribeClusterRequest(**fields), version, DescribeClusterResponse)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", range(3))
def test_the_brokers_of_the_cluster_are_described(kafka3: Cluster, version: int) -> None:
    response = describe(kafka3, version)
    assert (response.error_code, response.cluster_id, response.endpoint_type) == (0, kafka3.cluster_id, 1)
    assert ",".join(f"{broker.host}:{broker.port}" for broker in response.brokers) == kafka3.bootstrap
    assert [broker.broker_id for broker in response.brokers] == [1, 2, 3]
    assert response.controller_id == 1


def test_authorized_operations_are_there_when_requested(kafka: Cluster) -> None:
    assert describe(kafka).cluster_authorized_operations == -(2**31)
    assert describe(kafka, include_cluster_authorized_operations=True).cluster_authorized_operations == 8096


def test_controllers_are_looked_for_in_vain(kafka: Cluster) -> None:
    response = describe(kafka, 1, endpoint_type=2)
    assert (response.error_code, response.brokers) == (114, [])
    assert response.error_message == (
        "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    )


def test_an_unknown_kind_of_endpoint_is_refused(kafka: Cluster) -> None:
    response = describe(kafka, 1, endpoint_type=7)
    assert (response.error_code, response.error_message) == (115, "Unsupported endpoint type 7")


def test_fenced_brokers_are_listed_where_they_are_requested() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.stop_node(2)
        await_fenced(cluster, 2)
        assert [broker.broker_id for broker in describe(cluster).brokers] == [1]
        listed = describe(cluster, include_fenced_brokers=True).brokers
        assert [(broker.broker_id, broker.is_fenced) for broker in listed] == [(1, False), (2, True)]
