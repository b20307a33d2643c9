"""Offsets and records of partitions: which offset an offset spec stands for, and deleting what lies before one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, Literal

from ottla.client.admin.base import AdminBase, by_partition, grouped
from ottla.client.admin.results import Errors, ListedOffset, ProducerState, Results
from ottla.client.consume.offset_spec import Timestamp, start_spec
from ottla.client.deadline import Deadline
from ottla.client.topic_partition import TopicPartition, check_partition
from ottla.errors import ConfigurationError, KafkaError
from ottla.wire.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)

Partitions = str | TopicPartition | Iterable[str | TopicPartition]
"""A topic stands for all its partitions."""

OffsetSpecLike = str | datetime | Timestamp
"""An offset spec as a caller writes it: a name from `_NAMED_SPECS`, or a time as `consume` takes it.

A number is an offset there, and no offset spec here.
"""

_NAMED_SPECS: Final[Mapping[str, int]] = {
    "latest": -1,
    "earliest": -2,
    "max_timestamp": -3,
    "earliest_local": -4,
    "latest_tiered": -5,
}

_A_CLIENT: Final = -1
_NO_OFFSET: Final = -1
_ALL_RECORDS: Final = -1
_ISOLATION: Final = {"read_uncommitted": 0, "read_committed": 1}


class OffsetsAdmin(AdminBase):
    """What can be read of, and done to, the logs of partitions."""

    async def list_offsets(
        self,
        partitions: Partitions | Mapping[TopicPartition, OffsetSpecLike],
        at: OffsetSpecLike | Mapping[TopicPartition, OffsetSpecLike] = "latest",
        *,
        isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, ListedOffset]:
        """The offset of an offset spec, in each of these partitions: topics, or TopicPartitions.

            ends = await kafka.admin.list_offsets("orders")
            since = await kafka.admin.list_offsets(["orders", "audit"], at=datetime(2026, 1, 1, tzinfo=UTC))

        `at` is "earliest", "latest", "max_timestamp" (the record with the latest time), or a time as `consume` takes
        it, a datetime, a `Timestamp` or "by_duration:PT1H": the first record that is not older. A mapping has one for
        each partition, also in place of the partitions, as `consume` takes it; those that it lacks give their end.
        With read_committed, "latest" ends before open transactions.
        """
        if isolation not in _ISOLATION:
            raise ValueError(f"isolation={isolation!r}: it is {' or '.join(map(repr, _ISOLATION))}")
        if isinstance(partitions, Mapping):
            if at != "latest":
                raise ConfigurationError(
                    f"at={at!r}: the mapping says for each partition where to look: leave at= out",
                    option="at",
                    value=at,
                )
            at = partitions
        deadline = self._deadline(timeout)
        now_ms = int(self._runtime.clock.time() * 1000)
        # Before anything is sent: what cannot be meant is refused without a broker.
        default = spec_timestamp("latest" if isinstance(at, Mapping) else at, now_ms)
        times = (
            {check_partition(key): spec_timestamp(each, now_ms) for key, each in at.items()}
            if isinstance(at, Mapping)
            else {}
        )
        requested = await self._partitions(partitions, deadline)
        topic_of, partition_of = ListOffsetsRequest.ListOffsetsTopic, ListOffsetsRequest.ListOffsetsPartition
        request = ListOffsetsRequest(
            replica_id=_A_CLIENT,
            isolation_level=_ISOLATION[isolation],
            topics=[
                topic_of(
                    name=topic,
                    partitions=[
                        partition_of(
                            partition_index=number,
                            timestamp=times.get(TopicPartition(topic, number), default),
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in grouped(requested).items()
            ],
            timeout_ms=self._timeout_ms(timeout),
        )
        return (await self._send_each(request, deadline.left(), by_partition, _listed)).checked(errors)

    async def delete_records(
        self,
        before: Mapping[TopicPartition, int | None],
        *,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, int]:
        """Deletes the records before an offset, of each partition; None deletes all there are.

            await kafka.admin.delete_records({TopicPartition("orders", 0): 1_000})

        Returns the offset of the first record that is left, by partition.
        """
        topic_of = DeleteRecordsRequest.DeleteRecordsTopic
        partition_of = DeleteRecordsRequest.DeleteRecordsPartition
        offsets = {key: _ALL_RECORDS if offset is None else offset for key, offset in before.items()}
        request = DeleteRecordsRequest(
            topics=[
                topic_of(
                    name=topic,
                    partitions=[
                        partition_of(partition_index=number, offset=offsets[TopicPartition(topic, number)])
                        for number in numbers
                    ],
                )
                for topic, numbers in grouped(before).items()
            ],
            timeout_ms=self._timeout_ms(timeout),
        )
        return (await self._send_each(request, timeout, by_partition, _low_watermark)).checked(errors)

    async def describe_producers(
        self,
        partitions: Partitions,
        *,
        broker: int | None = None,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, tuple[ProducerState, ...]]:
        """The idempotent and transactional producers that each partition's leader remembers (KIP-664).

        With `broker`, those that the replicas on this one remember.
        """
        deadline = self._deadline(timeout)
        requested = await self._partitions(partitions, deadline)
        request = DescribeProducersRequest(
            topics=[
                DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=numbers)
                for topic, numbers in grouped(requested).items()
            ]
        )
        results = await self._send_each(request, deadline.left(), by_partition, _producers, broker)
        return results.checked(errors)

    async def _partitions(self, given: Partitions, deadline: Deadline) -> list[TopicPartition]:
        """Topics become their partitions."""
        each = (
            [given]
            if isinstance(given, str | TopicPartition) or not isinstance(given, Iterable)
            else list(given)
        )
        topics = [topic for topic in each if isinstance(topic, str)]
        known = await self._topics(topics, deadline) if topics else {}
        found: dict[TopicPartition, None] = {}
        for one in each:
            if not isinstance(one, str):
                found[check_partition(one)] = None
                continue
            topic = known[one]
            if isinstance(topic, KafkaError):
                raise topic
            found.update((TopicPartition(one, partition.index), None) for partition in topic.partitions)
        return list(found)


def _listed(key: TopicPartition, item: ListOffsetsResponse.ListOffsetsPartitionResponse) -> ListedOffset:
    # Version 0 has a list instead, of one offset here.
    offset = next(iter(item.old_style_offsets), item.offset)
    return ListedOffset(
        offset=None if offset == _NO_OFFSET else offset,
        timestamp=None if item.timestamp < 0 else item.timestamp,
        leader_epoch=None if item.leader_epoch < 0 else item.leader_epoch,
    )


def _low_watermark(key: TopicPartition, item: DeleteRecordsResponse.DeleteRecordsPartitionResult) -> int:
    return item.low_watermark


def _producers(
    key: TopicPartition, item: DescribeProducersResponse.PartitionResponse
) -> tuple[ProducerState, ...]:
    return tuple(
        ProducerState(
            producer_id=state.producer_id,
            producer_epoch=state.producer_epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.last_timestamp,
            coordinator_epoch=state.coordinator_epoch,
            transaction_start_offset=None
            if state.current_txn_start_offset == _NO_OFFSET
            else state.current_txn_start_offset,
        )
        for state in item.active_producers
    )


def spec_timestamp(at: object, now_ms: int) -> int:
    """The timestamp that stands for an offset spec in ListOffsets; a ConfigurationError for what is none."""
    if isinstance(at, str) and at in _NAMED_SPECS:
        return _NAMED_SPECS[at]
    if isinstance(at, str | datetime | Timestamp):
        try:
            spec = start_spec(at, now_ms)
        except ConfigurationError:
            spec = None
        if spec is not None and spec.timestamp is not None:
            return spec.timestamp
    number = isinstance(at, int) and not isinstance(at, bool)
    hint = f"a number is an offset; for a time write Timestamp({at}), or " if number else "write "
    names = ", ".join(map(repr, _NAMED_SPECS))
    raise ConfigurationError(
        f"at={at!r}: {hint}{names}, a datetime, a Timestamp or 'by_duration:PT1H'", option="at", value=at
    )
