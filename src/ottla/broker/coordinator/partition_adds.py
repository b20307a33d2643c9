"""How a leader asks the transaction coordinator before it takes the first data of a transaction (KIP-890).

The coordinator has to know every partition of a transaction, or its end would miss one and leave its readers waiting
for good. Older producers have told it, and the leader only looks whether they have (verify); newer ones leave the
telling to the leader (add). The question is an AddPartitionsToTxn over the cluster's own network. Meanwhile a guard
(log/guards.py) stands in the partition: the append finds it there, or the transaction has ended in between.

What an error of the coordinator is to the client, the handlers of Produce and TxnOffsetCommit say; two are the same
for both: a producer that is fenced has an INVALID_PRODUCER_EPOCH, and one that is too old to know
TRANSACTION_ABORTABLE gets INVALID_TXN_STATE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.coordinator.internal_topics import TRANSACTIONS_TOPIC, coordinator_partition
from ottla.errors import (
    BrokerError,
    ClusterAuthorizationFailedError,
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    NetworkError,
    ProducerFencedError,
    TransactionAbortableError,
    from_code,
)
from ottla.wire.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from ottla.broker.configs.node import NodeConfigs
    from ottla.broker.log.guards import Guard
    from ottla.broker.metadata.image import MetadataImage
    from ottla.broker.replication.fetcher import LeaderLink
    from ottla.broker.replication.partition import PartitionKey
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.runtime import Clock

VERIFIED_SINCE: Final = 4
"""The version of AddPartitionsToTxn from which on it is for brokers."""
_VERSION: Final = 5
"""The first whose coordinators know TRANSACTION_ABORTABLE."""


class ProducerSupport(IntEnum):
    """What a producer can do about its transactions, as the version of its request tells."""

    OLD_ERRORS = 0
    ABORTABLE = 1
    """It knows TRANSACTION_ABORTABLE."""
    ADDED_BY_LEADER = 2
    """It leaves it to leaders to add their partitions, and has a new epoch after each transaction (version 2)."""


class TransactionalProducer(NamedTuple):
    """Who writes."""

    transactional_id: str
    producer_id: int
    epoch: int
    support: ProducerSupport


@dataclass(slots=True)
class Admission:
    """Which partitions refuse the data of a producer, and with which guards the others take it."""

    errors: dict[PartitionKey, BrokerError] = field(default_factory=dict)
    guards: dict[PartitionKey, Guard] = field(default_factory=dict)
    must_ask: bool = False
    """Whether the guards are not worth anything before the coordinator has answered."""


class PartitionAdds:
    """What one node asks of the transaction coordinators."""

    def __init__(
        self,
        image: MetadataImage,
        configs: NodeConfigs,
        replicas: ReplicaManager,
        link: LeaderLink,
        clock: Clock,
        *,
        can_ask: bool = True,
    ) -> None:
        """`can_ask` is False in a cluster of releases whose coordinators do not answer such questions."""
        self._image = image
        self._configs = configs
        self._replicas = replicas
        self._link = link
        self._clock = clock
        self._can_ask = can_ask

    def begin(self, producer: TransactionalProducer, partitions: Mapping[PartitionKey, int]) -> Admission:
        """Whether a producer's data may be appended to partitions, which are given with its first sequences.

        Where `must_ask` is set, the coordinator has to say so: `ask`.
        """
        adds = producer.support is ProducerSupport.ADDED_BY_LEADER
        if not adds and not self._configs.value("transaction.partition.verification.enable"):
            return Admission()
        return self._begin(producer, partitions, adds=adds)

    async def ask(
        self,
        producer: TransactionalProducer,
        partitions: Mapping[PartitionKey, int],
        begun: Admission,
        *,
        patient: bool,
    ) -> Admission:
        """What the coordinator says.

        `patient` is for a producer whose last transaction may still be ending: CONCURRENT_TRANSACTIONS lets the
        leader ask again, every add.partitions.to.txn.retry.backoff.ms.
        """
        if patient and producer.support is ProducerSupport.ADDED_BY_LEADER:
            return await self._ask_patiently(producer, partitions, begun)
        return await self._ask(producer, begun)

    def _begin(
        self, producer: TransactionalProducer, partitions: Mapping[PartitionKey, int], *, adds: bool
    ) -> Admission:
        admission = Admission()
        now_ms = int(self._clock.time() * 1000)
        for key, sequence in partitions.items():
            try:
                producers = self._replicas.led(*key).log.producers
                guard = producers.guard(
                    producer.producer_id, producer.epoch, sequence, now_ms, adds_partitions=adds
                )
            except BrokerError as error:
                admission.errors[key] = error
            else:
                if guard is not None:
                    admission.guards[key] = guard
        admission.must_ask = self._can_ask and bool(admission.guards)
        return admission

    async def _ask_patiently(
        self, producer: TransactionalProducer, partitions: Mapping[PartitionKey, int], begun: Admission
    ) -> Admission:
        value = self._configs.value
        longest = min(value("add.partitions.to.txn.retry.backoff.max.ms"), value("request.timeout.ms")) / 1000
        backoff = value("add.partitions.to.txn.retry.backoff.ms") / 1000
        until = self._clock.monotonic() + longest
        admission = await self._ask(producer, begun)
        while self._clock.monotonic() < until:
            if any(isinstance(error, ConcurrentTransactionsError) for error in admission.errors.values()):
                await self._clock.sleep(backoff)
            elif not self._is_overtaken(producer, admission):
                break
            # From the beginning: a marker may have come meanwhile, and removed the guards.
            admission = self._begin(producer, partitions, adds=True)
            if not admission.must_ask:
                break
            admission = await self._ask(producer, admission)
        return admission

    def _is_overtaken(self, producer: TransactionalProducer, admission: Admission) -> bool:
        """Whether the marker of the last transaction has come while the coordinator was asked about this one.

        The two are of the same epoch: the coordinator has said yes, and the guard that it was asked with is gone.
        """
        for key, guard in admission.guards.items():
            if key in admission.errors:
                continue
            try:
                guards = self._replicas.led(*key).log.producers.guards
            except BrokerError:
                continue  # led elsewhere by now, as the append will find
            if guards.get(producer.producer_id) is not guard:
                return True
        return False

    async def _ask(self, producer: TransactionalProducer, admission: Admission) -> Admission:
        try:
            response = await self._request(producer, list(admission.guards))
        except CoordinatorNotAvailableError as error:
            self._refuse_all(admission, error)
            return admission
        except (OSError, KafkaError):
            self._refuse_all(admission, NetworkError())
            return admission
        if (refusal := from_code(response.error_code)) is not None:
            is_denied = isinstance(refusal, ClusterAuthorizationFailedError)
            self._refuse_all(admission, InvalidTxnStateError() if is_denied else refusal)
            return admission
        for result in response.results_by_transaction:
            for topic in result.topic_results:
                for part in topic.results_by_partition:
                    refusal = from_code(part.partition_error_code)
                    if refusal is not None:
                        key = (topic.name, part.partition_index)
                        admission.errors[key] = _translated(refusal, producer.support)
        return admission

    async def _request(
        self, producer: TransactionalProducer, partitions: list[PartitionKey]
    ) -> AddPartitionsToTxnResponse:
        coordinator = self._coordinator(producer.transactional_id)
        topics: dict[str, AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = {}
        for name, index in partitions:
            topics.setdefault(
                name, AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name)
            ).partitions.append(index)
        transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=producer.support is not ProducerSupport.ADDED_BY_LEADER,
            topics=list(topics.values()),
        )
        response = await self._link.request(
            coordinator,
            AddPartitionsToTxnRequest(transactions=[transaction]),
            _VERSION,
            self._configs.value("request.timeout.ms") / 1000,
        )
        assert isinstance(response, AddPartitionsToTxnResponse)
        return response

    def _coordinator(self, transactional_id: str) -> int:
        topic = self._image.topics.get(TRANSACTIONS_TOPIC)
        if topic is None or not topic.partitions:
            raise CoordinatorNotAvailableError
        partition = topic.partitions[coordinator_partition(transactional_id, len(topic.partitions))]
        if not partition.has_leader:
            raise CoordinatorNotAvailableError
        return partition.leader

    def _refuse_all(self, admission: Admission, error: BrokerError) -> None:
        for key in admission.guards:
            admission.errors[key] = error


def _translated(error: BrokerError, support: ProducerSupport) -> BrokerError:
    if isinstance(error, ProducerFencedError):
        return InvalidProducerEpochError()
    if isinstance(error, TransactionAbortableError) and support is ProducerSupport.OLD_ERRORS:
        return InvalidTxnStateError()
    return error
