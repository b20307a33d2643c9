"""DescribeCluster, DescribeTopicPartitions and FindCoordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.wire.messages import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    FindCoordinatorRequest,
)
from tests.interop.comparison.requests import given, just
from tests.interop.comparison.script import Build, ask, section

BROKERS, CONTROLLERS = 1, 2
GROUP, TRANSACTION, SHARE = 0, 1, 2
LOADING, NOT_AVAILABLE = 14, 15

DESCRIBED = section(
    "describe cluster",
    ask("brokers", just(DescribeClusterRequest()), 0, 1, 2),
    ask("with operations", just(DescribeClusterRequest(include_cluster_authorized_operations=True)), 0, 2),
    ask("with fenced brokers", just(DescribeClusterRequest(include_fenced_brokers=True)), 2),
    ask("controllers", just(DescribeClusterRequest(endpoint_type=CONTROLLERS)), 1, 2),
    ask("an unknown kind of nodes", just(DescribeClusterRequest(endpoint_type=9)), 1, 2),
)


def partitions_of(*topics: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Build:
    return just(
        DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.TopicRequest(name=topic) for topic in topics],
            response_partition_limit=limit,
            cursor=None
            if cursor is None
            else DescribeTopicPartitionsRequest.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
    )


PARTITIONS = section(
    "describe topic partitions",
    given("partitions-a", "partitions-b", partitions=3),
    ask("of one topic", partitions_of("partitions-a"), 0),
    ask("of two topics", partitions_of("partitions-b", "partitions-a"), 0),
    ask("of one topic twice", partitions_of("partitions-a", "partitions-a"), 0),
    ask("of an unknown topic", partitions_of("partitions-none"), 0),
    ask("of an unknown topic and a known one", partitions_of("partitions-none", "partitions-a"), 0),
    ask("of a wrong name", partitions_of("partitions none"), 0),
    ask("of an empty name", partitions_of(""), 0),
    ask("the first two", partitions_of("partitions-a", limit=2), 0),
    ask("the first four of two topics", partitions_of("partitions-a", "partitions-b", limit=4), 0),
    ask("exactly the first topic", partitions_of("partitions-a", "partitions-b", limit=3), 0),
    ask("from the second on", partitions_of("partitions-a", cursor=("partitions-a", 1)), 0),
    ask(
        "from the second topic on",
        partitions_of("partitions-a", "partitions-b", cursor=("partitions-b", 0)),
        0,
    ),
    ask(
        "from a topic between", partitions_of("partitions-a", "partitions-b", cursor=("partitions-aa", 0)), 0
    ),
    ask("from after the last", partitions_of("partitions-a", cursor=("partitions-a", 9)), 0),
    ask("from below zero", partitions_of("partitions-a", cursor=("partitions-a", -1)), 0),
    ask("no partitions", partitions_of("partitions-a", limit=0), 0),
    ask("fewer than none", partitions_of("partitions-a", limit=-1), 0),
    ask("the first of all topics", partitions_of(limit=1), 0),
    ask("of all topics, the last ones", partitions_of(cursor=("partitions-b", 2), limit=1), 0),
)


def one_key(key: str, kind: int = GROUP) -> Build:
    return just(FindCoordinatorRequest(key=key, key_type=kind))


def several_keys(keys: Sequence[str], kind: int = GROUP) -> Build:
    return just(FindCoordinatorRequest(coordinator_keys=list(keys), key_type=kind))


def is_settled(answer: Any) -> bool:
    """Not while the topic of the coordinators is being made and read."""
    codes = [answer.error_code, *(found.error_code for found in answer.coordinators)]
    return not any(code in (LOADING, NOT_AVAILABLE) for code in codes)


COORDINATORS = section(
    "find coordinator",
    ask("of a group, an old client", one_key("group"), 0, 1, 3, until=is_settled),
    ask("of a group", several_keys(["group"]), 4, 6, until=is_settled),
    ask("of two groups", several_keys(["group", "other"]), 4, 6, until=is_settled),
    ask("of a transaction, an old client", one_key("txn", TRANSACTION), 1, until=is_settled),
    ask("of a transaction", several_keys(["txn"], TRANSACTION), 4, 6, until=is_settled),
    ask("of an empty group", one_key(""), 0, 3),
    ask("of an empty group among keys", several_keys([""]), 4),
    ask("of no keys", several_keys([]), 4, 6),
    ask("of an unknown kind, an old client", one_key("x", 9), 1, 3),
    ask("of an unknown kind", several_keys(["x"], 9), 4, 6),
    ask("of a share partition by a wrong key", several_keys(["x"], SHARE), 6),
    ask("of a share partition before version 6", several_keys(["x"], SHARE), 5),
)
