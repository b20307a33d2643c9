"""Which connection a request goes over."""

from __future__ import annotations

import pytest

from ottla.client.connections.purposes import Purpose, purpose_of
from ottla.wire import api_named

BY_PURPOSE = {
    Purpose.PRODUCE: ["Produce"],
    Purpose.FETCH: ["Fetch", "ShareFetch"],
    Purpose.GROUP: ["JoinGroup", "SyncGroup"],
    Purpose.SLOW: [
        "CreateTopics",
        "DeleteTopics",
        "DeleteRecords",
        "CreatePartitions",
        "ElectLeaders",
        "ListOffsets",
    ],
    Purpose.GENERAL: ["Metadata", "Heartbeat", "ConsumerGroupHeartbeat", "FindCoordinator"],
}


@pytest.mark.parametrize(
    ("name", "purpose"), [(name, purpose) for purpose, names in BY_PURPOSE.items() for name in names]
)
def test_nothing_waits_behind_what_is_slower_than_itself(name: str, purpose: Purpose) -> None:
    assert purpose_of(api_named(name).request()) is purpose
