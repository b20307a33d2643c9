"""The coordinators' own log: a record of it written by hand, so that a producer begins where years would lead."""

from __future__ import annotations

import struct
import time

from ottla.wire.batches import encode_batch
from tests.interop import confluent
from tests.interop.groups.link import Link
from tests.interop.transactions.producer import STATE_TOPIC, Links, TxnProducer
from tests.interop.waiting import eventually

COMPLETE_COMMIT = 4
# Clients may not write to internal topics, but for the one that goes by this name.
_WRITER = "__admin_client"


def move_coordinator(producer: TxnProducer) -> None:
    """Another node coordinates the id, and has loaded what is written of it."""
    links = producer.links
    partition = links.state_partition(producer.id)
    broker = links.broker
    old = broker.leader(STATE_TOPIC, partition)
    new = next(node for node in broker.node_ids if node != old and is_up(links, node))
    eventually(lambda: new in in_sync(links, STATE_TOPIC, partition), f"node {new} to be in sync")
    broker.move_leader(STATE_TOPIC, partition, new)
    links.forget()
    eventually(lambda: links.find_coordinator(producer.id).node_id == new, "the new coordinator to be known")
    producer.reconnect()


def in_sync(links: Links, topic: str, partition: int) -> list[int]:
    return confluent.in_sync(links.broker.bootstrap, topic, partition)


def is_up(links: Links, node: int) -> bool:
    return node in confluent.brokers(links.broker.bootstrap)


def begin_at(producer: TxnProducer, epoch: int) -> None:
    """The producer has committed its last transaction at this epoch, and goes on from there."""
    links = producer.links
    partition = links.state_partition(producer.id)
    name = producer.id.encode()
    key = struct.pack(">hh", 0, len(name)) + name
    now = int(time.time() * 1000)
    # Version 0: producer id, epoch, timeout, status, no partitions, last update, no start.
    value = struct.pack(">hqhibiqq", 0, producer.producer_id, epoch, 60_000, COMPLETE_COMMIT, 0, now, -1)
    address = links.broker.address(links.broker.leader(STATE_TOPIC, partition))
    with Link(address, _WRITER) as link:
        link.produce(STATE_TOPIC, encode_batch([(0, now, key, value, [])]), partition)
    move_coordinator(producer)
    producer.epoch = epoch
    assert (producer.state, producer.known_epoch) == ("CompleteCommit", epoch)
