"""A broker's link to the controller: registration, the metadata log, heartbeats, cuts, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla import sim
from ottla.broker.configs import BrokerConfigs
from ottla.broker.controller.node import ControllerNode
from ottla.broker.metadata import controller_channel
from ottla.broker.metadata.controller_channel import BrokerIdentity, ControllerChannel, Listener
from ottla.broker.metadata.image import Delta, MetadataImage
from ottla.broker.metadata.records import SupportedFeature
from ottla.errors import RequestTimedOutError
from ottla.wire.messages import UnregisterBrokerRequest
from tests.broker.controller.lone import CLUSTER_ID, SESSION, create, new_topic, with_controller

LISTENER = Listener(name="PLAINTEXT", host="node-1", port=9092)


class Link:
    """A channel as a node has it: with an image, and with what the node would learn."""

    def __init__(self, runtime: sim.SimRuntime, controller: ControllerNode, broker_id: int = 1) -> None:
        self.runtime = runtime
        self.clock = runtime.clock
        self.controller = controller
        self.id = broker_id
        self.image = MetadataImage()
        self.deltas: list[Delta] = []
        self.failures: list[str] = []
        self.channel = ControllerChannel(
            (controller.host, controller.port),
            BrokerIdentity(broker_id, CLUSTER_ID, "a"),
            runtime.at(f"node-{broker_id}"),
            self.image,
            BrokerConfigs({}, node_id=broker_id),
            on_change=self.deltas.append,
            fail=self._fail,
        )

    def _fail(self, what: str, error: Exception) -> None:
        self.failures.append(f"{what}: {error}")
        self.channel.shut()

    def fenced(self) -> bool:
        """As the controller knows it."""
        return self.controller.state.image.brokers[self.id].fenced

    async def is_caught_up(self) -> None:
        for _ in range(100):
            if self.image.offset == self.controller.state.image.offset:
                return
            await self.clock.sleep(0.01)
        raise AssertionError(f"{self.image.offset} of {self.controller.state.image.offset}")


def run(body: Callable[[Link], Awaitable[None]]) -> None:
    async def linked(runtime: sim.SimRuntime, controller: ControllerNode) -> None:
        link = Link(runtime, controller)
        try:
            await body(link)
        finally:
            await link.channel.close()

    with_controller(linked)


def started(body: Callable[[Link], Awaitable[None]]) -> None:
    """The body, with a link that has started."""

    async def after_start(link: Link) -> None:
        await link.channel.start(LISTENER)
        await body(link)

    run(after_start)


def test_a_start_returns_when_the_broker_is_registered_unfenced_and_knows_it() -> None:
    async def body(link: Link) -> None:
        await link.channel.start(LISTENER)
        registered = link.image.brokers[1]
        assert registered == link.controller.state.image.brokers[1]
        assert (registered.fenced, registered.host, registered.port) == (False, "node-1", 9092)
        assert registered.rack == "a"
        assert registered.features == (
            SupportedFeature("metadata.version", 7, 30),
            SupportedFeature("eligible.leader.replicas.version", 0, 1),
            SupportedFeature("group.version", 0, 1),
            SupportedFeature("transaction.version", 0, 2),
        )

    run(body)


def test_every_decision_reaches_the_image_and_is_said_to_the_node() -> None:
    async def body(link: Link) -> None:
        await create(link.controller, "orders", 1)
        await link.is_caught_up()
        assert link.image.topics == link.controller.state.image.topics
        assert [list(delta.created_topics.values()) for delta in link.deltas if delta.created_topics] == [
            ["orders"]
        ]

    started(body)


def test_heartbeats_keep_the_session() -> None:
    async def body(link: Link) -> None:
        await link.clock.sleep(3 * SESSION)
        assert not link.fenced()

    started(body)


def test_a_link_that_is_cut_lets_the_session_end_and_comes_back_when_it_is_healed() -> None:
    async def body(link: Link) -> None:
        link.channel.cut()
        with pytest.raises(RequestTimedOutError, match="the link to the controller is cut"):
            await link.channel.create_topics([])
        await link.clock.sleep(SESSION + 1)
        assert link.fenced()
        assert not link.image.brokers[1].fenced, "it serves on with what it knows"
        link.channel.heal()
        await link.clock.sleep(1)
        assert not link.fenced()
        await link.is_caught_up()
        assert not link.failures

    started(body)


def test_a_paused_link_sends_and_applies_nothing() -> None:
    async def body(link: Link) -> None:
        link.channel.pause()
        known = link.image.offset
        await create(link.controller, "orders", 1)
        await link.clock.sleep(SESSION + 1)
        assert (link.fenced(), link.image.offset) == (True, known)
        link.channel.resume()
        await link.clock.sleep(1)
        assert not link.fenced()
        await link.is_caught_up()

    started(body)


def test_a_broker_that_the_controller_has_forgotten_registers_again() -> None:
    async def body(link: Link) -> None:
        before = link.image.brokers[1].epoch
        decision = link.controller.state.unregister_broker(UnregisterBrokerRequest(broker_id=1))
        link.controller.commit(decision.records)
        await link.clock.sleep(3)
        await link.is_caught_up()
        assert link.image.brokers[1].epoch > before
        assert not link.fenced()

    started(body)


def test_a_clean_leave_hands_leaderships_over_first() -> None:
    async def body(link: Link) -> None:
        other = Link(link.runtime, link.controller, broker_id=2)
        await other.channel.start(Listener(name="PLAINTEXT", host="node-2", port=9092))
        await create(link.controller, "orders", 1, 2)
        await link.channel.leave()
        assert link.fenced()
        partition = link.controller.state.image.topics["orders"].partitions[0]
        assert (partition.leader, partition.isr) == (2, (2,))
        assert other.image.topics["orders"].partitions[0].leader == 2, "the other node knows before"
        await other.channel.close()

    started(body)


def test_a_leave_without_a_controller_ends_all_the_same() -> None:
    async def body(link: Link) -> None:
        link.channel.cut()
        began = link.clock.monotonic()
        await link.channel.leave()
        assert link.clock.monotonic() == began

    started(body)


def test_the_controller_responds_to_requests_of_the_broker() -> None:
    async def body(link: Link) -> None:
        response = await link.channel.create_topics(new_topic("orders", 1).topics)
        assert [(topic.name, topic.error_code) for topic in response.topics] == [("orders", 0)]
        blocks = [await link.channel.allocate_producer_ids() for _ in range(2)]
        assert blocks == [(0, 1000), (1000, 2000)]

    started(body)


def test_records_that_cannot_be_applied_end_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(*args: Any) -> None:
        raise LookupError("planted")

    async def body(link: Link) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(controller_channel, "read_records", planted)
            await create(link.controller, "orders", 1)
            await link.clock.sleep(1)
        assert link.failures == ["it cannot apply the metadata log: planted"]
        await link.clock.sleep(SESSION + 1)
        assert link.fenced(), "no heartbeat leaves any more"

    started(body)


def test_a_link_that_is_shut_ends_the_calls_that_wait() -> None:
    async def body(link: Link) -> None:
        link.channel.pause()  # nothing registers it
        starting = asyncio.ensure_future(link.channel.start(LISTENER))
        await link.clock.sleep(1)
        link.channel.shut()
        with pytest.raises(ConnectionAbortedError, match="node 1 has been stopped"):
            await starting
        with pytest.raises(RequestTimedOutError, match="node 1 has been stopped"):
            await link.channel.allocate_producer_ids()

    run(body)


def test_a_broker_that_is_not_let_in_gives_up() -> None:
    async def body(link: Link) -> None:
        link.channel.cut()
        began = link.clock.monotonic()
        with pytest.raises(TimeoutError, match="the controller has not let node 1 in"):
            await link.channel.start(LISTENER)
        assert link.clock.monotonic() - began == pytest.approx(60 + SESSION)

    run(body)
