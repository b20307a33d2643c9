"""`ottla group`: what it says is so, and what it does is done."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ottla.assignors import MemberSubscription
from ottla.assignors.protocol import encode_assignment, encode_subscription
from ottla.broker import Cluster
from ottla.client.blocking.client import Client
from ottla.client.topic_partition import TopicPartition
from ottla.wire.messages import JoinGroupRequest, JoinGroupResponse, SyncGroupRequest, SyncGroupResponse
from tests.cli import shell
from tests.cli.conftest import Ottla


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    """Of a cluster whose topic has three records in a partition, of which the group "billing" has read one."""
    cluster.seed("orders", [b"1", b"2", b"3"], 1)
    with Client(cluster.bootstrap) as client:
        client.admin.alter_group_offsets("billing", {TopicPartition("orders", 1): 1})
        yield client


def join(client: Client, group: str) -> str:
    """A member that has two partitions of orders; its id."""
    metadata = encode_subscription(MemberSubscription("", ("orders",)))
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=45_000,
        group_instance_id="till-1",
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    joined = client.request(request)
    assert isinstance(joined, JoinGroupResponse)
    assert joined.error_code == 0
    assigned = SyncGroupRequest.SyncGroupRequestAssignment(
        member_id=joined.member_id, assignment=encode_assignment([("orders", 0), ("orders", 1)])
    )
    synced = client.request(
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id="till-1",
            protocol_type="consumer",
            protocol_name="range",
            assignments=[assigned],
        )
    )
    assert isinstance(synced, SyncGroupResponse)
    assert synced.error_code == 0
    return joined.member_id


def rows(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_groups_are_listed_in_columns_or_as_json(client: Client, ottla: Ottla) -> None:
    assert ottla("group", "list").stdout == "billing\tclassic\tEmpty\t\n"
    assert json.loads(ottla("group", "list", "--json", "--state", "empty").stdout) == {
        "group": "billing",
        "type": "classic",
        "state": "Empty",
        "protocol": "",
    }
    assert ottla("group", "list", "--type", "consumer").stdout == ""
    assert "PreparingRebalance" in ottla("group", "list", "--state", "stabel", code=2).stderr


def test_a_group_is_described_with_its_members(cluster: Cluster, client: Client, ottla: Ottla) -> None:
    member = join(client, "till")
    (row,) = rows(ottla("group", "describe", "till").stdout)
    assert row[:4] + row[5:] == ["till", "classic", "Stable", "range", "1", "-"]
    assert row[4] in ("1", "2")
    (row,) = rows(ottla("group", "describe", "till", "--members").stdout)
    assert row[:3] + row[5:] == ["till", member, "till-1", "orders:0,1"]
    assert [row[:3] for row in rows(ottla("group", "describe", "billing", "till").stdout)] == [
        ["billing", "classic", "Empty"],
        ["till", "classic", "Stable"],
    ]


def test_lag_is_shown_for_each_partition_with_the_member_that_has_it(client: Client, ottla: Ottla) -> None:
    assert rows(ottla("group", "lag", "billing").stdout) == [["billing", "orders", "1", "1", "3", "2", "-"]]
    member = join(client, "billing")
    assert rows(ottla("group", "lag", "billing").stdout) == [
        ["billing", "orders", "0", "-", "0", "-", member],
        ["billing", "orders", "1", "1", "3", "2", member],
    ]


@pytest.mark.parametrize(
    ("move", "after"),
    [
        (["--to", "earliest"], "0"),
        (["--to", "end"], "3"),
        (["--to", "2"], "2"),
        (["--to", "-0s"], "3"),
        (["--to", "@1"], "0"),
        (["--shift", "-9"], "0"),
        (["--shift", "1"], "2"),
    ],
    ids=" ".join,
)
def test_a_group_is_moved_to_where_it_was_shown_to_go(
    client: Client, ottla: Ottla, move: list[str], after: str
) -> None:
    shown = ottla("group", "reset", "billing", *move, "--dry-run").stdout
    assert rows(shown) == [["billing", "orders", "1", "1", after]]
    assert client.admin.group_lag("billing")[TopicPartition("orders", 1)].committed == 1
    moved = ottla("group", "reset", "billing", *move, "--yes")
    assert (moved.stdout, moved.stderr) == (shown, "moved billing\n")
    assert client.admin.group_lag("billing")[TopicPartition("orders", 1)].committed == int(after)


def test_a_new_group_begins_in_the_topics_and_partitions_that_are_named(client: Client, ottla: Ottla) -> None:
    ottla("group", "reset", "new", "--to", "latest", "-t", "orders:1", "-t", "orders:2", "--yes")
    assert [row[2:5] for row in rows(ottla("group", "lag", "new").stdout)] == [
        ["1", "3", "3"],
        ["2", "0", "0"],
    ]


def test_offsets_and_groups_are_deleted(client: Client, ottla: Ottla) -> None:
    ottla("group", "reset", "billing", "--to", "0", "--topic", "orders", "--yes")
    deleted = ottla("group", "delete-offsets", "billing", "-t", "orders:0", "-t", "orders:2", "--yes")
    assert deleted.stderr == "deleted billing orders:0\ndeleted billing orders:2\n"
    assert list(client.admin.group_offsets("billing")) == [TopicPartition("orders", 1)]
    assert ottla("group", "delete", "billing", "--yes").stderr == "deleted billing\n"
    assert ottla("group", "list").stdout == ""


@pytest.mark.parametrize(
    "command",
    [("delete", "billing"), ("reset", "billing", "--to", "0"), ("delete-offsets", "billing", "-t", "orders")],
    ids=" ".join,
)
def test_nothing_changes_without_a_terminal_to_confirm_on(
    client: Client, ottla: Ottla, command: tuple[str, ...]
) -> None:
    before = client.admin.group_offsets("billing")
    assert "--yes" in ottla("group", *command, code=2).output
    assert client.admin.group_offsets("billing") == before


@pytest.mark.parametrize(("reply", "after"), [(b"n\n", 1), (b"y\n", 3)])
def test_the_user_at_the_terminal_decides_about_a_move(
    cluster: Cluster, client: Client, reply: bytes, after: int
) -> None:
    with shell.terminal() as (keyboard, terminal):
        with shell.running(
            cluster.bootstrap, "group", "reset", "billing", "--to", "latest", stdin=terminal
        ) as process:
            keyboard.write(reply)
            keyboard.flush()
            output, errors = process.communicate(timeout=shell.WITHIN)
        assert b"Move billing there?" in errors
        assert output == b"billing\torders\t1\t1\t3\n"
    assert client.admin.group_lag("billing")[TopicPartition("orders", 1)].committed == after


def test_what_cannot_be_done_is_said_in_one_line(client: Client, ottla: Ottla) -> None:
    join(client, "busy")
    for arguments, said in [
        (("describe", "biling"), "did you mean billing?"),
        (("lag", "zzz"), "there is no group zzz"),
        (("delete", "zzz", "--yes"), "`ottla group list`"),
        (("delete", "busy", "--yes"), "NON_EMPTY_GROUP"),
        (("reset", "busy", "--to", "earliest", "-t", "orders", "--yes"), "belong to its members"),
        (("reset", "billing", "--to", "earliest", "-t", "ordes", "--yes"), "did you mean orders?"),
        (("reset", "zzz", "--to", "earliest", "--yes"), "name the topics"),
        (("delete-offsets", "busy", "-t", "orders:0", "--yes"), "GROUP_SUBSCRIBED_TO_TOPIC"),
    ]:
        result = ottla("group", *arguments, code=1)
        assert result.stderr.startswith("ottla: ")
        assert said in result.stderr
        assert result.stderr.count("\n") == 1
