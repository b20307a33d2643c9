"""The control topic of a sink: made if it is missing, grown for wider batches, and read from its end.

Whatever is read here is what the partition's leader has committed up to its last stable offset, at the moment of the
call. Callers read a partition only when the transactional id that writes to it has been initialized, or its
coordinator has refused to end a transaction: what had ended before is complete then, and visible.

Even so a read may be old: a leader that was replaced, and does not know it, answers with what it had. Where that
would matter, a caller first stores a record of its own, which only the true leader can have, and reads up to that.

A read goes backwards from the end in steps that double, since in a compacted topic the last record may lie anywhere
before the end: transactions that were aborted, and the marks of those that ended, take offsets too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ottla.client.deadline import Deadline, within
from ottla.client.topic_partition import TopicPartition
from ottla.config import ClientConfig
from ottla.errors import (
    ApiTimeoutError,
    InvalidPartitionsError,
    KafkaError,
    NoSuchPartitionError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from ottla.spark.sink.exactly_once.control_records import BARRIER_KEY, BatchDecision, SlotMarker
from ottla.spark.sink.exactly_once.errors import SinkError
from ottla.spark.sink.exactly_once.names import SinkNames

if TYPE_CHECKING:
    from ottla.client.client import AsyncClient
    from ottla.runtime import Clock
    from ottla.wire.records import Delivery

_FEWEST_SLOTS: Final = 8
"""How many slots a control topic begins with; it grows by doubling, so that few batches have to wait for it."""
_CONFIGS: Final[Mapping[str, object]] = {"cleanup.policy": "compact"}
_FIRST_STEP: Final = 8
_AGAIN_S: Final = 0.1
"""Brokers hear of new topics and partitions one after the other."""


async def ensure_control_topic(
    kafka: AsyncClient,
    names: SinkNames,
    *,
    replication_factor: int = -1,
    configs: Mapping[str, object] | None = None,
) -> int:
    """The topic is there afterwards; how many slots it has room for."""
    deadline = _deadline(kafka)
    while True:
        try:
            return await slots_of(kafka, names)
        except UnknownTopicOrPartitionError as missing:
            if deadline.left() == 0:
                raise missing
        try:
            await kafka.admin.create_topic(
                names.control_topic,
                1 + _FEWEST_SLOTS,
                replication_factor,
                configs={**_CONFIGS, **(configs or {})},
                timeout=deadline.left(),
            )
        except TopicAlreadyExistsError:
            # By another driver, or by the attempt before whose response was lost; not every broker knows it yet.
            await _clock(kafka).sleep(_AGAIN_S)


async def slots_of(kafka: AsyncClient, names: SinkNames) -> int:
    """How many slots have a marker partition; UnknownTopicOrPartitionError where there is no topic."""
    described = await kafka.admin.describe_topic(names.control_topic)
    return len(described.partitions) - 1


async def ensure_slot(kafka: AsyncClient, names: SinkNames, slot: int) -> None:
    """The marker partition of a slot is there afterwards. Tasks that do this at once do not harm one another."""
    deadline = _deadline(kafka)
    while (slots := await slots_of(kafka, names)) <= slot:
        if deadline.left() == 0:
            raise SinkError(
                f"topic {names.control_topic} has {slots + 1} partitions after {deadline.seconds:g} s, and slot "
                f"{slot} of sink {names.sink_id!r} needs {slot + 2}"
            )
        total = _FEWEST_SLOTS
        while total <= slot:
            total *= 2
        try:
            await kafka.admin.create_partitions(names.control_topic, total + 1, timeout=deadline.left())
        except InvalidPartitionsError:
            # Another task was quicker, and this broker has not heard of it.
            await _clock(kafka).sleep(_AGAIN_S)


async def produce_control(kafka: AsyncClient, to: TopicPartition, key: bytes, value: bytes) -> Delivery:
    """Hands a record over, for the transaction that is open; its receipt."""
    deadline = _deadline(kafka)
    while True:
        try:
            return await kafka.produce(to.topic, value, key, partition=to.partition)
        except NoSuchPartitionError:
            # The producer knows the topic from before it has grown, and has asked for it by now.
            if deadline.left() == 0:
                raise
            await _clock(kafka).sleep(_AGAIN_S)


async def store_barrier(kafka: AsyncClient, names: SinkNames) -> int:
    """Stores a record among the decisions, behind all that were committed before; its offset.

    By a producer of its own, outside of transactions: in that of the driver it would take the sequence number that
    the process that commits begins with.
    """
    from ottla.client.client import AsyncClient

    config = kafka.config.replace(transactional_id="")
    try:
        async with AsyncClient(config=config, runtime=kafka._runtime) as plain:
            stored = await produce_control(plain, names.decisions, BARRIER_KEY, b"")
            return (await stored).offset
    except KafkaError as error:
        raise SinkError(
            f"what earlier attempts of sink {names.sink_id!r} have left open stays open, as it is not certain that "
            f"none of it is decided: nothing can be stored in {names.decisions}: {error}. Nothing is lost: run this "
            "again"
        ) from error


async def last_decision(
    kafka: AsyncClient, names: SinkNames, *, before: int | None = None
) -> BatchDecision | None:
    """The one that is committed last; `before` is the offset of a record that the caller has stored there."""
    value = await _last_value(kafka, names.decisions, before)
    return None if value is None else BatchDecision.decode(value[0], names)


async def last_marker(
    kafka: AsyncClient, names: SinkNames, slot: int, *, before: int | None = None
) -> SlotMarker | None:
    """The same for a slot."""
    value = await _last_value(kafka, names.markers(slot), before)
    return None if value is None else SlotMarker.decode(value[0], names)


async def _last_value(
    kafka: AsyncClient, partition: TopicPartition, before: int | None
) -> tuple[bytes | None] | None:
    deadline = _deadline(kafka)
    end = await _stable_end(kafka, partition)
    if before is not None:
        if before < 0:
            raise SinkError(f"a record was stored in {partition}, and its leader has not said where")
        # Only a leader that has the caller's record has everything that lies before it.
        while end < before:
            if deadline.left() == 0:
                raise ApiTimeoutError(
                    f"{partition} has ended before offset {before} for {deadline.seconds:g} s, where a record was "
                    "stored: its leader does not lead any more"
                )
            await _clock(kafka).sleep(_AGAIN_S)
            end = await _stable_end(kafka, partition)
        end = before
    step = _FIRST_STEP
    until = end
    while until > 0:
        since = max(0, end - step)
        try:
            found = await within(
                _clock(kafka), deadline.left(), _last_between(kafka, partition, since, until)
            )
        except TimeoutError:
            raise ApiTimeoutError(
                f"the last record of {partition} was not read within {deadline.seconds:g} s"
            ) from None
        if found is not None:
            return found
        until = since
        step *= 2
    return None


async def _stable_end(kafka: AsyncClient, partition: TopicPartition) -> int:
    listed = await kafka.admin.list_offsets([partition], isolation="read_committed")
    return listed[partition].offset or 0


async def _last_between(
    kafka: AsyncClient, partition: TopicPartition, since: int, until: int
) -> tuple[bytes | None] | None:
    consumer = kafka._consume(
        (partition,),
        _reading(kafka.config),
        start=since,
        stop=until,
        key_deserializer="bytes",
        value_deserializer="bytes",
    )
    found: tuple[bytes | None] | None = None
    async with consumer:
        async for record in consumer:
            if record.offset < until and record.key != BARRIER_KEY:
                found = (record.value,)
    return found


@lru_cache(maxsize=8)
def _reading(config: ClientConfig) -> ClientConfig:
    """The same for every batch, and it takes a while to check one."""
    return config.replace(isolation_level="read_committed", auto_offset_reset="earliest", group_id="")


def _clock(kafka: AsyncClient) -> Clock:
    return kafka._runtime.clock


def _deadline(kafka: AsyncClient) -> Deadline:
    return Deadline(_clock(kafka), kafka.config.default_api_timeout_ms / 1000)
