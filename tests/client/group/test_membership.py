"""Membership: who the member is, when it may commit, and who waits for that."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.group.membership import NO_GENERATION, Membership, MembershipState


def test_a_fenced_member_keeps_its_id_and_a_forgotten_one_does_not() -> None:
    membership = Membership("billing", "one")
    membership.joined("m-1", 7)
    membership.fenced()
    assert (membership.member_id, membership.generation) == ("m-1", NO_GENERATION)
    membership.joined("m-1", 8)
    membership.forgotten()
    assert (membership.member_id, membership.generation) == ("", NO_GENERATION)
    assert "billing" in str(membership)


@pytest.mark.parametrize(
    ("state", "commits", "over"),
    [
        (MembershipState.UNJOINED, False, False),
        (MembershipState.JOINING, False, False),
        (MembershipState.STABLE, True, False),
        (MembershipState.REVOKING, True, False),
        (MembershipState.STOPPED, False, True),
        (MembershipState.LEFT, False, True),
    ],
)
def test_commits_are_taken_while_it_is_in_the_group_and_gives_partitions_up(
    state: MembershipState, commits: bool, over: bool
) -> None:
    membership = Membership("billing")
    membership.move(state, "why")
    assert (membership.may_commit, membership.is_over, membership.reason) == (commits, over, "why")


def test_a_wait_ends_with_the_change_that_brings_it_about() -> None:
    async def main() -> None:
        membership = Membership("billing")
        waiting = asyncio.ensure_future(membership.wait_for(lambda: membership.may_commit))
        await asyncio.sleep(0)
        membership.move(MembershipState.JOINING)
        await asyncio.sleep(0)
        assert not waiting.done()
        membership.move(MembershipState.STABLE)
        await waiting
        await membership.wait_for(lambda: membership.may_commit)  # at once

    asyncio.run(main())
