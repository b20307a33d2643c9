"""Clients are kept for the next task, and only those that can be used."""

from __future__ import annotations

import os

import pytest

from ottla.broker import Cluster
from ottla.config import ClientConfig
from ottla.spark.process import clients


def config(kafka: Cluster, **options: str) -> ClientConfig:
    return ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap, **options})


def test_one_configuration_has_one_client_and_another_configuration_another(kafka: Cluster) -> None:
    first = clients.client(config(kafka))
    assert clients.client(config(kafka)) is first
    assert clients.client(config(kafka, **{"client.id": "another"})) is not first
    assert clients.client(config(kafka), "round_robin") is not first


def test_a_client_that_is_closed_or_discarded_is_not_handed_out_again(kafka: Cluster) -> None:
    first = clients.client(config(kafka))
    first.close()
    second = clients.client(config(kafka))
    assert second is not first
    clients.discard(config(kafka))
    assert second.is_closed
    assert not clients.client(config(kafka)).is_closed


def test_the_one_that_was_used_longest_ago_gives_way(kafka: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MOST", 2)
    made = [clients.client(config(kafka, **{"client.id": f"{number}"})) for number in range(3)]
    assert [each.is_closed for each in made] == [True, False, False]


def test_a_forked_worker_makes_its_own(kafka: Cluster) -> None:
    first = clients.client(config(kafka))
    child = os.fork()
    if child == 0:
        own = clients.client(config(kafka))
        os._exit(0 if own is not first and own.admin.list_topics() is not None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert clients.client(config(kafka)) is first
