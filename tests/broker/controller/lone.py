"""A controller as a server, without a cluster around it: in a simulation, with brokers that a test plays."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from ottla import sim
from ottla.broker.configs import BrokerConfigs
from ottla.broker.controller.configs import ControllerRules
from ottla.broker.controller.node import ControllerNode
from ottla.broker.controller.state import ControllerState
from ottla.broker.log.fs import FileSystem, MemoryFileSystem
from ottla.broker.metadata.features import SUPPORTED
from ottla.runtime import Runtime
from ottla.wire import Uuid
from ottla.wire.messages import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

CLUSTER_ID = "the-cluster"
HOST = "controller"
SESSION = 9.0
"""The default of broker.session.timeout.ms."""

ControllerBody = Callable[[sim.SimRuntime, ControllerNode], Awaitable[None]]


@asynccontextmanager
async def lone_controller(
    runtime: Runtime, config: Mapping[str, object], fs: FileSystem | None = None
) -> AsyncIterator[ControllerNode]:
    """With `fs`, on the volume of another controller, which has stopped."""
    configs = BrokerConfigs({name.replace("_", "."): value for name, value in config.items()}, node_id=0)
    features = {feature.name: (feature.min_version, feature.max_version) for feature in SUPPORTED}
    rules = ControllerRules(configs)
    state = ControllerState(CLUSTER_ID, rules, runtime.random, supported_features=features)
    controller = ControllerNode(runtime.at(HOST), fs or MemoryFileSystem(), state, configs)
    await controller.start(HOST)
    try:
        yield controller
    finally:
        await controller.stop()


def with_controller(body: ControllerBody, **config: object) -> None:
    """Runs the body in a simulation, with a controller that has started."""

    async def main(runtime: sim.SimRuntime) -> None:
        async with lone_controller(runtime, config) as controller:
            await body(runtime, controller)

    sim.run(main, seed=1)


def registration(broker_id: int, **fields: Any) -> BrokerRegistrationRequest:
    listener = BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="here", port=9000 + broker_id)
    fields.setdefault("cluster_id", CLUSTER_ID)
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        incarnation_id=Uuid(broker_id.to_bytes(16, "big")),
        listeners=[listener],
        **fields,
    )


def beat(controller: ControllerNode, broker_id: int) -> None:
    """A heartbeat of a broker that knows all decisions."""
    image = controller.state.image
    request = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=image.brokers[broker_id].epoch,
        current_metadata_offset=image.offset,
    )
    controller.commit(controller.state.broker_heartbeat(request, controller.now()).records)


def join(controller: ControllerNode, *broker_ids: int) -> None:
    """Registers brokers and unfences them."""
    for broker_id in broker_ids:
        decision = controller.state.register_broker(registration(broker_id), controller.now())
        controller.commit(decision.records)
        beat(controller, broker_id)


def new_topic(name: str, *replicas: int, **fields: Any) -> CreateTopicsRequest:
    """One partition on these brokers, the first of which leads it."""
    assignment = CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=[assignment], **fields
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=1000)


async def create(controller: ControllerNode, name: str, *replicas: int) -> None:
    decision = controller.state.create_topics(new_topic(name, *replicas), 7)
    response: CreateTopicsResponse = await controller.carry_out(decision)
    assert [topic.error_code for topic in response.topics] == [0]
