"""Where the embedded cluster answers otherwise than Apache Kafka does, and why: the whole list.

docs/fidelity.md shows the same table to people; a test keeps the two together. An entry that explains nothing any
more fails as well as a difference that no entry explains.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Steps and fields, both as patterns of `fnmatch`, with what is different about them."""

    steps: str
    paths: tuple[str, ...]
    difference: str
    reason: str


def _apis(*names: str) -> tuple[str, ...]:
    return tuple(f"api_keys/{name}" for name in names)


def _features(*names: str) -> tuple[str, ...]:
    return tuple(f"{kind}_features/{name}.version" for name in names for kind in ("supported", "finalized"))


def _of_node(*configs: str) -> tuple[str, ...]:
    return tuple(f"results/1/configs/{config}/*" for config in configs)


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "*",
        (
            *_apis("ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge"),
            *_apis("InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState"),
            *_apis("DeleteShareGroupState", "ReadShareGroupStateSummary", "DescribeShareGroupOffsets"),
            *_apis("AlterShareGroupOffsets", "DeleteShareGroupOffsets"),
            *_apis("StreamsGroupHeartbeat", "StreamsGroupDescribe"),
            *_features("share", "streams"),
        ),
        "not offered",
        "the cluster has no share groups and no streams groups",
    ),
    Difference(
        "*",
        (
            *_apis("SaslHandshake", "SaslAuthenticate"),
            *_apis("CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken"),
            *_apis("DescribeDelegationToken", "DescribeClientQuotas", "AlterClientQuotas"),
            *_apis("DescribeUserScramCredentials", "AlterUserScramCredentials"),
        ),
        "not offered",
        "everyone may do everything: the cluster is for tests, on one machine",
    ),
    Difference(
        "*",
        (
            *_apis("DescribeQuorum", "UnregisterBroker", "AddRaftVoter", "RemoveRaftVoter"),
            *_apis("ListConfigResources"),
            *_features("kraft"),
        ),
        "not offered",
        "there is no quorum to administer",
    ),
    Difference(
        "describe configs: of a broker v4",
        _of_node("listeners", "listener.security.protocol.map", "inter.broker.listener.name", "log.dirs")
        + _of_node("process.roles", "controller.quorum.bootstrap.servers"),
        "at their defaults",
        "a node of the embedded cluster has one listener, no files and no part in a quorum",
    ),
    Difference(
        "*log dirs*",
        ("results/0/total_bytes", "results/0/usable_bytes"),
        "unknown (-1)",
        "the log directory of a node is in memory, not on a disk",
    ),
    Difference(
        "malformed: a client id with a length below minus one",
        ("*",),
        "the connection is closed",
        "only minus one stands for null",
    ),
    Difference(
        "malformed: Metadata with an array below minus one",
        ("*",),
        "the connection is closed",
        "only minus one stands for null",
    ),
    Difference(
        "malformed: Metadata with a string that is not UTF-8",
        ("*",),
        "the connection is closed",
        "Apache Kafka replaces the bytes that are wrong",
    ),
    Difference(
        "several whole changes: a topic twice v2",
        ("*",),
        "INVALID_REQUEST",
        "Apache Kafka fails inside and leaves the request without an answer",
    ),
    Difference(
        "produce refused: no records v9",
        ("*",),
        "INVALID_RECORD",
        "Apache Kafka fails inside and leaves the request without an answer",
    ),
)
