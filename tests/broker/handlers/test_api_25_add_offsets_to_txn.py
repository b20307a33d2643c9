"""AddOffsetsToTxn: a transaction gets the group's partition of the offsets topic."""

from __future__ import annotations

import pytest

from ottla.broker import Cluster
from ottla.broker.coordinator.internal_topics import OFFSETS_TOPIC, coordinator_partition
from ottla.wire.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tests.broker.handlers.requests import send
from tests.broker.handlers.transactional_ids import (
    FENCED,
    INVALID_EPOCH,
    INVALID_REQUEST,
    MAPPING,
    begin,
    coordinator,
    described,
)


def add_offsets(cluster: Cluster, name: str, producer: tuple[int, int], *, version: int = 4) -> int:
    request = AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], group_id="readers"
    )
    node = coordinator(cluster, name)
    return send(cluster, request, version, AddOffsetsToTxnResponse, node=node).error_code


@pytest.mark.parametrize("version", range(5))
def test_the_partition_of_the_group_is_part_of_the_transaction(kafka: Cluster, version: int) -> None:
    name = f"offsets-{version}"
    producer = begin(kafka, name)
    assert add_offsets(kafka, name, producer, version=version) == 0
    assert add_offsets(kafka, name, producer, version=version) == 0
    state = described(kafka, name)
    assert state.transaction_state == "Ongoing"
    assert [(each.topic, each.partitions) for each in state.topics] == [
        (OFFSETS_TOPIC, [coordinator_partition("readers", 50)])
    ]


@pytest.mark.parametrize(("version", "fenced"), [(1, INVALID_EPOCH), (2, FENCED)])
def test_producers_that_may_not(kafka: Cluster, version: int, fenced: int) -> None:
    name = f"fenced-offsets-{version}"
    producer_id, _ = begin(kafka, name)
    assert add_offsets(kafka, name, (producer_id, 4), version=version) == fenced
    assert add_offsets(kafka, name, (producer_id + 1, 0), version=version) == MAPPING
    assert add_offsets(kafka, "never-begun", (producer_id, 0), version=version) == MAPPING
    assert add_offsets(kafka, "", (producer_id, 0), version=version) == INVALID_REQUEST
