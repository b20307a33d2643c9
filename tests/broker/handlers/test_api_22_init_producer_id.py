"""InitProducerId: ids for idempotent producers; transactions are not served."""

from __future__ import annotations

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.handlers.requests import send


def init(
    cluster: Cluster,
    *,
    transactional_id: str | None = None,
    producer: tuple[int, int] = (-1, -1),
    version: int = 5,
    node: int = 1,
) -> tuple[int, int, int]:
    """Error, producer id and epoch."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=1000,
        producer_id=producer[0],
        producer_epoch=producer[1],
    )
    response = send(cluster, request, version, InitProducerIdResponse, node=node)
    return response.error_code, response.producer_id, response.producer_epoch


@pytest.mark.parametrize("version", range(6))
def test_an_idempotent_producer_gets_an_id_in_epoch_0(kafka: Cluster, version: int) -> None:
    error, producer_id, epoch = init(kafka, version=version)
    assert (error, epoch) == (0, 0)
    assert producer_id >= 0


def test_no_two_producers_of_a_cluster_have_one_id(kafka3: Cluster) -> None:
    given = [init(kafka3, node=node)[1] for node in [1, 2, 3, 1, 2, 3]]
    assert len(set(given)) == 6


def test_a_producer_that_had_an_id_gets_another(kafka: Cluster) -> None:
    _, first, _ = init(kafka)
    error, second, epoch = init(kafka, producer=(first, 3))
    assert (error, epoch) == (0, 0)
    assert second != first


@pytest.mark.parametrize("producer", [(5, -1), (-1, 3)])
def test_an_id_without_an_epoch_is_refused(kafka: Cluster, producer: tuple[int, int]) -> None:
    assert init(kafka, producer=producer) == (42, -1, -1)


@pytest.mark.parametrize("transactional_id", ["", "payments"])
def test_a_transactional_id_is_refused(kafka: Cluster, transactional_id: str) -> None:
    assert init(kafka, transactional_id=transactional_id) == (42, -1, -1)


def test_without_the_controller_a_node_runs_out_of_ids() -> None:
    with Cluster() as cluster:
        cluster.cut_controller(1)
        assert init(cluster) == (7, -1, -1)
        cluster.heal_controller(1)
        assert init(cluster)[0] == 0
