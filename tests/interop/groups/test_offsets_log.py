"""What coordinators write into __consumer_offsets: the same bytes on both brokers, in the same batches."""

from __future__ import annotations

from tests.interop.groups.consumer import LEAVE_STATIC
from tests.interop.groups.group import Group
from tests.interop.groups.offsets_log import recorded, written


def test_the_life_of_a_classic_group(group: Group) -> None:
    static = group.stable_one(instance="inst-1", rebalance_ms=20_000)
    assert (static.commit(5), static.commit(6, partition=1, version=3, retention_ms=60_000)) == (0, 0)
    back = group.classic(instance="inst-1")
    assert back.join().error_code == 0
    assert (group.remove(("", "inst-1")), group.delete()) == ([0], 0)
    names = {"static": static.member_id, "back": back.member_id}
    assert written(group, names) == recorded("The life of a classic group")


def test_the_life_of_a_consumer_group(new_group: Group) -> None:
    first, static = new_group.consumer(), new_group.consumer(instance="inst-1")
    first.join()
    first.commit(5)
    static.join()
    first.beat()
    first.ack()
    static.ack()
    static.leave(LEAVE_STATIC)
    back = new_group.consumer(instance="inst-1")
    back.join()
    back.leave()
    first.beat(topics=["another"])
    first.ack()
    first.leave()
    assert new_group.delete() == 0
    names = {"first": first.member_id, "static": static.member_id, "back": back.member_id}
    assert written(new_group, names) == recorded("The life of a consumer group")


def test_the_migration_of_a_group_there_and_back(new_group: Group) -> None:
    old = new_group.stable_one()
    new = new_group.consumer()
    new.join()
    old.join()
    old.sync()
    new.ack()
    new.leave()
    names = {"old": old.member_id, "new": new.member_id}
    assert written(new_group, names) == recorded("The migration of a group there and back")
