"""`GroupConsumer`, the blocking one: membership goes on while the program works; callbacks may call what blocks."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.broker import Cluster
from ottla.client.blocking.group_consumer import GroupConsumer
from ottla.errors import ClientClosedError, KafkaError
from tests.client.group.grouping import COOPERATIVE, EAGER, PROTOCOLS, QUICK
from tests.interop.waiting import eventually

ORDERS = ottla.TopicPartition("orders", 0)
NUMBERS = [b"%d" % number for number in range(100)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 4}, config=QUICK) as cluster:
        yield cluster


def shared(*members: GroupConsumer, count: int = 4) -> None:
    def are_well() -> bool:
        owned = [tp for member in members for tp in member.assignment()]
        are_in = all(member.health().is_well and member.assignment() for member in members)
        return are_in and len(owned) == len(set(owned)) == count

    eventually(are_well, f"{len(members)} members to share {count} partitions")


@pytest.mark.parametrize("options", PROTOCOLS.values(), ids=PROTOCOLS)
def test_members_share_a_topic_and_commit_what_they_are_done_with(
    cluster: Cluster, options: dict[str, Any]
) -> None:
    for number in range(4):
        cluster.seed("orders", NUMBERS, number)
    seen: list[tuple[int, int]] = []
    servers = cluster.bootstrap
    with ottla.Client(servers, **options) as kafka, ottla.Client(servers, **options) as other:
        with kafka.consume("orders", group="billing") as one:
            for record in one:
                seen.append((record.partition, record.offset))
                if len(seen) == 150:
                    break
            with other.consume("orders", group="billing") as two:
                # The program does nothing with the first, whose partitions go all the same.
                shared(one, two)
                while len(set(seen)) < 400:
                    for member in (one, two):
                        seen += [(each.partition, each.offset) for each in member.poll(timeout=0.05)]
                one.poll(timeout=0)
                two.poll(timeout=0)
            shared(one)
            moved = [tp for tp, offset in one.committed().items() if offset is not None]
            assert len(moved) >= 2
            assert {one.committed()[tp] for tp in moved} == {100}
        with kafka.consume("orders", group="billing") as one:
            shared(one)
            assert set(one.committed().values()) == {100}
    # The one that it was working on when the other came.
    assert len(seen) <= 401


def test_callbacks_may_call_what_blocks(cluster: Cluster) -> None:
    cluster.seed("orders", NUMBERS)
    log: list[tuple[str, list[int], bool]] = []
    reading = threading.current_thread()

    def note(what: str) -> Callable[[GroupConsumer, list[ottla.TopicPartition]], None]:
        def called(consumer: GroupConsumer, given: list[ottla.TopicPartition]) -> None:
            log.append((what, [consumer.position(tp) for tp in given], threading.current_thread() is reading))
            if what == "assigned":
                consumer.seek(ORDERS, 90)
            else:
                consumer.commit()

        return called

    options = {**EAGER, "enable_auto_commit": False}
    with (
        ottla.Client(cluster.bootstrap, **options) as kafka,
        kafka.consume(
            "orders", group="billing", on_assigned=note("assigned"), on_revoked=note("revoked")
        ) as consumer,
    ):
        assert [record.offset for record in consumer.poll(timeout=30)] == list(range(90, 100))
        consumer.poll(timeout=0)
    assert log == [("assigned", [0] * 4, False), ("revoked", [100, 0, 0, 0], False)]
    with ottla.Client(cluster.bootstrap, **EAGER) as kafka:
        assert kafka.consume("orders", group="billing").committed(ORDERS) == {ORDERS: 100}


def test_what_a_callback_raises_the_next_poll_raises(cluster: Cluster) -> None:
    cluster.seed("orders", NUMBERS)

    def assigned(*_: object) -> None:
        raise ZeroDivisionError("in the callback")

    with (
        ottla.Client(cluster.bootstrap, **EAGER) as kafka,
        kafka.consume("orders", group="billing", on_assigned=assigned) as consumer,
    ):
        with pytest.raises(ZeroDivisionError):
            consumer.poll(timeout=30)
        assert len(consumer.poll(timeout=30)) == 100


def test_commits_by_hand_later_and_of_marks(cluster: Cluster) -> None:
    cluster.seed("orders", NUMBERS)
    options = {**EAGER, "auto_commit_marks": True}
    with (
        ottla.Client(cluster.bootstrap, **options) as kafka,
        kafka.consume("orders", group="billing") as consumer,
    ):
        records = consumer.poll(10, timeout=30)
        consumer.commit(records[4])
        assert consumer.committed(ORDERS) == {ORDERS: 5}
        done: list[KafkaError | None] = []
        came = threading.Event()

        def committed(error: KafkaError | None) -> None:
            done.append(error)
            came.set()

        consumer.commit_async({ORDERS: 6}, on_done=committed)
        assert came.wait(30)
        assert (done, consumer.committed(ORDERS)) == ([None], {ORDERS: 6})
        consumer.mark(*records[:8])
        consumer.commit_marked()
        assert consumer.committed(ORDERS) == {ORDERS: 8}


def test_a_rebalance_waits_for_the_program_if_it_wants_that(cluster: Cluster) -> None:
    for number in range(4):
        cluster.seed("orders", NUMBERS, number)
    options = {**COOPERATIVE, "block_rebalance_on_poll": True}
    with (
        ottla.Client(cluster.bootstrap, **options) as kafka,
        ottla.Client(cluster.bootstrap, **COOPERATIVE) as other,
        kafka.consume("orders", group="billing") as one,
    ):
        seen = []
        two = other.consume("orders", group="billing")
        for record in one:
            seen.append((record.partition, record.offset))
            if len(seen) == 1:
                two.poll(timeout=0)
                eventually(lambda: one.health().state == "giving partitions up", "the rebalance to wait")
            if len(seen) == 10:
                break
        one.allow_rebalance()
        shared(one, two)
        assert len(seen) == 10
        two.close()


def test_a_consumer_that_is_let_go_leaves_its_group(cluster: Cluster) -> None:
    with ottla.Client(cluster.bootstrap, **EAGER) as kafka, ottla.Client(cluster.bootstrap, **EAGER) as other:
        left = kafka.consume("orders", group="billing")
        left.poll(timeout=0)
        stays = other.consume("orders", group="billing")
        stays.poll(timeout=0)
        shared(left, stays)
        del left
        gc.collect()
        # Long before its session would have ended by itself, if that took its 45 seconds.
        shared(stays)


def test_batches_of_a_group(cluster: Cluster) -> None:
    pytest.importorskip("pyarrow")
    cluster.seed("orders", NUMBERS)
    with ottla.Client(cluster.bootstrap, **EAGER) as kafka:
        with kafka.consume_batches("orders", group="billing") as batches:
            assert next(batches).num_rows == 100
        assert kafka.consume("orders", group="billing").committed(ORDERS) == {ORDERS: 0}


def test_iteration_in_a_thread_while_another_asks_for_health(cluster: Cluster) -> None:
    for number in range(4):
        cluster.seed("orders", NUMBERS, number)
    with ottla.Client(cluster.bootstrap, **EAGER) as kafka:
        consumer = kafka.consume("orders", group="billing")
        seen: list[int] = []

        def read() -> None:
            for record in consumer:
                seen.append(record.offset)
                if len(seen) == 400:
                    return

        thread = threading.Thread(target=read)
        thread.start()
        eventually(lambda: consumer.health().is_well and len(seen) == 400, "all to be read")
        thread.join()
        assert sum(consumer.health().lag.values()) == 0
        consumer.close()


@pytest.mark.parametrize("callback", ["on_assigned", "on_revoked"])
def test_a_callback_that_closes_its_consumer_has_it_closed_when_it_has_returned(
    cluster: Cluster, callback: str
) -> None:
    log: list[bool] = []

    def close(consumer: GroupConsumer, partitions: list[ottla.TopicPartition]) -> None:
        consumer.close()
        log.append(consumer.health().state == "left")

    callbacks: dict[str, Any] = {callback: close}
    with ottla.Client(cluster.bootstrap, **EAGER) as kafka, ottla.Client(cluster.bootstrap, **EAGER) as other:
        consumer = kafka.consume("orders", group="billing", **callbacks)
        consumer.__enter__()
        if callback == "on_revoked":
            shared(consumer)
        # Another member comes, and all give up what they have.
        with other.consume("orders", group="billing") as left:
            with pytest.raises(ClientClosedError):
                consumer.poll(timeout=30)
            # Waits until it is closed indeed.
            consumer.close()
            assert consumer.health().state == "left"
            assert log == [False]
            shared(left)


def test_a_callback_that_reads_or_closes_the_client_is_refused(cluster: Cluster) -> None:
    cluster.seed("orders", NUMBERS)
    refused: list[str] = []

    def called(consumer: GroupConsumer, partitions: list[ottla.TopicPartition]) -> None:
        uses: list[Callable[[], object]] = [
            lambda: consumer.poll(timeout=30),
            lambda: next(iter(consumer)),
            lambda: next(consumer.batches()),
            kafka.close,
        ]
        for use in uses:
            with pytest.raises(RuntimeError, match="a callback of a rebalance has") as raised:
                use()
            refused.append(str(raised.value))

    with (
        ottla.Client(cluster.bootstrap, **EAGER) as kafka,
        kafka.consume("orders", group="billing", on_assigned=called) as consumer,
    ):
        assert len(consumer.poll(timeout=30)) == 100
        assert len(refused) == 4


@pytest.mark.parametrize("options", PROTOCOLS.values(), ids=PROTOCOLS)
def test_a_thread_or_a_callback_purges_topics_of_a_member(cluster: Cluster, options: dict[str, Any]) -> None:
    cluster.create_topic("audit", 1)
    cluster.create_topic("third", 1)
    for number in range(4):
        cluster.seed("orders", NUMBERS, number)
    audit = ottla.TopicPartition("audit", 0)
    revoked: list[ottla.TopicPartition] = []
    with ottla.Client(cluster.bootstrap, **options) as kafka:

        def on_revoked(consumer: GroupConsumer, given: list[ottla.TopicPartition]) -> None:
            revoked.extend(given)
            kafka.purge_topics("third")

        topics = ("orders", "audit", "third")
        with kafka.consume(*topics, group="billing", on_revoked=on_revoked) as consumer:
            shared(consumer, count=6)
            assert consumer.poll(10, timeout=60)
            purging = threading.Thread(target=consumer.purge_topics, args=("orders",))
            purging.start()
            purging.join(60)
            assert not purging.is_alive()
            assert {tp for tp in revoked if tp.topic == "orders"} == {
                ottla.TopicPartition("orders", number) for number in range(4)
            }
            eventually(
                lambda: consumer.assignment() == [audit] and consumer.health().is_well,
                "the member to have nothing but audit",
            )
            cluster.seed("audit", [b"audited"])
            assert [record.value for record in consumer.poll(timeout=60)] == [b"audited"]


@pytest.mark.parametrize(
    ("protocol", "assignor"),
    [
        ("group.protocol=classic\nsession.timeout.ms=2500\nheartbeat.interval.ms=200", "cooperative-sticky"),
        ("group.protocol=CONSUMER\ngroup.remote.assignor=range", "range"),
    ],
    ids=["classic", "kip-848"],
)
def test_a_properties_file_of_a_java_consumer_makes_the_same_member(
    cluster: Cluster, tmp_path: Path, protocol: str, assignor: str
) -> None:
    path = tmp_path / "consumer.properties"
    strategy = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    path.write_text(
        f"""
        bootstrap.servers={cluster.bootstrap}
        group.id = billing
        group.instance.id = till-1
        client.id = till
        {protocol}
        max.poll.interval.ms=60000
        max.poll.records: 3
        enable.auto.commit=false
        auto.offset.reset=earliest
        """
        + ("" if assignor == "range" else f"partition.assignment.strategy={strategy}\n")
    )
    cluster.seed("orders", NUMBERS)
    with (
        ottla.Client(config=ottla.ClientConfig.from_file(path)) as kafka,
        kafka.consume("orders") as consumer,
    ):
        assert len(consumer.poll(timeout=60)) == 3
        assert isinstance(consumer, GroupConsumer)
        shared(consumer)
        described = kafka.admin.describe_group("billing")
        (member,) = described.members
        assert (member.instance_id, member.client_id, described.assignor) == ("till-1", "till", assignor)
        assert described.group_type == ("consumer" if assignor == "range" else "classic")
        consumer.poll(timeout=60)
    # Nothing by itself, without auto-commit.
    with ottla.Client(cluster.bootstrap) as kafka:
        assert kafka.admin.group_offsets("billing") == {}
