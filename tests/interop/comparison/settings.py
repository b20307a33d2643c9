"""How both brokers are configured for the comparison: alike, and such that time and chance have no say."""

from __future__ import annotations

from typing import Final

SETTINGS: Final[dict[str, str]] = {
    # Records of the script are years old.
    "log.retention.ms": "-1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "5",
    "default.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "500",
    "log.cleaner.dedupe.buffer.size": "2097152",
}
