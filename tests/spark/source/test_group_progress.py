"""A query shows its progress in a consumer group, at no cost to itself, and takes no group away from consumers."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import pytest

import ottla
from ottla import TopicPartition
from ottla.broker import Cluster, error, never
from ottla.spark.source import group_progress
from ottla.spark.source.checkpoint import PartitionOffsets
from ottla.spark.source.group_progress import CommitSchedule, Farewell, GroupProgress

ORDERS = TopicPartition("orders", 0)
LOGGER = "ottla.spark.source.group_progress"
LONG = 3600.0
"""Seconds between two commits: the second one is made by who hurries, or not at all."""


@pytest.fixture(autouse=True)
def there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer than a query should wait."""
    monkeypatch.setattr(group_progress, "FAREWELL", 60.0)


def at(offset: int) -> PartitionOffsets:
    return {ORDERS: offset}


# What is committed when


def test_new_offsets_are_due_at_once_and_the_next_ones_a_while_later() -> None:
    schedule = CommitSchedule(every=1.0)
    assert schedule.wait(now=10.0) is None
    assert schedule.reported(at(5), now=10.0)
    assert schedule.wait(now=10.0) == 0.0
    schedule.succeeded(schedule.take(), now=10.0)
    assert schedule.wait(now=10.0) is None
    assert schedule.reported(at(6), now=10.2)
    assert schedule.reported(at(7), now=10.4)
    assert schedule.wait(now=10.4) == pytest.approx(0.6)
    assert schedule.take() == at(7)


def test_what_comes_while_a_commit_is_on_its_way_stays_pending() -> None:
    schedule = CommitSchedule()
    schedule.reported(at(5), now=0.0)
    sent = schedule.take()
    schedule.reported(at(6), now=0.1)
    schedule.succeeded(sent, now=0.2)
    assert schedule.wait(now=5.0) == 0.0
    assert schedule.take() == at(6)


def test_the_same_offsets_are_committed_again_only_before_brokers_forget_them() -> None:
    schedule = CommitSchedule()
    assert not schedule.reported({}, now=0.0)
    schedule.reported(at(5), now=0.0)
    assert not schedule.reported(at(5), now=700.0), "they are pending already"
    schedule.succeeded(at(5), now=700.0)
    assert not schedule.reported(at(5), now=1299.0)
    assert schedule.reported(at(5), now=1300.0)


def test_failures_are_tried_again_ever_more_seldom_until_there_is_something_new() -> None:
    schedule = CommitSchedule(every=1.0)
    schedule.reported(at(5), now=0.0)
    waits = []
    for _ in range(50):
        schedule.failed(now=0.0)
        waits.append(schedule.wait(now=0.0))
    assert waits[:6] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
    assert waits[-1] == 30.0
    schedule.reported(at(6), now=0.0)
    assert schedule.wait(now=0.0) == 1.0


# Committing


@pytest.fixture
def client(kafka: Cluster) -> Iterator[ottla.Client]:
    kafka.create_topic("orders", 1)
    kafka.seed("orders", [b"%d" % number for number in range(10)])
    with ottla.Client(kafka.bootstrap) as client:
        yield client


MakeProgress = Callable[..., GroupProgress]


@pytest.fixture
def make(client: ottla.Client) -> Iterator[MakeProgress]:
    made: list[GroupProgress] = []

    def make(group: str = "spark", every: float = LONG) -> GroupProgress:
        made.append(GroupProgress(group, lambda: client, every=every))
        return made[-1]

    yield make
    for progress in made:
        progress.close()


def committed(client: ottla.Client, group: str = "spark") -> dict[TopicPartition, int]:
    found = client.admin.group_offsets(group)
    return {partition: offset.offset for partition, offset in found.items() if offset is not None}


def test_lag_tools_see_what_is_finished(client: ottla.Client, make: MakeProgress) -> None:
    progress = make()
    progress.finished(at(4))
    assert progress.flush()
    lag = client.admin.group_lag("spark")[ORDERS]
    assert (lag.committed, lag.end, lag.lag) == (4, 10, 6)
    assert client.admin.describe_group("spark").members == ()


def test_offsets_that_come_too_soon_are_committed_in_the_end(
    client: ottla.Client, make: MakeProgress
) -> None:
    progress = make()
    for offset in range(1, 10):
        progress.finished(at(offset))
    progress.close()
    assert committed(client) == at(9)
    progress.finished(at(10))
    assert committed(client) == at(9), "it is closed"


def test_a_new_query_with_nothing_to_commit_has_no_thread(make: MakeProgress) -> None:
    before = threading.active_count()
    progress = make()
    progress.finished({})
    assert progress.flush()
    assert threading.active_count() <= before


@contextmanager
def member(kafka: Cluster, protocol: Literal["classic", "consumer"]) -> Iterator[None]:
    """A consumer that has joined the group, and has a record."""
    with (
        ottla.Client(kafka.bootstrap, group_protocol=protocol, enable_auto_commit=False) as client,
        client.consume("orders", group="spark", start="earliest") as consumer,
    ):
        next(iter(consumer))
        yield


def test_once_the_members_of_a_group_are_gone_progress_is_committed_again(
    kafka: Cluster, client: ottla.Client, make: MakeProgress, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    progress = make()
    progress.finished(at(1))
    assert progress.flush()
    with member(kafka, "classic"):
        for offset in (2, 3):
            progress.finished(at(offset))
            assert progress.flush()
        assert committed(client) == at(1)
    progress.finished(at(4))
    assert progress.flush()
    assert committed(client) == at(4)
    warning, good_news = caplog.records
    assert warning.levelname == "WARNING"
    assert "to group spark (ottla.commit.group)" in warning.getMessage()
    assert "has members: its offsets are its consumers' own" in warning.getMessage()
    assert "again" in good_news.getMessage()


def test_a_group_that_consumers_have_before_the_query_is_left_alone(
    kafka: Cluster, client: ottla.Client, make: MakeProgress, caplog: pytest.LogCaptureFixture
) -> None:
    progress = make()
    with member(kafka, "classic"):
        progress.finished(at(7))
        assert progress.flush()
    assert "the group has 1 members" in caplog.text
    assert committed(client) == {}


def test_a_group_of_the_consumer_protocol_is_refused_also_when_it_is_empty(
    kafka: Cluster, client: ottla.Client, make: MakeProgress, caplog: pytest.LogCaptureFixture
) -> None:
    with member(kafka, "consumer"):
        pass
    assert client.admin.describe_group("spark").members == ()
    progress = make()
    progress.finished(at(7))
    assert progress.flush()
    assert "consumer protocol (KIP-848)" in caplog.text
    assert committed(client) == {}


def test_an_error_of_the_coordinator_is_a_warning_and_the_offsets_come_with_the_next_attempt(
    kafka: Cluster, client: ottla.Client, make: MakeProgress, caplog: pytest.LogCaptureFixture
) -> None:
    progress = make()
    fault = kafka.faults.add(api="OffsetCommit", action=error("GROUP_AUTHORIZATION_FAILED"))
    for offset in (2, 3):
        progress.finished(at(offset))
        assert progress.flush()
    assert fault.hits == 2
    assert caplog.text.count("the query itself goes on") == 1
    kafka.faults.remove(fault)
    progress.close()
    assert committed(client) == at(3)


def test_a_partition_that_is_gone_keeps_no_other_from_being_committed(
    client: ottla.Client, make: MakeProgress, caplog: pytest.LogCaptureFixture
) -> None:
    progress = make()
    progress.finished({ORDERS: 3, TopicPartition("gone", 0): 5})
    assert progress.flush()
    assert committed(client) == at(3)
    assert "Of gone-0: " in caplog.text


def test_a_coordinator_that_does_not_respond_costs_the_end_of_a_query_no_more_than_it_may(
    kafka: Cluster, make: MakeProgress, caplog: pytest.LogCaptureFixture
) -> None:
    progress = make()
    fault = kafka.faults.add(api="OffsetCommit", action=never)
    progress.finished(at(2))
    progress.close(timeout=0.1)
    assert "took longer than 0.1 s" in caplog.text
    assert fault.hits <= 1


# The end of the process

_PROGRAM = """
import sys
from ottla.spark.source.group_progress import Farewell
farewell = Farewell()
try:
    print("ready", flush=True)
    sys.stdin.read()
finally:
    print("committed", flush=True)
    farewell.over()
    print("survived", flush=True)
"""


def test_the_signal_that_ends_the_process_waits_for_the_last_commit() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        output, errors = process.communicate(timeout=600)
    assert (output, errors, process.returncode) == ("committed\n", "", -signal.SIGTERM)


def test_a_handler_of_the_program_is_left_in_place() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        Farewell().over()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_without_a_signal_nothing_is_left_behind() -> None:
    before = signal.getsignal(signal.SIGTERM)
    farewell = Farewell()
    farewell.over()
    farewell.over()
    assert signal.getsignal(signal.SIGTERM) is before
