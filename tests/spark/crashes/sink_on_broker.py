"""What a broker knows of a sink, and what may happen to that there while the sink is stopped, or dead."""

from __future__ import annotations

from pathlib import Path

import ottla
import ottla.spark
from tests.interop.brokers import Broker
from tests.interop.transactions.producer import STATE_TOPIC, Links

DRIVER, FIRST_TASKS = "driver", ("0", "1")
"""Ends of transactional ids, behind the id of the sink."""


def sink_id_in(checkpoint: Path) -> str:
    """The id of the query, unless the query has said another."""
    from ottla.spark.sink.query_id import query_id_of

    found = query_id_of(str(checkpoint), required=True)
    assert found is not None
    return found


def open_transactions(bootstrap: str, sink_id: str) -> list[str]:
    """The transactional ids."""
    with ottla.Client(bootstrap) as client:
        listed = client.admin.list_transactions(states=["Ongoing"])
    return [name for name in listed if name.startswith(f"{sink_id}-")]


def lose_a_decided_transaction(bootstrap: str, sink_id: str) -> None:
    """A late attempt of a task initializes its id, and so aborts what was decided and is not yet committed."""
    state = ottla.spark.recover({"kafka.bootstrap.servers": bootstrap}, sink_id)
    lost = next(each for each in state.open if each.is_decided)
    with ottla.Client(bootstrap, transactional_id=lost.prepared.transactional_id) as late:
        late.init_transactions()


def coordinator_of(broker: Broker, sink_id: str, end: str = DRIVER) -> int:
    """The node."""
    with Links(broker) as links:
        return links.find_coordinator(f"{sink_id}-{end}").node_id


def move_coordinators(broker: Broker, sink_id: str) -> None:
    """Another node coordinates the driver's id, and others those of the first two tasks."""
    with Links(broker) as links:
        partitions = {links.state_partition(f"{sink_id}-{end}") for end in (DRIVER, *FIRST_TASKS)}
    for partition in sorted(partitions):
        old = broker.leader(STATE_TOPIC, partition)
        broker.move_leader(STATE_TOPIC, partition, next(node for node in broker.node_ids if node != old))
