"""The markers of transactions that end, on their way from this node's coordinators to the leaders of the partitions.

What is to be written is a `PendingEnd`: one per transaction, from the moment when its Prepare record is committed
until every partition has its marker. Markers for one leader travel together, one request at a time. A leader that
refuses or cannot be reached gets them again, or the leader that follows it does: with each attempt the image says who
leads. A partition that is gone from the image needs no marker.

Two errors end it without success: the leader has seen a newer producer epoch, or a newer coordinator. Then another
coordinator, or another transaction, is responsible, and this one stays prepared, as in Kafka.

Invariant: a marker leaves only for an end that is committed, and none after its shard is unloaded (`drop`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.broker.coordinator.transactions.state import ProducerIdAndEpoch, TopicPartition
from ottla.errors import (
    InvalidProducerEpochError,
    KafkaError,
    NotLeaderOrFollowerError,
    TransactionCoordinatorFencedError,
    UnsupportedForMessageFormatError,
    UnsupportedVersionError,
)
from ottla.wire.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse

if TYPE_CHECKING:
    from ottla.broker.metadata.image import MetadataImage
    from ottla.runtime import Clock, Timer
    from ottla.wire import Message

_log = logging.getLogger("ottla.broker.coordinator.transactions.markers")

_VERSION: Final = 2
_RETRY: Final = 0.1
"""Seconds until markers that a leader did not take are sent again."""
_WRITTEN: Final = (0, UnsupportedForMessageFormatError.code, UnsupportedVersionError.code)
"""A partition whose format has no transactions has none to end."""
_GIVEN_UP: Final = (InvalidProducerEpochError.code, TransactionCoordinatorFencedError.code)

WritableTxnMarker = WriteTxnMarkersRequest.WritableTxnMarker


class NodeRequests(Protocol):
    """The way to the other nodes, and to this one."""

    async def request(self, leader: int, request: Message, version: int, timeout: float) -> Message:
        """The response; an OSError, a TimeoutError or a KafkaError where there is none."""


@dataclass(slots=True, eq=False, kw_only=True)
class PendingEnd:
    """A transaction whose end is committed, and whose markers are not all written."""

    transactional_id: str
    shard: int
    """The partition of the transaction topic that it is in."""
    producer: ProducerIdAndEpoch
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int
    remaining: dict[TopicPartition, None]
    """The partitions that have no marker yet."""
    on_written: Callable[[], object] = field(repr=False)
    """Called once, when every partition has its marker."""
    is_over: bool = False


_Queued = tuple[PendingEnd, TopicPartition]


class MarkerSender:
    """Sends the markers of all shards of one node."""

    def __init__(
        self,
        image: MetadataImage,
        link: NodeRequests,
        clock: Clock,
        timeout: Callable[[], float],
        spawn: Callable[[Coroutine[Any, Any, object]], None],
    ) -> None:
        self._image = image
        self._link = link
        self._clock = clock
        self._timeout = timeout
        self._spawn = spawn
        self._pending: dict[PendingEnd, None] = {}
        # What no request carries, in the order of its coming.
        self._queue: dict[_Queued, None] = {}
        # The leaders that have a request of this node.
        self._busy: dict[int, None] = {}
        self._retry: Timer | None = None
        self._is_paused = False

    def send(self, end: PendingEnd) -> None:
        self._pending[end] = None
        self._queue.update(dict.fromkeys((end, partition) for partition in end.remaining))
        if not end.remaining:
            self._finish(end)
        self.flush()

    def drop(self, shard: int) -> None:
        """The shard is another node's, or loaded anew: its transactions are not this sender's any more."""
        for end in [end for end in self._pending if end.shard == shard]:
            self._forget(end)

    def flush(self) -> None:
        """Sends what can be sent: to each leader that has no request of this node yet.

        What has no leader waits for the next change of the image, which calls this.
        """
        if self._is_paused:
            return
        by_leader: dict[int, list[_Queued]] = {}
        for queued in list(self._queue):
            end, partition = queued
            if end.is_over:
                continue  # its last partition has just gone
            known = self._image.partition(*partition)
            if known is None:
                del self._queue[queued]
                self._written(end, partition)
            elif known.has_leader and known.leader not in self._busy:
                del self._queue[queued]
                by_leader.setdefault(known.leader, []).append(queued)
        for leader, markers in by_leader.items():
            self._busy[leader] = None
            self._spawn(self._request(leader, markers))

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self.flush()

    def close(self) -> None:
        for end in list(self._pending):
            self._forget(end)
        if self._retry is not None:
            self._retry.cancel()

    def _flush_later(self) -> None:
        if self._retry is None:
            self._retry = self._clock.call_later(_RETRY, self._flush_again)

    def _flush_again(self) -> None:
        self._retry = None
        self.flush()

    async def _request(self, leader: int, markers: list[_Queued]) -> None:
        failed = True
        try:
            response = await self._link.request(
                leader,
                markers_request([queued for queued in markers if not queued[0].is_over]),
                _VERSION,
                self._timeout(),
            )
            assert isinstance(response, WriteTxnMarkersResponse)
            failed = self._responded(markers, response)
        except (OSError, TimeoutError, KafkaError) as error:
            _log.info("markers of transactions did not get to node %s: %s", leader, error)
            self._again(markers)
        finally:
            self._busy.pop(leader, None)
        if failed:
            self._flush_later()
        else:
            self.flush()

    def _responded(self, markers: Sequence[_Queued], response: WriteTxnMarkersResponse) -> bool:
        """Whether some have to be sent again."""
        codes = {
            (marker.producer_id, topic.name, partition.partition_index): partition.error_code
            for marker in response.markers
            for topic in marker.topics
            for partition in topic.partitions
        }
        again: list[_Queued] = []
        for end, partition in markers:
            code = codes.get((end.producer.producer_id, *partition), NotLeaderOrFollowerError.code)
            if code in _WRITTEN:
                # Also of one that another partition has ended: its description has those that still lack a marker.
                self._written(end, partition)
            elif end.is_over:
                continue
            elif code in _GIVEN_UP:
                _log.warning(
                    "the transaction of %r stays prepared: %s-%s refuses its marker with error code %s",
                    *(end.transactional_id, *partition, code),
                )
                self._forget(end)
            else:
                again.append((end, partition))
        self._again(again)
        return bool(again)

    def _again(self, markers: Sequence[_Queued]) -> None:
        self._queue.update(dict.fromkeys(queued for queued in markers if not queued[0].is_over))

    def _written(self, end: PendingEnd, partition: TopicPartition) -> None:
        end.remaining.pop(partition, None)
        if not end.remaining and not end.is_over:
            self._finish(end)

    def _finish(self, end: PendingEnd) -> None:
        self._forget(end)
        end.on_written()

    def _forget(self, end: PendingEnd) -> None:
        end.is_over = True
        self._pending.pop(end, None)
        for partition in end.remaining:
            self._queue.pop((end, partition), None)


def markers_request(markers: Sequence[_Queued]) -> WriteTxnMarkersRequest:
    """One marker per transaction, with the partitions that it goes to."""
    requested: dict[PendingEnd, WritableTxnMarker] = {}
    for end, (topic, index) in markers:
        marker = requested.get(end)
        if marker is None:
            marker = requested[end] = WritableTxnMarker(
                producer_id=end.producer.producer_id,
                producer_epoch=end.producer.epoch,
                transaction_result=end.is_commit,
                coordinator_epoch=end.coordinator_epoch,
                transaction_version=end.transaction_version,
            )
        if not marker.topics or marker.topics[-1].name != topic:
            marker.topics.append(WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic))
        marker.topics[-1].partition_indexes.append(index)
    return WriteTxnMarkersRequest(markers=list(requested.values()))
