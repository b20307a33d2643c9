"""Which API versions each release of Apache Kafka serves: how to play an older one.

    Cluster(max_versions="2.8")

The table lists, per API, the release from which on a version is the highest; -1 where an API was not served. Only
the highest counts here: clients choose it, and what no release from 2.4 on needs is not served by this broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RELEASES: Final = (
    "2.4",
    "2.5",
    "2.6",
    "2.7",
    "2.8",
    "3.0",
    "3.1",
    "3.2",
    "3.3",
    "3.4",
    "3.5",
    "3.6",
    "3.7",
    "3.8",
    "3.9",
    "4.0",
    "4.1",
    "4.2",
    "4.3",
)

_HIGHEST: Final = """
Produce 2.4=8 2.8=9 3.7=10 3.8=11 4.0=12 4.1=13
Fetch 2.4=11 2.7=12 3.1=13 3.5=15 3.7=16 3.9=17 4.1=18
ListOffsets 2.4=5 2.8=6 3.0=7 3.5=8 3.9=9 4.0=10 4.2=11
Metadata 2.4=9 2.8=11 3.1=12 4.0=13
OffsetCommit 2.4=8 3.7=9 4.2=10
OffsetFetch 2.4=6 2.5=7 3.0=8 3.7=9 4.2=10
FindCoordinator 2.4=3 3.0=4 3.8=5 3.9=6
JoinGroup 2.4=6 2.5=7 3.2=9
Heartbeat 2.4=4
LeaveGroup 2.4=4 3.2=5
SyncGroup 2.4=4 2.5=5
DescribeGroups 2.4=5 4.0=6
ListGroups 2.4=3 2.6=4 3.8=5
SaslHandshake 2.4=1
ApiVersions 2.4=3 3.9=4
CreateTopics 2.4=5 2.7=6 2.8=7
DeleteTopics 2.4=4 2.7=5 2.8=6
DeleteRecords 2.4=1 2.6=2
InitProducerId 2.4=2 2.5=3 2.7=4 3.8=5
OffsetForLeaderEpoch 2.4=3 2.8=4
AddPartitionsToTxn 2.4=1 2.7=2 2.8=3 3.6=4 3.8=5
AddOffsetsToTxn 2.4=1 2.7=2 2.8=3 3.8=4
EndTxn 2.4=1 2.7=2 2.8=3 3.8=4 4.0=5
WriteTxnMarkers 2.4=0 2.8=1 4.2=2
TxnOffsetCommit 2.4=2 2.5=3 3.8=4 4.0=5
DescribeAcls 2.4=1 2.5=2 3.3=3
CreateAcls 2.4=1 2.5=2 3.3=3
DeleteAcls 2.4=1 2.5=2 3.3=3
DescribeConfigs 2.4=2 2.6=3 2.8=4
AlterConfigs 2.4=1 2.8=2
AlterReplicaLogDirs 2.4=1 2.8=2
DescribeLogDirs 2.4=1 2.6=2 3.2=3 3.3=4 4.3=5
SaslAuthenticate 2.4=1 2.5=2
CreatePartitions 2.4=1 2.5=2 2.7=3
CreateDelegationToken 2.4=2 3.3=3
RenewDelegationToken 2.4=1 2.5=2
ExpireDelegationToken 2.4=1 2.5=2
DescribeDelegationToken 2.4=1 2.5=2 3.3=3
DeleteGroups 2.4=2
ElectLeaders 2.4=2
IncrementalAlterConfigs 2.4=1
AlterPartitionReassignments 2.4=0 4.1=1
ListPartitionReassignments 2.4=0
OffsetDelete 2.4=0
DescribeClientQuotas 2.6=0 2.8=1
AlterClientQuotas 2.6=0 2.8=1
DescribeUserScramCredentials 2.7=0
AlterUserScramCredentials 2.7=0
DescribeQuorum 2.7=0 3.3=1 3.9=2
UpdateFeatures 2.7=0 3.3=1 4.0=2
DescribeCluster 2.8=0 3.7=1 4.0=2
DescribeProducers 2.8=0
UnregisterBroker 2.8=0
DescribeTransactions 3.0=0
ListTransactions 3.0=0 3.8=1 4.1=2
ConsumerGroupHeartbeat 3.7=0 4.0=1
ConsumerGroupDescribe 3.8=0 4.0=1
GetTelemetrySubscriptions 3.7=0
PushTelemetry 3.7=0
ListConfigResources 3.7=0 4.1=1
DescribeTopicPartitions 3.8=0
ShareGroupHeartbeat 4.1=1
ShareGroupDescribe 4.1=1
ShareFetch 4.1=1 4.2=2
ShareAcknowledge 4.1=1 4.2=2
AddRaftVoter 3.9=0 4.2=1
RemoveRaftVoter 3.9=0
InitializeShareGroupState 4.1=0
ReadShareGroupState 4.1=0
WriteShareGroupState 4.1=0 4.2=1
DeleteShareGroupState 4.1=0
ReadShareGroupStateSummary 4.1=0 4.2=1
StreamsGroupHeartbeat 4.2=0
StreamsGroupDescribe 4.2=0
DescribeShareGroupOffsets 4.1=0 4.2=1
AlterShareGroupOffsets 4.1=0
DeleteShareGroupOffsets 4.1=0
"""


def max_versions_of(given: Mapping[str, int] | str | None) -> dict[str, int]:
    """What `max_versions=` stands for: a release, or versions by the name of their API."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    if given not in RELEASES:
        raise ValueError(f"max_versions={given!r}: the releases known here are {', '.join(RELEASES)}")
    return {
        name: _highest(changes, given) for name, *changes in map(str.split, _HIGHEST.strip().splitlines())
    }


def _highest(changes: list[str], release: str) -> int:
    highest = -1
    for change in changes:
        since, _, version = change.partition("=")
        if RELEASES.index(since) <= RELEASES.index(release):
            highest = int(version)
    return highest
