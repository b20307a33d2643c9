"""What goes wrong with a simulated cluster: each kind of fault, whom it strikes, and how it heals.

A kind is a function that looks for a victim, more often than not a leader, strikes, and returns what heals it. Faults
overlap as they come; only the lives of nodes are taken one fault at a time, so that what was stopped is started again
by the fault that stopped it. When which of them comes is the nemesis's business (nemesis.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.cluster.node import Node
from ottla.broker.server import faults
from ottla.client.client import AsyncClient
from ottla.errors import KafkaError
from ottla.runtime import Random
from ottla.sim.network import CutMode
from ottla.sim.runtime import SimRuntime

_CONTROLLER: Final = "controller"
_MODES: Final[tuple[CutMode, ...]] = ("silent", "one way", "reset")
_PROPOSES_WITHIN: Final = 2.0

Heal = Callable[[], Awaitable[None]]


class NoVictimError(Exception):
    """There is nothing now that this kind of fault could strike."""


@dataclass(frozen=True)
class Injury:
    """A fault that has struck: what it is, and what ends it."""

    what: str
    heal: Heal


@dataclass
class Scene:
    """What faults may strike, and the randomness of one of them."""

    runtime: SimRuntime
    cluster: AsyncCluster
    topic: str
    clients: Sequence[str]
    """The machines of clients."""
    random: Random
    taken: dict[int, None]
    """The nodes that a fault has stopped, or is about to."""

    # Victims

    def leaders(self) -> dict[int, int]:
        """Who leads each partition, by what the nodes themselves believe."""
        epochs: dict[int, tuple[int, int]] = {}
        for node_id, node in self.cluster.nodes.items():
            for (topic, index), replica in node.replicas.partitions.items():
                if topic == self.topic and replica.is_leader:
                    epochs[index] = max(epochs.get(index, (-1, -1)), (replica.leader_epoch, node_id))
        return {index: node_id for index, (_, node_id) in sorted(epochs.items())}

    def leader(self) -> tuple[int, int]:
        """A partition, and the node that leads it."""
        leaders = self.leaders()
        if not leaders:
            raise NoVictimError
        return self.random.choice(list(leaders.items()))

    def node(self) -> Node:
        """A node that runs: more often than not one that leads."""
        nodes = self.cluster.nodes
        if not nodes:
            raise NoVictimError
        leaders = list(self.leaders().values())
        if leaders and self.random.random() < 0.6:
            return nodes[self.random.choice(leaders)]
        return nodes[self.random.choice(sorted(nodes))]

    def pair(self) -> tuple[int, int]:
        """Two nodes, of which the first often leads."""
        first = self.node().id
        return first, self.random.choice([each for each in self.all_nodes() if each != first])

    def all_nodes(self) -> list[int]:
        return sorted({*self.cluster.nodes, *self.taken})

    # The lives of nodes

    def take(self, node_id: int | None = None) -> int:
        """A node to be stopped, which no other fault stops or starts until it is given back."""
        if node_id is None:
            node_id = self.node().id
            if node_id in self.taken:
                node_id = self.random.choice(self.free() or [node_id])
        if node_id not in self.free():
            raise NoVictimError
        self.taken[node_id] = None
        return node_id

    def free(self) -> list[int]:
        """The nodes that run, and that no fault is about to stop."""
        return [each for each in sorted(self.cluster.nodes) if each not in self.taken]

    def roles(self) -> tuple[int, int, int]:
        """A leader and its two followers, all of them free."""
        _, leader = self.leader()
        followers = [each for each in self.free() if each != leader]
        if leader in self.taken or len(followers) < 2:
            raise NoVictimError
        follower, other = self.random.sample(followers, 2)
        return leader, follower, other

    async def stop(self, node_id: int, *, clean: bool) -> None:
        await self.cluster.stop_node(node_id, clean=clean)

    async def start(self, node_id: int) -> None:
        await self.cluster.start_node(node_id)
        del self.taken[node_id]

    def machine(self, node_id: int) -> str:
        return f"node-{node_id}"


# Nodes


async def kill(scene: Scene) -> Injury:
    node_id = scene.take()
    await scene.stop(node_id, clean=False)
    return Injury(f"node {node_id}", lambda: scene.start(node_id))


async def stop(scene: Scene) -> Injury:
    node_id = scene.take()
    await scene.stop(node_id, clean=True)
    return Injury(f"node {node_id}", lambda: scene.start(node_id))


async def cascade(scene: Scene) -> Injury:
    """The leader, then the one that takes over; they come back in any order."""
    partition, leader = scene.leader()
    killed = [scene.take(leader)]
    await scene.stop(killed[0], clean=False)
    await asyncio.sleep(scene.random.choice([0.0, 0.1, 3.0, 10.0]))
    successor = scene.leaders().get(partition)
    if successor is not None:
        killed += await _kill_unless_taken(scene, successor)
    return Injury(f"nodes {killed}", lambda: _start_all(scene, killed))


async def blackout(scene: Scene) -> Injury:
    """All of them at once; they come back in any order."""
    if len(scene.free()) < 2:
        raise NoVictimError
    killed = [scene.take(node_id) for node_id in scene.free()]
    await asyncio.gather(*(scene.stop(node_id, clean=False) for node_id in killed))
    return Injury(f"nodes {killed}", lambda: _start_all(scene, killed))


async def _start_all(scene: Scene, node_ids: list[int]) -> None:
    node_ids = scene.random.sample(node_ids, len(node_ids))
    pauses = [scene.random.choice([0.0, 0.5, 4.0]) for _ in node_ids]

    async def start_later(node_id: int, delay: float) -> None:
        await asyncio.sleep(delay)
        await scene.start(node_id)

    await asyncio.gather(*(start_later(*each) for each in zip(node_ids, pauses, strict=True)))


async def pause(scene: Scene) -> Injury:
    node = scene.node()
    node.pause()

    async def heal() -> None:
        # One that was stopped meanwhile has come back as another incarnation.
        node.resume()

    return Injury(f"node {node.id}", heal)


async def fence(scene: Scene) -> Injury:
    """The controller gives up a node that is well."""
    node = scene.node()
    with _controller_needed():
        await scene.cluster.fence_node(node.id)
    return Injury(f"node {node.id}", _nothing)


# Links


async def cut_link(scene: Scene) -> Injury:
    first, second = scene.pair()
    scene.cluster.cut_link(first, second)
    return Injury(f"between {first} and {second}", _heal_links(scene, [(first, second)]))


async def cut_link_one_way(scene: Scene) -> Injury:
    first, second = scene.pair()
    if scene.random.random() < 0.5:
        first, second = second, first
    scene.cluster.cut_link(first, second, one_way=True)
    return Injury(f"from {first} to {second}", _heal_links(scene, [(first, second)]))


async def isolate(scene: Scene) -> Injury:
    """A node reaches the controller and its clients, and no other node."""
    first = scene.node().id
    pairs = [(first, second) for second in scene.all_nodes() if second != first]
    for pair in pairs:
        scene.cluster.cut_link(*pair)
    return Injury(f"node {first}", _heal_links(scene, pairs))


async def flap_link(scene: Scene) -> Injury:
    """A link that breaks again and again."""
    first, second = scene.pair()
    for _ in range(scene.random.randint(3, 8)):
        scene.cluster.cut_link(first, second, one_way=scene.random.random() < 0.3)
        await asyncio.sleep(scene.random.uniform(0.05, 0.8))
        scene.cluster.heal_link(first, second)
        await asyncio.sleep(scene.random.uniform(0.0, 0.2))
    return Injury(f"between {first} and {second}", _nothing)


def _heal_links(scene: Scene, pairs: list[tuple[int, int]]) -> Heal:
    async def heal() -> None:
        for pair in pairs:
            scene.cluster.heal_link(*pair)

    return heal


async def cut_controller(scene: Scene) -> Injury:
    """A node serves clients and other nodes, and neither hears from the controller nor is heard."""
    node = scene.node()
    if scene.random.random() < 0.5:
        node.link.cut()

        async def heal() -> None:
            node.link.heal()

        return Injury(f"off node {node.id}", heal)
    mode = scene.random.choice(_MODES)
    return _cut(scene, [(_CONTROLLER, scene.machine(node.id))], mode)


async def zombie(scene: Scene) -> Injury:
    """A leader that clients reach, and neither the controller nor other nodes."""
    _, first = scene.leader()
    node = scene.cluster.nodes[first]
    node.link.cut()
    pairs = [(first, second) for second in scene.all_nodes() if second != first]
    one_way = scene.random.random() < 0.3
    for sender, receiver in pairs:
        scene.cluster.cut_link(sender, receiver, one_way=one_way)
    heal_links = _heal_links(scene, pairs)

    async def heal() -> None:
        node.link.heal()
        if scene.random.random() < 0.5:
            # Others reach it before it hears from the controller, or only then.
            await asyncio.sleep(scene.random.uniform(0.0, 3.0))
        await heal_links()

    return Injury(f"node {first}{' (it still hears others)' if one_way else ''}", heal)


async def cut_client(scene: Scene) -> Injury:
    """A client does not reach some of the nodes."""
    if not scene.clients:
        raise NoVictimError
    client = scene.random.choice(scene.clients)
    nodes = scene.all_nodes()
    chosen = scene.random.sample(nodes, scene.random.randint(1, len(nodes)))
    ends = [(client, scene.machine(node_id)) for node_id in sorted(chosen)]
    mode = scene.random.choice(_MODES)
    if mode == "one way" and scene.random.random() < 0.5:
        # Requests arrive, and their responses do not.
        ends = [(node, client) for client, node in ends]
    return _cut(scene, ends, mode)


def _cut(scene: Scene, ends: list[tuple[str, str]], mode: CutMode) -> Injury:
    network = scene.runtime.network
    for first, second in ends:
        network.cut(first, second, mode)

    async def heal() -> None:
        for first, second in ends:
            network.heal(first, second)

    return Injury(f"{mode}: " + ", ".join(f"{first} - {second}" for first, second in ends), heal)


async def lose_isr_change(scene: Scene) -> Injury:
    """The controller takes a follower in, and its leader does not learn of it; the two part, and the leader dies."""
    leader, follower, _ = scene.roles()
    network, machine = scene.runtime.network, scene.machine(leader)

    def cut() -> None:
        network.cut(_CONTROLLER, machine, "one way")

    scene.take(follower)
    await scene.stop(follower, clean=True)
    await asyncio.gather(scene.start(follower), _until_proposed(scene, leader, cut))
    await asyncio.sleep(scene.random.choice([0.005, 0.1, 1.0]))
    scene.cluster.cut_link(leader, follower)
    await asyncio.sleep(scene.random.uniform(0.5, 4.0))
    killed = await _kill_unless_taken(scene, leader)

    async def heal() -> None:
        network.heal(_CONTROLLER, machine)
        scene.cluster.heal_link(leader, follower)
        await _start_all(scene, killed)

    return Injury(f"of leader {leader}, follower {follower}", heal)


async def part_at_joining(scene: Scene) -> Injury:
    """A follower comes back to a leader that was restarted; when that takes it in the two part, and the leader dies.

    Such a leader knows a high watermark from some time ago only, and the follower may have come as far as that.
    """
    leader, follower, other = scene.roles()

    def cut() -> None:
        scene.cluster.cut_link(leader, follower)

    for node_id in (leader, follower, other):
        scene.take(node_id)
    await scene.stop(follower, clean=True)
    await asyncio.sleep(scene.random.uniform(0.5, 3.0))
    await scene.stop(other, clean=True)
    await scene.stop(leader, clean=False)
    await scene.start(leader)
    await asyncio.gather(scene.start(follower), _until_proposed(scene, leader, cut))
    await asyncio.sleep(scene.random.choice([0.005, 0.1, 1.0]))
    killed = await _kill_unless_taken(scene, leader)

    async def heal() -> None:
        # As the last one, the other node finds whoever leads by then.
        await _start_all(scene, killed)
        scene.cluster.heal_link(leader, follower)
        await scene.start(other)

    return Injury(f"leader {leader}, follower {follower}", heal)


async def _until_proposed(scene: Scene, leader: int, cut: Callable[[], None]) -> None:
    """Cuts in the moment in which a leader proposes to change an ISR, or after a while if it does not."""
    network, machine = scene.runtime.network, scene.machine(leader)
    with suppress(TimeoutError):
        async with asyncio.timeout(_PROPOSES_WITHIN):
            # At the latest, the leader is looked at when its proposal arrives at the controller.
            while not _proposes(scene, leader):
                await network.next_arrival_from(machine)
    cut()


def _proposes(scene: Scene, leader: int) -> bool:
    node = scene.cluster.nodes.get(leader)
    return node is None or any(replica.pending is not None for replica in node.replicas.partitions.values())


async def _kill_unless_taken(scene: Scene, node_id: int) -> list[int]:
    if node_id in scene.taken or node_id not in scene.cluster.nodes:
        return []
    scene.take(node_id)
    await scene.stop(node_id, clean=False)
    return [node_id]


async def slow_follower(scene: Scene) -> Injury:
    """What one node sends to another takes long, and so does what comes back."""
    first, second = scene.pair()
    seconds = scene.random.choice([0.05, 0.3, 1.0, 3.0])
    directions = [
        (scene.machine(first), scene.machine(second)),
        (scene.machine(second), scene.machine(first)),
    ]
    network = scene.runtime.network
    for sender, receiver in directions:
        network.slow_down(sender, receiver, seconds)

    async def heal() -> None:
        for sender, receiver in directions:
            network.speed_up(sender, receiver)

    return Injury(f"by {seconds} s between {first} and {second}", heal)


async def reset(scene: Scene) -> Injury:
    """Connections break in the middle of what they carry; new ones can be made."""
    machine = scene.random.choice([*scene.clients, _CONTROLLER])
    node = scene.machine(scene.node().id)
    times = scene.random.randint(1, 4)
    for _ in range(times):
        scene.runtime.network.reset(machine, node)
        await asyncio.sleep(scene.random.choice([0.0, 0.003, 0.3]))
    return Injury(f"{times} times: {machine} - {node}", _nothing)


# Responses


async def lose_responses(scene: Scene) -> Injury:
    """Connections close before a request is carried out, after it, or never answer again."""
    api = scene.random.choice(["Produce", "Produce", "Fetch", "Metadata", "InitProducerId"])
    when = scene.random.choice(["before_append", "after_append", "response"])
    action = scene.random.choice([faults.drop, faults.drop, faults.never])
    rule = scene.cluster.faults.add(api, when=when, action=action, count=scene.random.randint(1, 5))
    return Injury(str(rule), _remove(scene, rule))


async def delay_responses(scene: Scene) -> Injury:
    api = scene.random.choice(["Produce", "Produce", "Fetch", "Metadata"])
    when = scene.random.choice(["before_append", "after_append", "response"])
    action = faults.delay(scene.random.choice([0.05, 0.5, 3.0, 12.0]))
    rule = scene.cluster.faults.add(api, when=when, action=action, count=scene.random.randint(1, 10))
    return Injury(str(rule), _remove(scene, rule))


def _remove(scene: Scene, rule: faults.Fault) -> Heal:
    async def heal() -> None:
        scene.cluster.faults.remove(rule)

    return heal


# Time, and the controller


async def jump_clock(scene: Scene) -> Injury:
    """As if the whole world had been asleep."""
    seconds = scene.random.choice([0.7, 3.0, 12.0, 40.0])
    scene.cluster.clock.advance(seconds)
    return Injury(f"by {seconds} s", _nothing)


async def stop_controller(scene: Scene) -> Injury:
    return await _without_controller(scene, clean=True)


async def kill_controller(scene: Scene) -> Injury:
    return await _without_controller(scene, clean=False)


async def _without_controller(scene: Scene, *, clean: bool) -> Injury:
    with _controller_needed():
        await scene.cluster.stop_controller(clean=clean)
    return Injury("", scene.cluster.start_controller)


async def move_leaders(scene: Scene) -> Injury:
    """Several times, and sometimes back again before it is through."""
    moved = []
    for _ in range(scene.random.randint(1, 6)):
        partition, leader = scene.leader()
        target = scene.random.choice([each for each in scene.all_nodes() if each != leader])
        try:
            with _controller_needed():
                await scene.cluster.move_leader(scene.topic, partition, target)
            moved.append(f"{partition} to {target}")
        except KafkaError:
            continue  # the other one is not in sync
        await asyncio.sleep(scene.random.choice([0.0, 0.0, 0.01, 0.5]))
    if not moved:
        raise NoVictimError
    return Injury(", ".join(moved), _nothing)


async def elect_leaders(scene: Scene) -> Injury:
    """The first replicas lead again, where they are in sync: as a client requests it."""
    bootstrap = scene.cluster.bootstrap
    if not bootstrap:
        raise NoVictimError
    async with AsyncClient(
        bootstrap, runtime=scene.runtime.at("admin"), default_api_timeout_ms=3000
    ) as client:
        try:
            elected = await client.admin.elect_leaders(errors="collect")
        except KafkaError as error:
            raise NoVictimError from error
    return Injury(f"of {len(elected)} partitions", _nothing)


async def _nothing() -> None:
    """It heals by itself."""


@contextmanager
def _controller_needed() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise NoVictimError from error


Kind = Callable[[Scene], Awaitable[Injury]]

KINDS: Final[dict[str, tuple[Kind, int]]] = {
    "kill": (kill, 4),
    "stop": (stop, 3),
    "cascade": (cascade, 2),
    "blackout": (blackout, 1),
    "pause": (pause, 3),
    "fence": (fence, 2),
    "cut link": (cut_link, 3),
    "cut link one way": (cut_link_one_way, 3),
    "isolate": (isolate, 2),
    "flap link": (flap_link, 2),
    "cut controller": (cut_controller, 3),
    "zombie": (zombie, 4),
    "lose ISR change": (lose_isr_change, 3),
    "part at joining": (part_at_joining, 3),
    "cut client": (cut_client, 2),
    "slow follower": (slow_follower, 2),
    "reset": (reset, 2),
    "lose responses": (lose_responses, 3),
    "delay responses": (delay_responses, 2),
    "jump clock": (jump_clock, 1),
    "stop controller": (stop_controller, 1),
    "kill controller": (kill_controller, 1),
    "move leaders": (move_leaders, 3),
    "elect leaders": (elect_leaders, 2),
}
"""Every kind of fault, with how often it comes compared to the others."""

LASTING: Final = (
    "kill",
    "stop",
    "cascade",
    "pause",
    "cut link",
    "cut link one way",
    "isolate",
    "cut controller",
    "zombie",
    "cut client",
    "slow follower",
    "kill controller",
)
"""Those that go on until they are healed, and may outlast every timeout."""
