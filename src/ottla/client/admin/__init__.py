"""Administration: topics, configs, groups, offsets, transactions, replicas, the cluster.

One module each; AsyncAdmin is all.

A call about one thing returns its result, or raises its error. A call about several returns `Results`: it raises the
error of the first that failed, or, with errors="collect", returns the failed ones beside the others.
Everything is built on requests that users can send themselves (client/requests/requests.py). `Admin`, the blocking
twin, is in client/blocking/admin.py, which is made from the modules here.
"""

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.results import (
    BrokerDescription,
    ClusterDescription,
    ConfigEntry,
    ConfigSynonym,
    CreatedTopic,
    Features,
    FencedProducer,
    GroupDescription,
    GroupOffset,
    GroupReset,
    HangingTransaction,
    ListedGroup,
    ListedOffset,
    ListedTransaction,
    LogDir,
    MemberDescription,
    NewTopic,
    PartitionDescription,
    PartitionLag,
    ProducerState,
    Reassignment,
    ReplicaSize,
    Results,
    TopicDescription,
    TransactionDescription,
    VersionRange,
)
from ottla.wire.resources import ConfigSource

__all__ = [
    "AsyncAdmin",
    "BrokerDescription",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigSource",
    "ConfigSynonym",
    "CreatedTopic",
    "Features",
    "FencedProducer",
    "GroupDescription",
    "GroupOffset",
    "GroupReset",
    "HangingTransaction",
    "ListedGroup",
    "ListedOffset",
    "ListedTransaction",
    "LogDir",
    "MemberDescription",
    "NewTopic",
    "PartitionDescription",
    "PartitionLag",
    "ProducerState",
    "Reassignment",
    "ReplicaSize",
    "Results",
    "TopicDescription",
    "TransactionDescription",
    "VersionRange",
]
