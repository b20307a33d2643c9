"""Leader hints (KIP-951): a node that does not lead a partition says who does, and where to reach it.

Produce (since version 10) and Fetch (since 16) carry them; the structures have the same fields in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.errors import BrokerError, FencedLeaderEpochError, NotLeaderOrFollowerError
from ottla.wire.messages import FetchResponse, ProduceResponse

if TYPE_CHECKING:
    from ottla.broker.cluster.node import Node

HINTED = (NotLeaderOrFollowerError, FencedLeaderEpochError)


class LeaderHints:
    """Collects the leaders that one answer names."""

    def __init__(self, node: Node, response: type[ProduceResponse] | type[FetchResponse]) -> None:
        self._node = node
        self._response: Any = response
        self._leaders: dict[int, None] = {}

    def add(self, answer: Any, topic: str, index: int, error: BrokerError) -> None:
        """Puts the leader into the answer for one partition, if the error is one that asks for it."""
        partition = self._node.image.partition(topic, index)
        if partition is None or not isinstance(error, HINTED):
            return
        answer.current_leader = self._response.LeaderIdAndEpoch(
            leader_id=partition.leader, leader_epoch=partition.leader_epoch
        )
        self._leaders[partition.leader] = None

    def endpoints(self) -> list[Any]:
        """Where the leaders are that were named."""
        brokers = self._node.image.brokers
        return [
            self._response.NodeEndpoint(
                node_id=leader,
                host=brokers[leader].host,
                port=brokers[leader].port,
                rack=brokers[leader].rack,
            )
            for leader in self._leaders
            if leader in brokers
        ]
