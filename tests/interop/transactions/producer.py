"""A transactional producer that sends single requests: Init, AddPartitions, Produce, TxnOffsetCommit, EndTxn.

It follows no protocol by itself: what an answer gives it (producer id, epoch) it keeps for the next request, and
everything may be said otherwise. Answers are the names of errors, "NONE" for none.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Self

from ottla.errors import ERRORS
from ottla.wire.batches import encode_batch
from ottla.wire.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from tests.interop.brokers import Broker
from tests.interop.groups.link import Link
from tests.interop.transactions.partition_log import PartitionLog, fetch_request, fetched
from tests.interop.waiting import eventually

STATE_TOPIC = "__transaction_state"
_GROUP, _TRANSACTION = 0, 1
_PASSING = (
    "CONCURRENT_TRANSACTIONS",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "NOT_LEADER_OR_FOLLOWER",
)
"""What asks for another try."""
_PASSING_OF_SENDS = (*_PASSING, "NOT_ENOUGH_REPLICAS")
"""A leader says the last one also where it does not get through to the coordinator that is to confirm the records."""


def name_of(code: int) -> str:
    return "NONE" if code == 0 else ERRORS[code].name


class Links:
    """Connections to the nodes of a cluster, found anew for each who asks; closed with the `with` block."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._open = ExitStack()
        self._by_address: dict[str, Link] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def new(self, address: str) -> Link:
        """A connection of its own, for a request that waits."""
        return self._open.enter_context(Link(address))

    def to(self, address: str) -> Link:
        if address not in self._by_address:
            self._by_address[address] = self.new(address)
        return self._by_address[address]

    def forget(self) -> None:
        """Connects anew from now on: a node has gone, or has come back."""
        self._by_address.clear()

    def create_topic(self, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """A new topic that every node knows, and whose leaders serve it."""
        topic = self.broker.create_topic(partitions, config)
        wanted = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])

        def is_known(link: Link) -> bool:
            (found,) = link.get(wanted, 12, MetadataResponse).topics
            return found.error_code == 0 and len(found.partitions) == partitions

        def is_led(number: int) -> bool:
            answer = self.leader(topic, number).get(fetch_request(topic, number), 12, FetchResponse)
            return fetched(answer).error_code == 0

        for node in self.broker.node_ids:
            link = self.to(self.broker.address(node))
            eventually(partial(is_known, link), f"{topic} to be known", every=0.02)
        for number in range(partitions):
            eventually(partial(is_led, number), f"{topic} to be led", every=0.02)
        return topic

    def any(self) -> Link:
        return self.to(self.broker.bootstrap.split(",")[0])

    def leader(self, topic: str, partition: int = 0) -> Link:
        return self.to(self.broker.address(self.broker.leader(topic, partition)))

    def coordinator(self, key: str, kind: int = _TRANSACTION) -> Link:
        found = self.find_coordinator(key, kind)
        return self.to(f"{found.host}:{found.port}")

    def find_coordinator(self, key: str, kind: int = _TRANSACTION) -> FindCoordinatorResponse.Coordinator:
        found: list[FindCoordinatorResponse.Coordinator] = []

        def is_known() -> bool:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            found[:] = self._someone().get(request, 4, FindCoordinatorResponse).coordinators
            return found[0].error_code == 0

        eventually(is_known, f"the coordinator of {key} to be found", every=0.02)
        return found[0]

    def group_coordinator(self, group: str) -> Link:
        return self.coordinator(group, _GROUP)

    def _someone(self) -> Link:
        """A connection to any node that is up."""
        for address in self.broker.bootstrap.split(","):
            try:
                return self.to(address)
            except ConnectionError:
                continue
        raise ConnectionError(f"no node of {self.broker.bootstrap} is up")

    def state_partition(self, transactional_id: str) -> int:
        """The partition of the coordinators' log that an id belongs to."""
        wanted = [MetadataRequest.MetadataRequestTopic(name=STATE_TOPIC)]
        (found,) = self._someone().get(MetadataRequest(topics=wanted), 12, MetadataResponse).topics
        return abs(java_hash(transactional_id)) % len(found.partitions)

    def log(self, topic: str, partition: int = 0) -> PartitionLog:
        return PartitionLog(self.leader(topic, partition), topic, partition)


def java_hash(text: str) -> int:
    """String.hashCode of ASCII text."""
    found = 0
    for letter in text.encode("ascii"):
        found = (31 * found + letter) & 0xFFFFFFFF
    return found - (1 << 32) if found >= 1 << 31 else found


class TxnProducer:
    """One producer of a transactional id. `level` is the transaction.version that it speaks."""

    def __init__(self, links: Links, level: int = 2, transactional_id: str | None = None) -> None:
        self.links = links
        self.level = level
        self.id = transactional_id or f"id-{uuid.uuid4().hex[:12]}"
        self.producer_id = -1
        self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}
        self.reconnect()

    def reconnect(self) -> None:
        """Asks the coordinator of now, when it has loaded."""

        def is_loaded() -> bool:
            self.coordinator = self.links.coordinator(self.id)
            return name_of(self.described().error_code) not in _PASSING

        eventually(is_loaded, f"the coordinator of {self.id} to have loaded", every=0.02)

    # Init

    def try_init(
        self, *, again: bool = False, timeout_ms: int = 60_000, version: int = 5, two_phases: bool = False
    ) -> str:
        """InitProducerId; `again` names the producer id and epoch that this one has (KIP-360)."""
        request = InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=timeout_ms,
            producer_id=self.producer_id if again else -1,
            producer_epoch=self.epoch if again else -1,
            enable_2pc=two_phases,
        )
        answer = self.coordinator.get(request, version, InitProducerIdResponse)
        if answer.error_code == 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
        return name_of(answer.error_code)

    def init(self, *, again: bool = False, timeout_ms: int = 60_000) -> Self:
        assert patiently(lambda: self.try_init(again=again, timeout_ms=timeout_ms)) == "NONE"
        return self

    # Partitions and records

    def try_add(self, topic: str, *partitions: int, epoch: int | None = None, version: int = 3) -> str:
        """AddPartitionsToTxn as clients send it: the error of the first partition that has one."""
        return next(
            (
                code
                for code in self.add_each({topic: list(partitions or (0,))}, epoch, version)
                if code != "NONE"
            ),
            "NONE",
        )

    def add_each(self, wanted: dict[str, list[int]], epoch: int | None = None, version: int = 3) -> list[str]:
        topics = [
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=partitions)
            for topic, partitions in wanted.items()
        ]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch if epoch is None else epoch,
            v3_and_below_topics=topics,
        )
        answer = self.coordinator.get(request, version, AddPartitionsToTxnResponse)
        return [
            name_of(each.partition_error_code)
            for result in answer.results_by_topic_v3_and_below
            for each in result.results_by_partition
        ]

    def add(self, topic: str, *partitions: int) -> None:
        assert patiently(lambda: self.try_add(topic, *partitions)) == "NONE"

    def try_send(
        self,
        topic: str,
        count: int = 3,
        partition: int = 0,
        *,
        epoch: int | None = None,
        sequence: int | None = None,
        version: int | None = None,
        transactional: bool = True,
        timestamp: int | None = None,
        size: int = 1,
    ) -> str:
        """Produce of one batch, to the leader of now; the sequence goes on where the last good one ended."""
        key = (topic, partition)
        begin = self._sequences.get(key, 0) if sequence is None else sequence
        now = int(time.time() * 1000) if timestamp is None else timestamp
        batch = encode_batch(
            [(number, now, None, b"x" * size, []) for number in range(count)],
            transactional=transactional,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=begin,
        )
        data = ProduceRequest.PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            transactional_id=self.id if transactional else None,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
        )
        at = (12 if self.level >= 2 else 11) if version is None else version
        answer = self.links.leader(topic, partition).get(request, at, ProduceResponse)
        (result,) = answer.responses[0].partition_responses
        if result.error_code == 0:
            self._sequences[key] = begin + count
        return name_of(result.error_code)

    def send(self, topic: str, count: int = 3, partition: int = 0, *, size: int = 1) -> None:
        """Records of a transaction, which the partition is added to first where the level says so."""
        if self.level < 2:
            self.add(topic, partition)
        sent = patiently(lambda: self.try_send(topic, count, partition, size=size), _PASSING_OF_SENDS)
        assert sent == "NONE"

    # Offsets

    def try_add_offsets(self, group: str, *, epoch: int | None = None, version: int = 3) -> str:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            group_id=group,
        )
        return name_of(self.coordinator.get(request, version, AddOffsetsToTxnResponse).error_code)

    def try_commit_offset(
        self,
        group: str,
        topic: str,
        offset: int,
        *,
        member_id: str = "",
        generation: int = -1,
        epoch: int | None = None,
        version: int | None = None,
    ) -> str:
        """TxnOffsetCommit of partition 0."""
        part = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            generation_id=generation,
            member_id=member_id,
            topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=topic, partitions=[part])],
        )
        at = (5 if self.level >= 2 else 4) if version is None else version
        (answered,) = self.links.group_coordinator(group).get(request, at, TxnOffsetCommitResponse).topics
        return name_of(answered.partitions[0].error_code)

    def commit_offset(self, group: str, topic: str, offset: int) -> None:
        if self.level < 2:
            assert patiently(lambda: self.try_add_offsets(group)) == "NONE"
        assert patiently(lambda: self.try_commit_offset(group, topic, offset)) == "NONE"

    # The end

    def ask_end(
        self,
        commit: bool,
        *,
        epoch: int | None = None,
        producer_id: int | None = None,
        version: int | None = None,
    ) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=commit,
        )
        at = (5 if self.level >= 2 else 4) if version is None else version
        return self.coordinator.get(request, at, EndTxnResponse)

    def try_end(self, commit: bool, *, epoch: int | None = None, version: int | None = None) -> str:
        """EndTxn; the producer goes on with what the answer gives it, unless another epoch was named."""
        answer = self.ask_end(commit, epoch=epoch, version=version)
        if answer.error_code == 0 and epoch is None and answer.producer_epoch >= 0:
            if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
                self._sequences.clear()
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return name_of(answer.error_code)

    def end(self, commit: bool) -> None:
        """Returns when the transaction is complete, and its markers are there."""
        assert patiently(lambda: self.try_end(commit)) == "NONE"
        self.wait_for("CompleteCommit" if commit else "CompleteAbort")

    # What the coordinator says

    def described(self) -> DescribeTransactionsResponse.TransactionState:
        request = DescribeTransactionsRequest(transactional_ids=[self.id])
        (found,) = self.coordinator.get(request, 0, DescribeTransactionsResponse).transaction_states
        return found

    @property
    def state(self) -> str:
        return self.described().transaction_state

    @property
    def known_epoch(self) -> int:
        return self.described().producer_epoch

    def partitions(self) -> list[tuple[str, int]]:
        return sorted(
            (topic.topic, number) for topic in self.described().topics for number in topic.partitions
        )

    def wait_for(self, *states: str) -> None:
        eventually(
            lambda: self.state in states, f"{self.id} to be {' or '.join(states)}", within=60, every=0.02
        )


def patiently(ask: Callable[[], str], passing: Sequence[str] = _PASSING) -> str:
    """The answer, once it is not one that asks for another try."""
    answers = ["NONE"]

    def is_final() -> bool:
        answers[0] = ask()
        return answers[0] not in passing

    eventually(is_final, f"an answer other than {answers[0]}", within=60, every=0.02)
    return answers[0]
