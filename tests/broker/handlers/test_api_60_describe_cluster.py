"""DescribeCluster: brokers, fenced ones, and endpoints of the wrong kind."""

from __future__ import annotations

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import DescribeClusterRequest, DescribeClusterResponse
from tests.broker.handlers.asking import ask, await_fenced


def describe(cluster: Cluster, version: int = 2, **fields: int | bool) -> DescribeClusterResponse:
    return ask(cluster, DescribeClusterRequest(**fields), version, DescribeClusterResponse)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", range(3))
def test_the_brokers_of_the_cluster_are_described(kafka3: Cluster, version: int) -> None:
    answer = describe(kafka3, version)
    assert (answer.error_code, answer.cluster_id, answer.endpoint_type) == (0, kafka3.cluster_id, 1)
    assert ",".join(f"{broker.host}:{broker.port}" for broker in answer.brokers) == kafka3.bootstrap
    assert [broker.broker_id for broker in answer.brokers] == [1, 2, 3]
    assert answer.controller_id == 1


def test_what_one_may_do_is_told_when_asked(kafka: Cluster) -> None:
    assert describe(kafka).cluster_authorized_operations == -(2**31)
    assert describe(kafka, include_cluster_authorized_operations=True).cluster_authorized_operations == 8096


def test_controllers_are_looked_for_in_vain(kafka: Cluster) -> None:
    answer = describe(kafka, 1, endpoint_type=2)
    assert (answer.error_code, answer.brokers) == (114, [])
    assert answer.error_message == (
        "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    )


def test_an_unknown_kind_of_endpoint_is_refused(kafka: Cluster) -> None:
    answer = describe(kafka, 1, endpoint_type=7)
    assert (answer.error_code, answer.error_message) == (115, "Unsupported endpoint type 7")


def test_fenced_brokers_are_listed_where_they_are_asked_for() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.stop_node(2)
        await_fenced(cluster, 2)
        assert [broker.broker_id for broker in describe(cluster).brokers] == [1]
        listed = describe(cluster, include_fenced_brokers=True).brokers
        assert [(broker.broker_id, broker.is_fenced) for broker in listed] == [(1, False), (2, True)]
