"""Where clients are sent instead: to the leader of a partition, or to a replica in their own rack.

A node that does not lead a partition says who does, and where to reach it (KIP-951): Produce (since version 10) and
Fetch (since 16) carry such hints, in structures with the same fields. A leader with a rack-aware selector sends
consumers in another rack to the replica there (KIP-392).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.errors import BrokerError, FencedLeaderEpochError, NotLeaderOrFollowerError
from ottla.wire.messages import FetchResponse, ProduceResponse

if TYPE_CHECKING:
    from ottla.broker.metadata.image import MetadataImage
    from ottla.broker.replication.partition import Partition

HINTED: Final = (NotLeaderOrFollowerError, FencedLeaderEpochError)
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class LeaderHints:
    """Collects the leaders that one response names."""

    def __init__(self, image: MetadataImage, response: type[ProduceResponse] | type[FetchResponse]) -> None:
        self._image = image
        self._response: Any = response
        self._leaders: dict[int, None] = {}

    def add(self, result: Any, topic: str, index: int, error: BrokerError) -> None:
        """Puts the leader into the result of one partition, if the error is one that calls for it."""
        partition = self._image.partition(topic, index)
        if partition is None or not isinstance(error, HINTED):
            return
        result.current_leader = self._response.LeaderIdAndEpoch(
            leader_id=partition.leader, leader_epoch=partition.leader_epoch
        )
        self._leaders[partition.leader] = None

    def endpoints(self) -> list[Any]:
        """Where the leaders are that were named."""
        if not self._leaders:
            return []
        brokers = self._image.brokers
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


def preferred_replica(image: MetadataImage, partition: Partition, rack: str, offset: int) -> int | None:
    """Another replica than this leader: in sync, in the consumer's rack, and with this offset. None to stay here."""
    for replica, follower in partition.followers.items():
        broker = image.brokers.get(replica)
        if (
            replica in partition.image.isr
            and follower.log_start_offset <= offset <= follower.log_end_offset
            and broker is not None
            and broker.alive
            and broker.rack == rack
        ):
            return replica
    return None
