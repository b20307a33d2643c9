"""Transactions from outside: list, describe, fence, and end those that hang (KIP-664).

What is known of transactional ids comes from their coordinators, what is known of producers and open transactions
from the partitions. The two may disagree: a transaction that is open in a partition and of which no coordinator knows
hangs, and no reader of committed records gets past it until it is aborted here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from ottla.client.admin.base import known_names
from ottla.client.admin.groups import in_batches
from ottla.client.admin.offsets import OffsetsAdmin, Partitions
from ottla.client.admin.results import (
    Errors,
    FencedProducer,
    HangingTransaction,
    ListedTransaction,
    ProducerState,
    Results,
    TransactionDescription,
    in_order,
)
from ottla.client.deadline import Deadline, check_timeout
from ottla.client.metadata import TopicView
from ottla.client.topic_partition import TopicPartition, check_partition
from ottla.errors import (
    ApiTimeoutError,
    BrokerError,
    ConcurrentTransactionsError,
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    InvalidProducerEpochError,
    KafkaError,
    LeaderNotAvailableError,
    TransactionalIdNotFoundError,
    UnknownBrokerError,
    UnknownTopicOrPartitionError,
    from_code,
)
from ottla.wire.messages import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
)
_IDS_AT_ONCE: Final = 500
_FENCED_AT_ONCE: Final = 20
_NO_MARKER_SEEN: Final = -1
_NO_START: Final = -1
_UNREACHED: Final = (ConnectionFailedError, ConnectionLostError, UnknownBrokerError)


class TransactionsAdmin(OffsetsAdmin):
    """What can be read of, and done to, the transactions of producers."""

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        older_than: float | None = None,
        pattern: str | None = None,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[str, ListedTransaction]:
        """All transactional ids, or those in some states, of some producers, or with open transactions of some age.

            await kafka.admin.list_transactions(states=["Ongoing"], older_than=60)

        `older_than` is in seconds (brokers since 3.8), `pattern` a regular expression that the whole id matches
        (since 4.1; of RE2, which has no look-ahead and no references back). Every broker knows the ids that it
        coordinates. With errors="collect", a broker that could not be asked is in `errors`, as "broker 1".
        """
        check_timeout(older_than)
        request = ListTransactionsRequest(
            state_filters=known_names("states", states, TRANSACTION_STATES),
            producer_id_filters=list(producer_ids),
            duration_filter=-1 if older_than is None else int(older_than * 1000),
            transactional_id_pattern=pattern or None,
        )
        found: dict[str, ListedTransaction] = {}
        failed: dict[str, KafkaError] = {}
        for shard in await self._requests.fan_out(request, timeout=timeout):
            error = shard.error
            if isinstance(shard.response, ListTransactionsResponse):
                error = from_code(shard.response.error_code, broker=shard.broker)
                found.update(
                    (
                        each.transactional_id,
                        ListedTransaction(
                            each.transactional_id, each.producer_id, each.transaction_state, shard.broker
                        ),
                    )
                    for each in shard.response.transaction_states
                )
            if error is not None:
                failed[f"broker {shard.broker}"] = error
        return Results(dict(sorted(found.items())), failed).checked(errors)

    async def describe_transaction(
        self, transactional_id: str, *, timeout: float | None = None
    ) -> TransactionDescription:
        """A transactional id and its transaction; TransactionalIdNotFoundError where there is none."""
        return (await self.describe_transactions([transactional_id], timeout=timeout))[transactional_id]

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, errors: Errors = "raise", timeout: float | None = None
    ) -> Results[str, TransactionDescription]:
        """Transactional ids with their transactions: state, producer, partitions, by id.

        await kafka.admin.describe_transactions(["billing-1", "billing-2"], errors="collect")
        """
        requested = _transactional_ids(transactional_ids)
        return (await self._described(requested, self._deadline(timeout))).checked(errors)

    async def _described(
        self, transactional_ids: list[str], deadline: Deadline
    ) -> Results[str, TransactionDescription]:
        found: dict[str, TransactionDescription] = {}
        failed: dict[str, KafkaError] = {}
        for some in in_batches(transactional_ids, _IDS_AT_ONCE):
            request = DescribeTransactionsRequest(transactional_ids=list(some))
            for shard in await self._requests.fan_out(request, timeout=deadline.left()):
                if not isinstance(shard.response, DescribeTransactionsResponse):
                    assert isinstance(shard.request, DescribeTransactionsRequest)
                    assert shard.error is not None
                    failed.update((each, shard.error) for each in shard.request.transactional_ids)
                    continue
                for state in shard.response.transaction_states:
                    error = from_code(state.error_code, broker=shard.broker)
                    if error is None:
                        found[state.transactional_id] = _description(state, shard.broker)
                    else:
                        failed[state.transactional_id] = of_transaction(error, state.transactional_id)
        return in_order(transactional_ids, found, failed)

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, errors: Errors = "raise", timeout: float | None = None
    ) -> Results[str, FencedProducer]:
        """Takes transactional ids away from the producers that use them, and aborts what these have open.

            await kafka.admin.fence_producers(["billing-1"])

        A producer that still runs fails with its next request. An id that nobody has used comes to be.
        """
        requested = _transactional_ids(transactional_ids)
        deadline = self._deadline(timeout)
        found: dict[str, FencedProducer] = {}
        failed: dict[str, KafkaError] = {}
        for some in in_batches(requested, _FENCED_AT_ONCE):
            fenced = await asyncio.gather(*(self._fenced(each, deadline) for each in some))
            for transactional_id, outcome in zip(some, fenced, strict=True):
                if isinstance(outcome, FencedProducer):
                    found[transactional_id] = outcome
                else:
                    failed[transactional_id] = outcome
        return in_order(requested, found, failed).checked(errors)

    async def force_terminate_transaction(
        self, transactional_id: str, *, timeout: float | None = None
    ) -> FencedProducer:
        """Aborts whatever a transactional id has open, and fences its producer; for an id that exists (KIP-939).

        Other than `fence_producers` it makes no id: TransactionalIdNotFoundError where there is none.
        """
        deadline = self._deadline(timeout)
        await self.describe_transaction(transactional_id, timeout=deadline.left())
        outcome = await self._fenced(transactional_id, deadline)
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    async def _fenced(self, transactional_id: str, deadline: Deadline) -> FencedProducer | KafkaError:
        """InitProducerId as a new producer sends it, until the transaction that was open has been aborted."""
        # No transaction follows; but a coordinator waits no longer than this for the replicas of its own log.
        timeout_ms = max(1, self._timeout_ms(deadline.seconds))
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        attempt = 0
        while True:
            try:
                response = await self._send(request, InitProducerIdResponse, deadline.left())
            except KafkaError as failed:
                return failed
            error = from_code(response.error_code)
            if error is None:
                return FencedProducer(response.producer_id, response.producer_epoch)
            of_transaction(error, transactional_id)
            # Fencing has begun: markers abort the transaction that was open, which takes a moment.
            if not isinstance(error, ConcurrentTransactionsError):
                return error
            delay = self._backoff.delay(attempt)
            attempt += 1
            if delay >= deadline.left():
                late = ApiTimeoutError(
                    f"the transaction of {transactional_id!r} was not aborted within {deadline.seconds:g} s"
                    f" (timeout): {error}"
                )
                late.__cause__ = error
                return late
            await self._runtime.clock.sleep(delay)

    # Transactions that hang

    async def find_hanging_transactions(
        self,
        partitions: Partitions | None = None,
        *,
        broker: int | None = None,
        max_timeout: float = 900.0,
        timeout: float | None = None,
    ) -> tuple[HangingTransaction, ...]:
        """The transactions that hang in these partitions, or in all, or in those that a broker leads.

            for hanging in await kafka.admin.find_hanging_transactions("orders"):
                await kafka.admin.abort_transaction(hanging.partition, producer=hanging.producer)

        One hangs if its producer has written nothing for `max_timeout` seconds, and no coordinator knows of it in
        that partition. `max_timeout` must not be below transaction.max.timeout.ms of the brokers: transactions that
        are younger may be on their way.
        """
        check_timeout(max_timeout)
        deadline = self._deadline(timeout)
        requested = await self._searched(partitions, broker, deadline)
        before_ms = int((self._runtime.clock.time() - max_timeout) * 1000)
        suspects = {
            (partition, state.producer_id, state.transaction_start_offset): state
            for partition, state in await self._open_in(requested, deadline)
            if state.last_timestamp < before_ms
        }
        if not suspects:
            return ()
        ids = await self._ids_of({producer_id for _, producer_id, _ in suspects}, deadline)
        described = await self._described(list(dict.fromkeys(ids.values())), deadline)
        _check_found(described)
        unknown = [
            key for key in suspects if not _is_coordinated(key[0], key[1], described.get(ids.get(key[1], "")))
        ]
        # Without what has ended since the partitions were asked: its coordinator is right not to know it any more.
        still_open = {
            (partition, state.producer_id, state.transaction_start_offset): state
            for partition, state in await self._open_in(
                list(dict.fromkeys(key[0] for key in unknown)), deadline
            )
        }
        return tuple(
            HangingTransaction(key[0], still_open[key], ids.get(key[1]))
            for key in unknown
            if key in still_open
        )

    async def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        start_offset: int | None = None,
        producer: ProducerState | None = None,
        timeout: float | None = None,
    ) -> ProducerState:
        """Ends a transaction that hangs in a partition: its records there count as aborted.

            await kafka.admin.abort_transaction(ottla.TopicPartition("orders", 0), start_offset=42)

        It is the one that begins at `start_offset`, or that of `producer`, as `describe_producers` and
        `find_hanging_transactions` give it. The coordinator is not told: of a transaction that it knows, it writes
        the end that it decides on as well. This is for those that hang; `force_terminate_transaction` aborts others.
        """
        check_partition(partition)
        if (start_offset is None) == (producer is None):
            raise ConfigurationError(
                "give one of start_offset= and producer=: which transaction is to be aborted"
            )
        deadline = self._deadline(timeout)
        if producer is None:
            producer = await self._beginning_at(partition, start_offset, deadline)
        topics = [
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(
                name=partition.topic, partition_indexes=[partition.partition]
            )
        ]
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=topics,
            # Of the last marker, if the partition has seen one: a lower epoch would be that of a deposed coordinator.
            coordinator_epoch=0
            if producer.coordinator_epoch == _NO_MARKER_SEEN
            else producer.coordinator_epoch,
        )
        await self._write_marker(partition, WriteTxnMarkersRequest(markers=[marker]), deadline)
        return producer

    async def _searched(
        self, partitions: Partitions | None, broker: int | None, deadline: Deadline
    ) -> list[TopicPartition]:
        if partitions is None:
            view = await self._metadata.fresh(None, max_age=0.0, timeout=deadline.left())
            requested = [
                TopicPartition(name, partition.index)
                for name, topic in sorted(view.topics.items())
                for partition in topic.partitions
            ]
        else:
            requested = await self._partitions(partitions, deadline)
        if broker is None:
            return requested
        brokers = (await self._metadata.fresh([], max_age=0.0, timeout=deadline.left())).brokers
        if broker not in brokers:
            ids = ", ".join(map(str, sorted(brokers)))
            raise UnknownBrokerError(f"no broker with id {broker} is alive; those that are: {ids}")
        names = list(dict.fromkeys(each.topic for each in requested))
        known = await self._topics(names, deadline)
        return [each for each in requested if _leader_of(known[each.topic], each) == broker]

    async def _open_in(
        self, partitions: list[TopicPartition], deadline: Deadline
    ) -> list[tuple[TopicPartition, ProducerState]]:
        if not partitions:
            return []
        described = await self.describe_producers(partitions, timeout=deadline.left())
        return [
            (partition, state)
            for partition, states in described.items()
            for state in states
            if state.transaction_start_offset is not None
        ]

    async def _ids_of(self, producer_ids: set[int], deadline: Deadline) -> dict[int, str]:
        """The transactional id of each producer that a coordinator knows."""
        listed = await self.list_transactions(producer_ids=sorted(producer_ids), timeout=deadline.left())
        return {each.producer_id: each.transactional_id for each in listed.values()}

    async def _beginning_at(
        self, partition: TopicPartition, start_offset: int | None, deadline: Deadline
    ) -> ProducerState:
        found = await self._open_in([partition], deadline)
        for _, state in found:
            if state.transaction_start_offset == start_offset:
                return state
        begins = ", ".join(str(state.transaction_start_offset) for _, state in found)
        raise ConfigurationError(
            f"no open transaction of {partition} begins at offset {start_offset}: "
            + (f"they begin at {begins}" if found else "none is open there"),
            option="start_offset",
            value=start_offset,
        )

    async def _write_marker(
        self, partition: TopicPartition, request: WriteTxnMarkersRequest, deadline: Deadline
    ) -> None:
        """To the partition's leader, wherever that is."""
        attempt = 0
        while True:
            found = (await self._topics([partition.topic], deadline, 0.0 if attempt else None))[
                partition.topic
            ]
            leader = _leader_of(found, partition)
            if isinstance(leader, UnknownTopicOrPartitionError):
                raise leader
            error: KafkaError | None
            try:
                error = (
                    leader
                    if isinstance(leader, KafkaError)
                    else await self._refused(request, partition, leader, deadline)
                )
            except _UNREACHED as unreached:
                # Whether or not it was written before the connection broke: a second marker changes nothing.
                error = unreached
            if error is None:
                return
            delay = self._backoff.delay(attempt)
            attempt += 1
            is_passing = isinstance(error, _UNREACHED) or (isinstance(error, BrokerError) and error.retriable)
            if not is_passing or delay >= deadline.left():
                raise error
            await self._runtime.clock.sleep(delay)

    async def _refused(
        self, request: WriteTxnMarkersRequest, partition: TopicPartition, leader: int, deadline: Deadline
    ) -> BrokerError | None:
        response = await self._send(request, WriteTxnMarkersResponse, deadline.left(), leader)
        codes = [
            each.error_code
            for marker in response.markers
            for topic in marker.topics
            for each in topic.partitions
        ]
        error = from_code(
            next(filter(None, codes), 0),
            topic=partition.topic,
            partition=partition.partition,
            broker=leader,
        )
        if isinstance(error, InvalidProducerEpochError):
            error.detail = "The producer has a higher epoch there by now: describe_producers shows it."
        return error


def of_transaction(error: BrokerError, transactional_id: str) -> BrokerError:
    """The same error, saying which transactional id it is about."""
    error.detail = f"The transactional id is {transactional_id!r}."
    return error


def _transactional_ids(given: Iterable[str]) -> list[str]:
    if isinstance(given, str):
        raise TypeError(f"a list of transactional ids is meant, not {given!r}: write [{given!r}]")
    return list(dict.fromkeys(given))


def _description(
    state: DescribeTransactionsResponse.TransactionState, broker: int | None
) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=state.transactional_id,
        state=state.transaction_state,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        started_at=None if state.transaction_start_time_ms == _NO_START else state.transaction_start_time_ms,
        partitions=tuple(
            sorted(
                TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions
            )
        ),
        coordinator=broker,
    )


def _check_found(described: Results[str, TransactionDescription]) -> None:
    """An id that has expired since it was listed is no error, and knows of no transaction."""
    for error in described.errors.values():
        if not isinstance(error, TransactionalIdNotFoundError):
            raise error


def _is_coordinated(
    partition: TopicPartition, producer_id: int, description: TransactionDescription | None
) -> bool:
    return (
        description is not None
        and description.producer_id == producer_id
        and partition in description.partitions
    )


def _leader_of(found: TopicView | KafkaError, partition: TopicPartition) -> int | KafkaError:
    if isinstance(found, KafkaError):
        return found
    for each in found.partitions:
        if each.index == partition.partition:
            if each.leader >= 0:
                return each.leader
            return LeaderNotAvailableError(topic=partition.topic, partition=partition.partition)
    return UnknownTopicOrPartitionError(topic=partition.topic, partition=partition.partition)
