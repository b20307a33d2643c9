"""Which answers ask the client to pause (KIP-219): those that say `throttle_time_ms` and were not delayed.

Older versions of an API are answered only after the pause, so the time in them is over when it arrives.
"""

from __future__ import annotations

from typing import Final

from ottla.wire import Message, api_named

# From which version on a broker answers first and expects the client to pause. APIs that are not named here are
# younger than that rule.
_SINCE: Final = {
    "Produce": 6,
    "Fetch": 8,
    "ListOffsets": 3,
    "Metadata": 6,
    "OffsetCommit": 4,
    "OffsetFetch": 4,
    "FindCoordinator": 2,
    "JoinGroup": 3,
    "Heartbeat": 2,
    "LeaveGroup": 2,
    "SyncGroup": 2,
    "DescribeGroups": 2,
    "ListGroups": 2,
    "ApiVersions": 2,
    "CreateTopics": 3,
    "DeleteTopics": 2,
    "DeleteRecords": 1,
    "InitProducerId": 1,
    "AddPartitionsToTxn": 1,
    "AddOffsetsToTxn": 1,
    "EndTxn": 1,
    "TxnOffsetCommit": 1,
    "DescribeAcls": 1,
    "CreateAcls": 1,
    "DeleteAcls": 1,
    "DescribeConfigs": 2,
    "AlterConfigs": 1,
    "AlterReplicaLogDirs": 1,
    "DescribeLogDirs": 1,
    "CreatePartitions": 1,
    "CreateDelegationToken": 1,
    "RenewDelegationToken": 1,
    "ExpireDelegationToken": 1,
    "DescribeDelegationToken": 1,
    "DeleteGroups": 1,
}
_SINCE_BY_KEY: Final = {api_named(name).key: version for name, version in _SINCE.items()}


def pause_of(answer: Message, version: int) -> float:
    """How many seconds the broker asks the client to pause; 0 for most answers."""
    milliseconds: int = getattr(answer, "throttle_time_ms", 0)
    if milliseconds <= 0 or version < _SINCE_BY_KEY.get(answer.API_KEY, 0):
        return 0.0
    return milliseconds / 1000
