"""Replicas of partitions: electing leaders, and moving replicas to other brokers and other disks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from ottla.client.admin.base import AdminBase, grouped
from ottla.client.admin.results import Errors, Reassignment, Results, in_order
from ottla.client.topic_partition import TopicPartition
from ottla.errors import ElectionNotNeededError, KafkaError, from_code, raise_for_code
from ottla.wire.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

_ELECTIONS: Final = {"preferred": 0, "unclean": 1}


class ReplicasAdmin(AdminBase):
    """What can be done to the replicas of partitions."""

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election: Literal["preferred", "unclean"] = "preferred",
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, bool]:
        """Has leaders elected for these partitions, or for all: whether each got another one.

        "preferred" is the first replica of each; "unclean" takes any that is alive where none is in sync, and
        loses what only the others have. Of all partitions, only those that needed an election are returned.
        """
        requested = None if partitions is None else list(partitions)
        named = ElectLeadersRequest.TopicPartitions
        request = ElectLeadersRequest(
            election_type=_ELECTIONS[election],
            topic_partitions=None
            if requested is None
            else [named(topic=topic, partitions=numbers) for topic, numbers in grouped(requested).items()],
            timeout_ms=self._timeout_ms(timeout),
        )
        response = await self._send(request, ElectLeadersResponse, timeout)
        raise_for_code(response.error_code)
        found: dict[TopicPartition, bool] = {}
        failed: dict[TopicPartition, KafkaError] = {}
        for topic in response.replica_election_results:
            for result in topic.partition_result:
                key = TopicPartition(topic.topic, result.partition_id)
                error = _error(key, result.error_code, result.error_message)
                if error is None or isinstance(error, ElectionNotNeededError):
                    found[key] = error is None
                else:
                    failed[key] = error
        return in_order(requested or (), found, failed).checked(errors)

    async def alter_partition_reassignments(
        self,
        replicas: Mapping[TopicPartition, Sequence[int] | None],
        *,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Moves the replicas of partitions to these brokers, the preferred leader first; None stops a move.

        Returns when the moves have begun; `list_partition_reassignments` has those that are not over.
        """
        topic_of = AlterPartitionReassignmentsRequest.ReassignableTopic
        partition_of = AlterPartitionReassignmentsRequest.ReassignablePartition
        targets = {key: None if brokers is None else list(brokers) for key, brokers in replicas.items()}
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms(timeout),
            topics=[
                topic_of(
                    name=topic,
                    partitions=[
                        partition_of(partition_index=number, replicas=targets[TopicPartition(topic, number)])
                        for number in numbers
                    ],
                )
                for topic, numbers in grouped(replicas).items()
            ],
        )
        response = await self._send(request, AlterPartitionReassignmentsResponse, timeout)
        raise_for_code(response.error_code, response.error_message)
        found: dict[TopicPartition, None] = {}
        failed: dict[TopicPartition, KafkaError] = {}
        for topic in response.responses:
            for result in topic.partitions:
                key = TopicPartition(topic.name, result.partition_index)
                error = _error(key, result.error_code, result.error_message)
                if error is None:
                    found[key] = None
                else:
                    failed[key] = error
        return in_order(replicas, found, failed).checked(errors)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Those of these partitions, or of all, whose replicas are being moved."""
        named = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
        request = ListPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms(timeout),
            topics=None
            if partitions is None
            else [
                named(name=topic, partition_indexes=numbers) for topic, numbers in grouped(partitions).items()
            ],
        )
        response = await self._send(request, ListPartitionReassignmentsResponse, timeout)
        raise_for_code(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, partition.partition_index): Reassignment(
                tuple(partition.replicas),
                tuple(partition.adding_replicas),
                tuple(partition.removing_replicas),
            )
            for topic in response.topics
            for partition in topic.partitions
        }

    async def alter_replica_log_dirs(
        self,
        broker: int,
        paths: Mapping[TopicPartition, str],
        *,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Moves replicas that a broker has to others of its log directories, by their absolute paths.

        Returns when the moves have begun; until one is over, `describe_log_dirs` shows its replica in both
        directories, in the new one with `is_future`.

            kafka.admin.alter_replica_log_dirs(1, {ottla.TopicPartition("orders", 0): "/disk-2/kafka"})
        """
        directory = AlterReplicaLogDirsRequest.AlterReplicaLogDir
        topic_of = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic
        by_path: dict[str, list[TopicPartition]] = {}
        for partition, path in paths.items():
            by_path.setdefault(path, []).append(partition)
        request = AlterReplicaLogDirsRequest(
            dirs=[
                directory(
                    path=path,
                    topics=[
                        topic_of(name=topic, partitions=numbers) for topic, numbers in grouped(there).items()
                    ],
                )
                for path, there in by_path.items()
            ]
        )
        response = await self._send(request, AlterReplicaLogDirsResponse, timeout, broker)
        found: dict[TopicPartition, None] = {}
        failed: dict[TopicPartition, KafkaError] = {}
        for topic in response.results:
            for result in topic.partitions:
                key = TopicPartition(topic.topic_name, result.partition_index)
                error = from_code(result.error_code, topic=key.topic, partition=key.partition, broker=broker)
                if error is None:
                    found[key] = None
                else:
                    failed[key] = error
        return in_order(paths, found, failed).checked(errors)


def _error(key: TopicPartition, code: int, message: str | None) -> KafkaError | None:
    return from_code(code, message, topic=key.topic, partition=key.partition)
