"""What a member does about each error code, per request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.client.group.reactions import (
    Reaction,
    after_commit,
    after_consumer_heartbeat,
    after_heartbeat,
    after_join,
    after_offset_fetch,
    after_sync,
)
from ottla.errors import ERRORS

R = Reaction
CODES = {error.name: code for code, error in ERRORS.items()}


@pytest.mark.parametrize(
    ("name", "join", "sync", "heartbeat", "commit"),
    [
        ("MEMBER_ID_REQUIRED", R.REJOIN, R.FAIL, R.FAIL, R.FAIL),
        ("REBALANCE_IN_PROGRESS", R.REJOIN, R.REJOIN, R.REJOIN, R.REJOIN),
        ("ILLEGAL_GENERATION", R.LOSE, R.LOSE, R.LOSE, R.LOSE),
        ("UNKNOWN_MEMBER_ID", R.LOSE_ID, R.LOSE_ID, R.LOSE_ID, R.LOSE_ID),
        ("FENCED_INSTANCE_ID", R.FENCED, R.FENCED, R.FENCED, R.FENCED),
        ("INCONSISTENT_GROUP_PROTOCOL", R.FAIL, R.FAIL, R.FAIL, R.FAIL),
        ("INVALID_GROUP_ID", R.FAIL, R.FAIL, R.FAIL, R.FAIL),
        ("INVALID_SESSION_TIMEOUT", R.FAIL, R.FAIL, R.FAIL, R.FAIL),
        ("GROUP_MAX_SIZE_REACHED", R.FAIL, R.FAIL, R.FAIL, R.FAIL),
        ("GROUP_AUTHORIZATION_FAILED", R.FAIL, R.FAIL, R.FAIL, R.FAIL),
        ("COORDINATOR_LOAD_IN_PROGRESS", R.RETRY, R.RETRY, R.RETRY, R.RETRY),
        ("NOT_COORDINATOR", R.RETRY, R.RETRY, R.RETRY, R.RETRY),
        ("UNKNOWN_TOPIC_OR_PARTITION", R.RETRY, R.RETRY, R.RETRY, R.RETRY),
        ("OFFSET_METADATA_TOO_LARGE", R.FAIL, R.FAIL, R.FAIL, R.FAIL),
    ],
)
def test_codes_of_the_classic_protocol(
    name: str, join: Reaction, sync: Reaction, heartbeat: Reaction, commit: Reaction
) -> None:
    code = CODES[name]
    found = (after_join(code), after_sync(code), after_heartbeat(code), after_commit(code))
    assert found == (join, sync, heartbeat, commit)


@pytest.mark.parametrize(
    ("name", "heartbeat", "commit", "offsets"),
    [
        # The member id is its own, and is kept: another one would wait for this one's session to end.
        ("FENCED_MEMBER_EPOCH", R.LOSE, R.LOSE, R.FAIL),
        ("UNKNOWN_MEMBER_ID", R.LOSE, R.LOSE_ID, R.LOSE_ID),
        ("STALE_MEMBER_EPOCH", R.LOSE, R.REJOIN, R.REJOIN),
        ("UNRELEASED_INSTANCE_ID", R.FAIL, R.FAIL, R.FAIL),
        ("UNSUPPORTED_ASSIGNOR", R.FAIL, R.FAIL, R.FAIL),
        ("INVALID_REGULAR_EXPRESSION", R.FAIL, R.FAIL, R.FAIL),
        ("INVALID_REQUEST", R.FAIL, R.FAIL, R.FAIL),
        ("UNSTABLE_OFFSET_COMMIT", R.RETRY, R.RETRY, R.RETRY),
    ],
)
def test_codes_of_kip_848(name: str, heartbeat: Reaction, commit: Reaction, offsets: Reaction) -> None:
    code = CODES[name]
    found = (after_consumer_heartbeat(code), after_commit(code), after_offset_fetch(code))
    assert found == (heartbeat, commit, offsets)


@pytest.mark.parametrize(
    "after",
    [after_join, after_sync, after_heartbeat, after_commit, after_offset_fetch, after_consumer_heartbeat],
)
def test_no_code_goes_on_but_no_error(after: Callable[[int], Reaction]) -> None:
    assert after(0) is Reaction.GO_ON
    assert all(after(code) is not Reaction.GO_ON for code in ERRORS)


def test_the_hardest_of_several_reactions_counts() -> None:
    assert R.GO_ON < R.RETRY < R.REJOIN < R.LOSE < R.LOSE_ID < R.FAIL < R.FENCED
