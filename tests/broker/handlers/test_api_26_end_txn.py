"""EndTxn: commit and abort, with the same epoch or the next."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker import Cluster
from tests.broker.handlers.transactional_ids import (
    FENCED,
    INVALID_EPOCH,
    INVALID_REQUEST,
    INVALID_STATE,
    MAPPING,
    add,
    begin,
    end,
    settled,
)

NO_PRODUCER = (-1, -1)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("commit", [True, False])
def test_up_to_version_4_the_epoch_stays(
    kafka: Cluster, new_topic: Callable[..., str], version: int, commit: bool
) -> None:
    name, topic = f"ending-{version}-{commit}", new_topic(kafka)
    producer = begin(kafka, name)
    assert end(kafka, name, producer, commit=commit, version=version) == (INVALID_STATE, *NO_PRODUCER)
    assert add(kafka, name, producer, (topic, 0)) == [0]
    assert end(kafka, name, producer, commit=commit, version=version) == (0, *NO_PRODUCER)
    assert settled(kafka, name) == ("CompleteCommit" if commit else "CompleteAbort")
    assert end(kafka, name, producer, commit=commit, version=version) == (0, *NO_PRODUCER)
    assert end(kafka, name, producer, commit=not commit, version=version) == (INVALID_STATE, *NO_PRODUCER)


@pytest.mark.parametrize("commit", [True, False])
def test_since_version_5_every_end_bumps_the_epoch(
    kafka: Cluster, new_topic: Callable[..., str], commit: bool
) -> None:
    name, topic = f"bumping-{commit}", new_topic(kafka)
    producer = begin(kafka, name)
    assert add(kafka, name, producer, (topic, 0)) == [0]
    ended = end(kafka, name, producer, commit=commit)
    assert ended == (0, producer[0], 1)
    settled(kafka, name)
    assert end(kafka, name, producer, commit=commit) == ended
    assert end(kafka, name, producer, commit=not commit) == (INVALID_STATE, *NO_PRODUCER)
    # A request of the last transaction does not end the next.
    assert add(kafka, name, (producer[0], 1), (topic, 0)) == [0]
    assert end(kafka, name, producer, commit=commit) == (FENCED, *NO_PRODUCER)
    assert settled(kafka, name) == "Ongoing"


def test_an_abort_of_nothing(kafka: Cluster) -> None:
    producer = begin(kafka, "nothing")
    assert end(kafka, "nothing", producer, commit=True) == (INVALID_STATE, *NO_PRODUCER)
    assert end(kafka, "nothing", producer, commit=False) == (0, producer[0], 1)
    assert settled(kafka, "nothing") == "CompleteAbort"


@pytest.mark.parametrize(("version", "fenced"), [(1, INVALID_EPOCH), (2, FENCED), (5, FENCED)])
def test_producers_that_may_not(kafka: Cluster, version: int, fenced: int) -> None:
    name = f"fenced-ending-{version}"
    producer_id, _ = begin(kafka, name)
    for producer, code in [((producer_id, 4), fenced), ((producer_id + 1, 0), MAPPING)]:
        assert end(kafka, name, producer, commit=True, version=version) == (code, *NO_PRODUCER)
    assert end(kafka, "never-begun", (producer_id, 0), commit=True, version=version)[0] == MAPPING
    assert end(kafka, "", (producer_id, 0), commit=True, version=version)[0] == INVALID_REQUEST
