"""Apache Kafka and the embedded cluster answer members that do anything at any time alike."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from ottla.broker import Cluster
from tests.interop.apache import ApacheKafka
from tests.interop.brokers import ApacheBroker, Broker, EmbeddedBroker
from tests.interop.groups.group import Group
from tests.interop.groups.random_play import Stage, steps

PARTITIONS = 12
STEPS = 60
SHOWN = 15
SEEDS = [
    pytest.param(seed, marks=pytest.mark.kafka if seed < 8 else pytest.mark.kafka_full) for seed in range(20)
]


@pytest.fixture(scope="module")
def stages(quick_apache: ApacheKafka, quick_embedded: Cluster) -> Callable[[str], list[Stage]]:
    """Makes a stage on either broker, for a play of a name."""
    brokers: list[Broker] = [ApacheBroker(quick_apache), EmbeddedBroker(quick_embedded)]
    topics = [[broker.create_topic(PARTITIONS) for _ in range(2)] for broker in brokers]
    for broker, made in zip(brokers, topics, strict=True):
        with Group(broker, made[0]) as group:
            group.wait_until_known(made[1])
    return lambda play: [Stage(broker, made, play) for broker, made in zip(brokers, topics, strict=True)]


@pytest.mark.parametrize("seed", SEEDS)
def test_both_brokers_tell_members_and_others_the_same(
    stages: Callable[[str], list[Stage]], seed: int
) -> None:
    kafka, ottla = stages(f"play-{seed}-{uuid.uuid4().hex[:8]}")
    done: list[str] = []
    with kafka, ottla:
        for step in steps(seed, STEPS):
            answers = [(stage.do(step), stage.shown()) for stage in (kafka, ottla)]
            done.append(f"{step}: {answers[0][0]}")
            assert answers[1] == answers[0], "\n".join(["after", *done[-SHOWN:]])
