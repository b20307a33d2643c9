"""KIP-848 groups of foreign members: librdkafka and Kafka's own tools, on both brokers."""

from __future__ import annotations

import uuid

import pytest

from tests.interop import confluent, tools
from tests.interop.brokers import Broker
from tests.interop.groups.confluent_member import ConfluentMember
from tests.interop.waiting import eventually

PARTITIONS = 6
RECORDS = 60


@pytest.fixture
def topic(quick: Broker) -> str:
    name = quick.create_topic(PARTITIONS)
    fill(quick, name)
    return name


@pytest.fixture
def group_id() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def fill(broker: Broker, topic: str) -> None:
    confluent.produce(broker.bootstrap, topic, [b"x"] * RECORDS)


def wait_until_read(members: list[ConfluentMember], count: int) -> None:
    """Until so many records have been read, each at least once."""
    eventually(
        lambda: len({read for member in members for read in member.read}) == count, f"{count} records", 60
    )


def test_members_of_librdkafka_join_leave_and_die(quick: Broker, topic: str, group_id: str) -> None:
    def member() -> ConfluentMember:
        return ConfluentMember(quick.bootstrap, group_id, "consumer", topic)

    with member() as a:
        a.owns(6)
        wait_until_read([a], RECORDS)
        with member() as b, member() as c:
            for each in (a, b, c):
                each.owns(2)
            assert len(a.owned | b.owned | c.owned) == PARTITIONS
            fill(quick, topic)
            wait_until_read([a, b, c], 2 * RECORDS)
            b.kill()
            a.owns(3)
            c.owns(3)
            a.leave()
            c.owns(6)
            fill(quick, topic)
            wait_until_read([a, b, c], 3 * RECORDS)
            read = [*a.read, *c.read]
            assert len(read) == len(set(read)), "only what the dead one had not committed is read twice"


def test_a_regular_expression_of_librdkafka_finds_topics_by_itself(
    quick: Broker, topic: str, group_id: str
) -> None:
    with ConfluentMember(quick.bootstrap, group_id, "consumer", f"^{topic}.*") as member:
        member.owns(6)
        wait_until_read([member], RECORDS)


def test_a_classic_group_of_librdkafka_moves_to_the_new_protocol_and_back(
    quick: Broker, topic: str, group_id: str
) -> None:
    with ConfluentMember(quick.bootstrap, group_id, "classic", topic) as old:
        old.owns(6)
        with ConfluentMember(quick.bootstrap, group_id, "consumer", topic) as new:
            new.owns(3)
            old.owns(3)
            fill(quick, topic)
            wait_until_read([old, new], 2 * RECORDS)
            new.leave()
            old.owns(6)
        fill(quick, topic)
        wait_until_read([old, new], 3 * RECORDS)
        read = [*old.read, *new.read]
        assert len(read) == len(set(read))


def test_the_console_consumer_reads_and_the_groups_tool_describes(
    quick: Broker, topic: str, group_id: str
) -> None:
    read = tools.output(
        quick.bootstrap,
        "kafka-console-consumer",
        *("--topic", topic, "--group", group_id, "--from-beginning", "--max-messages", str(RECORDS)),
        *("--command-property", "group.protocol=consumer"),
    )
    assert read.split() == ["x"] * RECORDS
    with ConfluentMember(quick.bootstrap, group_id, "consumer", topic) as member:
        member.owns(6)
        described = tools.output(quick.bootstrap, "kafka-consumer-groups", "--describe", "--group", group_id)
        lags = [line.split()[5] for line in described.splitlines() if line.startswith(group_id)]
        assert lags == ["0"] * PARTITIONS

        def is_stable() -> bool:
            state = tools.output(
                quick.bootstrap, "kafka-consumer-groups", "--describe", "--group", group_id, "--state"
            )
            return {"Stable", "uniform"} <= set(state.split())

        eventually(is_stable, "the group to be stable", within=60)
        member.leave()
    listed = tools.output(quick.bootstrap, "kafka-groups", "--list")
    assert [line.split()[1:] for line in listed.splitlines() if line.startswith(group_id)] == [
        ["Consumer", "consumer"]
    ]

    def is_deleted() -> bool:
        delete = ("kafka-consumer-groups", "--delete", "--group", group_id)
        return "successful" in tools.run(quick.bootstrap, *delete).stdout

    eventually(is_deleted, "the group without members to be deleted", within=60)
