"""What a leader asks the transaction coordinator, when, and what becomes of the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from ottla.broker.cluster.cluster import AsyncCluster
from ottla.broker.coordinator.partition_adds import (
    Admission,
    PartitionAdds,
    ProducerSupport,
    TransactionalProducer,
)
from ottla.broker.log.guards import Guard
from ottla.broker.log.producers import Origin
from ottla.broker.log.validation import only_batch
from ottla.errors import BrokerError, ConnectionLostError
from ottla.wire.batches import ControlType
from tests.broker.coordinator.scripted import ScriptedCoordinator
from tests.broker.log.support import NOW, make_batch, make_marker
from tests.broker.worlds import World, in_simulation

ORDERS = ("orders", 0)
OTHERS = ("orders", 1)
CONCURRENT, ABORTABLE, FENCED, INVALID_EPOCH, INVALID_STATE, NETWORK = 51, 120, 90, 47, 48, 13
NOT_AVAILABLE, LOADING, DENIED = 15, 14, 31

Body = Callable[[World, AsyncCluster, PartitionAdds], Awaitable[None]]


def producer(
    support: ProducerSupport = ProducerSupport.ADDED_BY_LEADER, epoch: int = 0
) -> TransactionalProducer:
    return TransactionalProducer("tx", 1, epoch, support)


def code(error: BrokerError | None) -> int:
    return 0 if error is None else error.code


def with_coordinator(coordinator: ScriptedCoordinator, body: Body, **config: object) -> None:
    async def main(world: World) -> None:
        named = {name.replace("_", "."): value for name, value in config.items()}
        async with world.cluster(topics={"orders": 2}, config=named) as cluster:
            await body(world, cluster, coordinator.adds_of(cluster.node(1)))

    in_simulation(main)


async def admitted(
    adds: PartitionAdds, who: TransactionalProducer, *keys: tuple[str, int], patient: bool = True
) -> Admission:
    partitions = dict.fromkeys(keys or (ORDERS,), 0)
    begun = adds.begin(who, partitions)
    return await adds.ask(who, partitions, begun, patient=patient) if begun.must_ask else begun


@pytest.mark.parametrize("support", list(ProducerSupport))
def test_older_producers_are_verified_and_the_partitions_of_newer_ones_are_added(
    support: ProducerSupport,
) -> None:
    coordinator = ScriptedCoordinator()

    async def body(world: World, cluster: AsyncCluster, adds: PartitionAdds) -> None:
        admission = await admitted(adds, producer(support), ORDERS, OTHERS)
        assert not admission.errors
        assert list(admission.guards) == [ORDERS, OTHERS]
        verify_only = support is not ProducerSupport.ADDED_BY_LEADER
        assert coordinator.asked == [("tx", 1, 0, verify_only, [ORDERS, OTHERS])]
        assert coordinator.versions == [5]
        guards = cluster.partition("orders").log.producers.guards
        assert guards.get(1) is admission.guards[ORDERS]

    with_coordinator(coordinator, body)


def test_only_partitions_without_an_open_transaction_are_asked_for() -> None:
    coordinator = ScriptedCoordinator()

    async def body(world: World, cluster: AsyncCluster, adds: PartitionAdds) -> None:
        guard = (await admitted(adds, producer())).guards[ORDERS]
        append(cluster, guard)
        admission = await admitted(adds, producer(), ORDERS, OTHERS)
        assert list(admission.guards) == [OTHERS]
        assert [asked[-1] for asked in coordinator.asked] == [[ORDERS], [OTHERS]]
        assert not adds.begin(producer(), {ORDERS: 1}).must_ask

    with_coordinator(coordinator, body)


def append(cluster: AsyncCluster, guard: Guard) -> None:
    partition = cluster.partition("orders")
    batch = only_batch(make_batch(producer=(1, 0, 0), transactional=True))
    cluster.node(1).replicas.append(partition, batch, -1, NOW, guard=guard)


def end(cluster: AsyncCluster, epoch: int) -> None:
    marker = only_batch(make_marker(ControlType.COMMIT, 1, epoch=epoch))
    cluster.node(1).replicas.append(cluster.partition("orders"), marker, -1, NOW, origin=Origin.COORDINATOR)


@pytest.mark.parametrize(
    ("answer", "support", "expected"),
    [
        (FENCED, ProducerSupport.ADDED_BY_LEADER, INVALID_EPOCH),
        (FENCED, ProducerSupport.OLD_ERRORS, INVALID_EPOCH),
        (ABORTABLE, ProducerSupport.OLD_ERRORS, INVALID_STATE),
        (ABORTABLE, ProducerSupport.ABORTABLE, ABORTABLE),
        (ABORTABLE, ProducerSupport.ADDED_BY_LEADER, ABORTABLE),
        (CONCURRENT, ProducerSupport.ABORTABLE, CONCURRENT),
        (LOADING, ProducerSupport.ABORTABLE, LOADING),
        (49, ProducerSupport.ADDED_BY_LEADER, 49),
    ],
)
def test_an_error_of_the_coordinator_is_that_of_the_partition(
    answer: int, support: ProducerSupport, expected: int
) -> None:
    async def body(world: World, cluster: AsyncCluster, adds: PartitionAdds) -> None:
        admission = await admitted(adds, producer(support), ORDERS, OTHERS)
        assert [code(admission.errors.get(key)) for key in (ORDERS, OTHERS)] == [expected] * 2

    with_coordinator(ScriptedCoordinator(answer), body)


@pytest.mark.parametrize("failure", [ConnectionLostError("gone"), ConnectionRefusedError(), TimeoutError()])
def test_a_coordinator_that_cannot_be_reached_is_an_error_of_the_network(failure: Exception) -> None:
    coordinator = ScriptedCoordinator()
    coordinator.failure = failure

    async def body(world: World, cluster: AsyncCluster, adds: PartitionAdds) -> None:
        assert code((await admitted(adds, producer())).errors[ORDERS]) == NETWORK

    with_coordinator(coordinator, body)


@pytest.mark.parametrize(("top", "expected"), [(DENIED, INVALID_STATE), (LOADING, LOADING)])
def test_an_error_for_all_transactions_is_that_of_every_partition(top: int, expected: int) -> None:
    coordinator = ScriptedCoordinator()
    coordinator.top_code = top

    async def body(world: World, cluster: AsyncCluster, adds: PartitionAdds) -> None:
        assert code((await admitted(adds, producer())).errors[ORDERS]) == expected

    with_coordinator(coordinator, body)


@pytest.mark.parametrize("has_topic", [True, False])
def test_without_a_leader_of_its_partition_there_is_no_coordinator(has_topic: bool) -> None:
    coordinator = ScriptedCoordinator()

    async def body(world: World, cluster: AsyncCluster, adds: PartitionAdds) -> None:
        image = coordinator.image(has_leader=False)
        if not has_topic:
            image.topics.clear()
        adds = coordinator.adds_of(cluster.node(1), image)
        assert code((await admitted(adds, producer())).errors[ORDERS]) == NOT_AVAILABLE
        assert coordinator.asked == []

    with_coordinator(coordinator, body)


def test_a_partition_that_is_led_elsewhere_or_has_a_later_epoch_is_not_asked_for() -> None:
    coordinator = ScriptedCoordinator()

    async def body(world: World, cluster: AsyncCluster, adds: PartitionAdds) -> None:
        end(cluster, epoch=3)
        admission = await admitted(adds, producer(epoch=2), ORDERS, OTHERS, ("payments", 0))
        assert {key: error.code for key, error in admission.errors.items()} == {
            ORDERS: INVALID_EPOCH,
            ("payments", 0): 3,
        }
        assert [asked[-1] for asked in coordinator.asked] == [[OTHERS]]

    with_coordinator(coordinator, body)


def test_a_leader_asks_again_while_the_last_transaction_ends() -> None:
    coordinator = ScriptedCoordinator(CONCURRENT, CONCURRENT, 0)

    async def body(world: World, cluster: AsyncCluster, adds: PartitionAdds) -> None:
        begin = world.runtime.clock.monotonic()
        admission = await admitted(adds, producer())
        assert not admission.errors
        assert len(coordinator.asked) == 3
        assert world.runtime.clock.monotonic() - begin == pytest.approx(0.040, abs=0.001)

    with_coordinator(coordinator, body)


def test_a_leader_gives_up_after_the_longest_wait() -> None:
    coordinator = ScriptedCoordinator(CONCURRENT)

    async def body(world: World, cluster: AsyncCluster, adds: PartitionAdds) -> None:
        begin = world.runtime.clock.monotonic()
        assert code((await admitted(adds, producer())).errors[ORDERS]) == CONCURRENT
        assert world.runtime.clock.monotonic() - begin == pytest.approx(0.100, abs=0.001)
        assert len(coordinator.asked) == 6

    with_coordinator(coordinator, body)


@pytest.mark.parametrize(
    ("support", "patient"),
    [(ProducerSupport.ADDED_BY_LEADER, False), (ProducerSupport.ABORTABLE, True)],
)
def test_who_is_not_patient_or_older_is_told_at_once(support: ProducerSupport, patient: bool) -> None:
    coordinator = ScriptedCoordinator(CONCURRENT)

    async def body(world: World, cluster: AsyncCluster, adds: PartitionAdds) -> None:
        admission = await admitted(adds, producer(support), patient=patient)
        assert code(admission.errors[ORDERS]) == CONCURRENT
        assert len(coordinator.asked) == 1

    with_coordinator(coordinator, body)


def test_a_marker_that_comes_between_two_questions_makes_a_new_guard_or_fences() -> None:
    coordinator = ScriptedCoordinator(CONCURRENT, 0)

    async def body(world: World, cluster: AsyncCluster, adds: PartitionAdds) -> None:
        first = adds.begin(producer(epoch=1), {ORDERS: 0})
        coordinator.before_answer = lambda: end(cluster, epoch=1) if len(coordinator.asked) == 1 else None
        admission = await adds.ask(producer(epoch=1), {ORDERS: 0}, first, patient=True)
        assert not admission.errors
        assert admission.guards[ORDERS] is not first.guards[ORDERS]
        assert admission.guards[ORDERS] is cluster.partition("orders").log.producers.guards.get(1)
        coordinator.codes, coordinator.before_answer = [CONCURRENT], lambda: end(cluster, epoch=2)
        assert code((await admitted(adds, producer(epoch=1))).errors[ORDERS]) == INVALID_EPOCH

    with_coordinator(coordinator, body)


def test_a_marker_of_the_last_transaction_that_overtakes_the_answer_lets_the_leader_ask_again() -> None:
    coordinator = ScriptedCoordinator()

    async def body(world: World, cluster: AsyncCluster, adds: PartitionAdds) -> None:
        first = adds.begin(producer(epoch=1), {ORDERS: 0})
        coordinator.before_answer = lambda: end(cluster, epoch=1) if len(coordinator.asked) == 1 else None
        admission = await adds.ask(producer(epoch=1), {ORDERS: 0}, first, patient=True)
        assert not admission.errors
        assert len(coordinator.asked) == 2
        assert admission.guards[ORDERS] is cluster.partition("orders").log.producers.guards.get(1)

    with_coordinator(coordinator, body)


def test_the_switch_turns_verifying_off_and_not_adding() -> None:
    coordinator = ScriptedCoordinator()

    async def body(world: World, cluster: AsyncCluster, adds: PartitionAdds) -> None:
        admission = await admitted(adds, producer(ProducerSupport.ABORTABLE))
        assert (admission.errors, admission.guards, coordinator.asked) == ({}, {}, [])
        assert list((await admitted(adds, producer())).guards) == [ORDERS]
        assert len(coordinator.asked) == 1

    with_coordinator(coordinator, body, transaction_partition_verification_enable=False)


def test_a_release_whose_coordinators_do_not_answer_is_not_asked() -> None:
    async def main(world: World) -> None:
        async with world.cluster(topics={"orders": 2}) as cluster:
            node = cluster.node(1)
            adds = PartitionAdds(
                node.image,
                node.configs,
                node.replicas,
                ScriptedCoordinator(),
                node.runtime.clock,
                can_ask=False,
            )
            admission = adds.begin(producer(), {ORDERS: 0})
            assert not admission.must_ask
            append(cluster, admission.guards[ORDERS])

    in_simulation(main)
