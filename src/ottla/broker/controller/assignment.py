"""New partitions: the checks on replicas that someone chose by hand, and the first state of a partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.broker.controller.decision import Context
from ottla.broker.metadata.records import Partition
from ottla.errors import InvalidReplicaAssignmentError, InvalidReplicationFactorError
from ottla.wire import Uuid


def check_assignment(
    context: Context, replicas: Sequence[int], replication_factor: int | None = None
) -> None:
    """Raises what Kafka answers for a bad list of replicas; None leaves its length open."""
    if not replicas:
        raise InvalidReplicaAssignmentError("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker_id in sorted(replicas):
        if broker_id not in context.image.brokers:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
        if broker_id == previous:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment includes the broker {broker_id} more than once."
            )
        previous = broker_id
    if replication_factor is not None and len(replicas) != replication_factor:
        raise InvalidReplicaAssignmentError(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
            f"not consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def check_any_active(context: Context, index: int, replicas: Iterable[int]) -> None:
    if not any(map(context.image.is_active, replicas)):
        raise InvalidReplicaAssignmentError(
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown."
        )


def new_partition(context: Context, topic_id: Uuid, index: int, replicas: Sequence[int]) -> Partition:
    """Its active replicas are in sync, since there is nothing to catch up with, and the first of them leads."""
    isr = tuple(replica for replica in replicas if context.image.is_active(replica))
    if not isr:
        raise InvalidReplicationFactorError(
            f"Unable to replicate the partition {len(replicas)} time(s): All brokers are currently fenced or in "
            "controlled shutdown."
        )
    return Partition(topic_id, index, tuple(replicas), isr, leader=isr[0])
