"""InitProducerId: ids for idempotent producers, ids and epochs for transactional ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker import Cluster
from ottla.wire.messages import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.handlers import transactional_ids
from tests.broker.handlers.requests import send
from tests.broker.handlers.transactional_ids import CONCURRENT, FENCED, INVALID_EPOCH, INVALID_TIMEOUT, begin


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


def test_an_empty_transactional_id_is_refused(kafka: Cluster) -> None:
    assert init(kafka, transactional_id="") == (42, -1, -1)


@pytest.mark.parametrize("version", range(6))
def test_a_transactional_producer_gets_the_next_epoch_of_its_id(kafka: Cluster, version: int) -> None:
    name = f"init-{version}"
    code, producer_id, epoch = transactional_ids.init(kafka, name, version=version)
    assert (code, epoch) == (0, 0)
    assert transactional_ids.init(kafka, name, version=version) == (0, producer_id, 1)


def test_another_node_is_not_the_coordinator(kafka3: Cluster) -> None:
    node = transactional_ids.coordinator(kafka3, "elsewhere")
    assert init(kafka3, transactional_id="elsewhere", node=node % 3 + 1) == (16, -1, -1)


@pytest.mark.parametrize("timeout", [0, -1, 900_001, 2**31 - 1])
def test_a_timeout_that_is_not_allowed(kafka: Cluster, timeout: int) -> None:
    assert transactional_ids.init(kafka, "late", timeout_ms=timeout) == (INVALID_TIMEOUT, -1, -1)


@pytest.mark.parametrize(("version", "code"), [(3, INVALID_EPOCH), (4, FENCED)])
def test_a_producer_says_who_it_was(kafka: Cluster, version: int, code: int) -> None:
    name = f"recovering-{version}"
    first = begin(kafka, name)
    after = transactional_ids.init(kafka, name, first, version=version)
    assert after == (0, first[0], 1)
    assert transactional_ids.init(kafka, name, first, version=version) == after
    assert begin(kafka, name) == (first[0], 2)
    assert transactional_ids.init(kafka, name, first, version=version) == (code, -1, -1)


@pytest.mark.parametrize("producer", [(5, -1), (-1, 3)])
def test_a_transactional_producer_says_all_or_nothing(kafka: Cluster, producer: tuple[int, int]) -> None:
    assert transactional_ids.init(kafka, "half", producer) == (42, -1, -1)


def test_the_next_producer_waits_for_the_abort_of_what_was_begun(
    kafka: Cluster, new_topic: Callable[..., str]
) -> None:
    first = begin(kafka, "next")
    assert transactional_ids.add(kafka, "next", first, (new_topic(kafka), 0)) == [0]
    assert transactional_ids.init(kafka, "next") == (CONCURRENT, -1, -1)
    assert transactional_ids.settled(kafka, "next") == "CompleteAbort"
    assert transactional_ids.init(kafka, "next") == (0, first[0], 2)
    assert transactional_ids.end(kafka, "next", first, commit=True) == (FENCED, -1, -1)


def test_without_the_controller_a_node_runs_out_of_ids() -> None:
    with Cluster() as cluster:
        transactional_ids.coordinator(cluster, "new")
        cluster.cut_controller(1)
        assert init(cluster) == (7, -1, -1)
        assert transactional_ids.init(cluster, "new") == (7, -1, -1)
        cluster.heal_controller(1)
        assert init(cluster)[0] == 0
