"""What goes wrong with transactions besides all that goes wrong with a cluster (fault_kinds.py).

Requests about transactions and their responses get lost; requests are held back while their client sends them again,
and arrive in the middle of a later transaction; markers take long; coordinators of transactions and of groups move
and are killed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla.broker.coordinator.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.broker.server import faults
from ottla.sim.fault_kinds import KINDS, Injury, Kind, NoVictimError, Scene, kill, move_leaders

_APIS: Final = (
    "EndTxn",
    "EndTxn",
    "EndTxn",
    "TxnOffsetCommit",
    "TxnOffsetCommit",
    "Produce",
    "Produce",
    "Produce",
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "FindCoordinator",
)
_STAGES: Final = ("before_append", "after_append", "after_append", "response")
_COORDINATED: Final = (TRANSACTIONS_TOPIC, TRANSACTIONS_TOPIC, OFFSETS_TOPIC)


async def lose_ends(scene: Scene) -> Injury:
    """Connections close before a request about a transaction is carried out, after it, or never answer again."""
    action = scene.random.choice((faults.drop, faults.drop, faults.never))
    return _rule(scene, action, scene.random.randint(1, 6))


async def delay_ends(scene: Scene) -> Injury:
    return _rule(scene, faults.delay(scene.random.choice((0.05, 0.5, 3.0))), scene.random.randint(1, 10))


def _rule(scene: Scene, action: faults.Action, count: int) -> Injury:
    rule = scene.cluster.faults.add(
        scene.random.choice(_APIS), when=scene.random.choice(_STAGES), action=action, count=count
    )

    async def heal() -> None:
        scene.cluster.faults.remove(rule)

    return Injury(str(rule), heal)


async def hold_back_requests(scene: Scene) -> Injury:
    """What a client has sent, and sends on these connections, arrives long after the client has sent it again."""
    if not scene.clients:
        raise NoVictimError
    client = scene.random.choice(scene.clients)
    nodes = scene.random.sample(scene.all_nodes(), scene.random.randint(1, 3))
    releases = [scene.runtime.network.hold_back(client, scene.machine(node_id)) for node_id in sorted(nodes)]

    async def heal() -> None:
        for release in releases:
            release()

    return Injury(f"of {client} to {sorted(nodes)}", heal)


async def slow_markers(scene: Scene) -> Injury:
    """Everything between nodes takes long: between the end of a transaction and its markers much may happen."""
    seconds = scene.random.choice((0.1, 0.5, 1.5))
    network, machines = scene.runtime.network, [scene.machine(node_id) for node_id in scene.all_nodes()]
    links = [(sender, receiver) for sender in machines for receiver in machines if sender != receiver]
    for link in links:
        network.slow_down(*link, seconds)

    async def heal() -> None:
        for link in links:
            network.speed_up(*link)

    return Injury(f"by {seconds} s", heal)


async def move_coordinators(scene: Scene) -> Injury:
    return await move_leaders(_coordinators(scene))


async def kill_coordinator(scene: Scene) -> Injury:
    return await kill(_coordinators(scene))


def _coordinators(scene: Scene) -> Scene:
    scene = replace(scene, topic=scene.random.choice(_COORDINATED))
    if not scene.leaders():
        raise NoVictimError
    return scene


TRANSACTION_KINDS: Final[dict[str, tuple[Kind, int]]] = {
    **KINDS,
    "lose ends": (lose_ends, 12),
    "delay ends": (delay_ends, 4),
    "hold back requests": (hold_back_requests, 12),
    "slow markers": (slow_markers, 8),
    "move coordinators": (move_coordinators, 8),
    "kill coordinator": (kill_coordinator, 6),
}
"""Every kind of fault, with how often it comes compared to the others."""
