"""Where acknowledged records may be lost to a power loss: read from the controller's own decisions.

With unclean elections off, Kafka elects a replica that may lack committed records in one case only: every member of
the ISR and of the ELR has stopped uncleanly, so the last known leader takes over as RECOVERING (KIP-966). What is
lost with that is what this leader had not flushed when its power went: it was in sync until then. One that was
only killed has lost nothing. An `Exposure` is such an election of a leader that has lost its power since
it was in sync.

That one is named by the log of the controller, which is read here record by record, and never by what nodes say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.broker.controller.node import ControllerNode
from ottla.broker.metadata.names import METADATA_TOPIC
from ottla.broker.metadata.records import (
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode,
)
from ottla.sim.disks import PowerLoss
from ottla.wire import Uuid
from ottla.wire.records import decode_fetch

_READ_BYTES: Final = 1 << 20


class Exposure(NamedTuple):
    """A partition is led by a replica that has lost its power since it was in sync."""

    time_ms: int
    """Of the election."""
    leader: int
    flushed: int
    """What lies before it was on the leader's disk, and is still there."""


Exposures = Mapping[int, Sequence[Exposure]]
"""By partition."""


class ElectionHistory:
    """Follows the elections of one topic."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._topic_id: Uuid | None = None
        self._offset = 0
        self._broker_epochs: dict[int, int] = {}
        # By partition and replica, in which life it was last taken into the ISR.
        self._in_sync_since: dict[tuple[int, int], int] = {}
        self._members: dict[int, tuple[int, ...]] = {}
        self._recovering: dict[int, bool] = {}
        self.exposures: dict[int, list[Exposure]] = defaultdict(list)

    def follow(self, controller: ControllerNode, losses: Sequence[PowerLoss]) -> None:
        """Reads on to the end of what the controller has decided."""
        while self._offset < controller.log_end_offset:
            data = controller.stored(self._offset, _READ_BYTES)
            for record in decode_fetch(data, METADATA_TOPIC, 0, offset=self._offset):
                self._apply(decode(record.value or b""), record.timestamp, losses)
                self._offset = record.offset + 1

    def _apply(self, record: MetadataRecord, time_ms: int, losses: Sequence[PowerLoss]) -> None:
        if isinstance(record, RegisterBrokerRecord):
            self._broker_epochs[record.broker_id] = record.broker_epoch
        elif isinstance(record, TopicRecord) and record.name == self._topic:
            self._topic_id = record.topic_id
        elif isinstance(record, PartitionRecord) and record.topic_id == self._topic_id:
            self._take_in(record.index, record.isr)
        elif isinstance(record, PartitionChangeRecord) and record.topic_id == self._topic_id:
            if record.recovering is not None:
                self._recovering[record.index] = record.recovering
            # One that is still RECOVERING from the last time does not become so again.
            if self._recovering.get(record.index) and record.leader is not None:
                self._note_election(record.index, record.leader, time_ms, losses)
            if record.isr is not None:
                self._take_in(record.index, record.isr)

    def _take_in(self, index: int, isr: tuple[int, ...]) -> None:
        for replica in isr:
            if replica not in self._members.get(index, ()):
                self._in_sync_since[index, replica] = self._broker_epochs.get(replica, -1)
        self._members[index] = isr

    def _note_election(self, index: int, leader: int, time_ms: int, losses: Sequence[PowerLoss]) -> None:
        since = self._in_sync_since.get((index, leader), -1)
        lost = [loss for loss in losses if loss.node_id == leader and loss.broker_epoch >= since]
        if lost:
            flushed = min(loss.flushed.get(index, 0) for loss in lost)
            self.exposures[index].append(Exposure(time_ms, leader, flushed))
