"""What becomes of a leader's proposal about who is in sync, answer by answer (KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla import sim
from ottla.broker.metadata.image import PartitionImage
from ottla.broker.replication.isr_changes import IsrChanges
from ottla.broker.replication.partition import FetchTimes, IsrChange, Partition
from ottla.errors import ConnectionLostError, NotControllerError
from ottla.sim.runtime import SimRuntime
from ottla.wire import Uuid
from ottla.wire.messages import AlterPartitionRequest, AlterPartitionResponse
from tests.broker.log.support import open_log

NODE, OTHER, THIRD = 1, 2, 3
ORDERS = Uuid(b"orders".ljust(16))
NOT_CONTROLLER, INELIGIBLE_REPLICA, STALE_BROKER_EPOCH, UNKNOWN_SERVER_ERROR = 41, 107, 77, -1

Answer = int | Exception | AlterPartitionResponse


class Controller:
    """Answers the requests one by one, each when the test says so."""

    broker_epoch = 9

    def __init__(self, runtime: SimRuntime) -> None:
        self.requests: list[AlterPartitionRequest] = []
        self.sent_at: list[float] = []
        self._clock = runtime.clock
        self._answers: asyncio.Queue[Answer] = asyncio.Queue()

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        self.requests.append(request)
        self.sent_at.append(self._clock.monotonic())
        answer = await self._answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, AlterPartitionResponse) else answer_all(request, answer)

    async def answers(self, answer: Answer) -> None:
        self._answers.put_nowait(answer)
        await asyncio.sleep(0.001)


def answer_all(request: AlterPartitionRequest, code: int = 0) -> AlterPartitionResponse:
    """What is asked for, or the same error for every partition."""
    topics = []
    for topic in request.topics:
        results = [
            AlterPartitionResponse.PartitionData(
                partition_index=part.partition_index,
                error_code=code,
                leader_id=NODE,
                leader_epoch=part.leader_epoch,
                isr=[] if code else [each.broker_id for each in part.new_isr_with_epochs],
                partition_epoch=0 if code else part.partition_epoch + 1,
            )
            for part in topic.partitions
        ]
        topics.append(AlterPartitionResponse.TopicData(topic_id=topic.topic_id, partitions=results))
    return AlterPartitionResponse(topics=topics)


def fail(what: str, error: Exception) -> None:
    raise AssertionError(what) from error


class Proposing:
    """A node that leads partitions, with two replicas outside of the ISR that have caught up."""

    def __init__(self, runtime: SimRuntime) -> None:
        self.controller = Controller(runtime)
        self.committed: list[Partition] = []
        self.changes = IsrChanges(
            NODE, self.controller, runtime.clock, on_change=self.committed.append, fail=fail
        )
        self.clock = runtime.clock

    def partition(self, index: int = 0) -> Partition:
        partition = Partition(NODE, "orders", ORDERS, index, open_log())
        partition.become(PartitionImage((NODE, OTHER, THIRD), (NODE,), NODE, 5, 10))
        for replica, broker_epoch in ((OTHER, 21), (THIRD, 22)):
            partition.follower_fetched(replica, 0, 0, FetchTimes(self.clock.monotonic()), broker_epoch)
        return partition

    async def propose(self, partition: Partition, replica: int = OTHER) -> IsrChange:
        """And lets it be sent."""
        change = partition.expand(replica)
        assert change is not None
        self.changes.propose(partition, change)
        await asyncio.sleep(0.001)
        return change


Body = Callable[[Proposing], Awaitable[None]]


def run(body: Body) -> None:
    async def main(runtime: SimRuntime) -> None:
        proposing = Proposing(runtime)
        await body(proposing)
        await proposing.changes.close()

    sim.run(main, seed=1)


def test_a_proposal_names_the_epochs_of_leader_partition_and_brokers() -> None:
    async def body(node: Proposing) -> None:
        await node.propose(node.partition())
        (request,) = node.controller.requests
        assert (request.broker_id, request.broker_epoch) == (NODE, 9)
        ((topic,),) = [request.topics]
        assert topic.topic_id == ORDERS
        (part,) = topic.partitions
        assert (part.partition_index, part.leader_epoch, part.partition_epoch) == (0, 5, 10)
        assert part.leader_recovery_state == 0
        members = [(member.broker_id, member.broker_epoch) for member in part.new_isr_with_epochs]
        assert members == [(NODE, -1), (OTHER, 21)]

    run(body)


def test_a_change_that_is_made_is_the_isr_and_what_it_commits_is_looked_at() -> None:
    async def body(node: Proposing) -> None:
        partition = node.partition()
        await node.propose(partition)
        assert not node.committed
        await node.controller.answers(0)
        assert (partition.image.isr, partition.image.partition_epoch) == ((NODE, OTHER), 11)
        assert node.committed == [partition]
        assert partition.pending is None

    run(body)


@pytest.mark.parametrize("code", [3, 42, 74, 95, 100, 108])
def test_where_the_controller_knows_better_the_change_stays_pending_until_the_metadata_log_says_more(
    code: int,
) -> None:
    async def body(node: Proposing) -> None:
        partition = node.partition()
        await node.propose(partition)
        await node.controller.answers(code)
        await asyncio.sleep(60)
        assert set(partition.maximal_isr) == {NODE, OTHER}
        assert len(node.controller.requests) == 1
        partition.become(PartitionImage((NODE, OTHER, THIRD), (NODE,), NODE, 5, 11))
        assert set(partition.maximal_isr) == {NODE}
        assert node.committed == []

    run(body)


def test_a_member_that_may_not_join_leaves_the_isr_as_it_was() -> None:
    async def body(node: Proposing) -> None:
        partition = node.partition()
        await node.propose(partition)
        await node.controller.answers(INELIGIBLE_REPLICA)
        assert (partition.pending, partition.maximal_isr) == (None, (NODE,))
        # Another proposal goes its own way.
        await node.propose(partition, THIRD)
        await node.controller.answers(0)
        assert partition.image.isr == (NODE, THIRD)

    run(body)


@pytest.mark.parametrize(
    "answer",
    [
        AlterPartitionResponse(error_code=STALE_BROKER_EPOCH),
        AlterPartitionResponse(),
        NOT_CONTROLLER,
        UNKNOWN_SERVER_ERROR,
        NotControllerError(),
        ConnectionLostError("planted"),
        ConnectionRefusedError("planted"),
        TimeoutError("planted"),
    ],
    ids=lambda answer: type(answer).__name__ + str(getattr(answer, "error_code", "")),
)
def test_what_is_not_decided_is_proposed_again_a_little_later(answer: Answer) -> None:
    async def body(node: Proposing) -> None:
        partition = node.partition()
        change = await node.propose(partition)
        for _ in range(2):
            await node.controller.answers(answer)
            assert partition.pending is change
            await asyncio.sleep(0.06)
        first, second, third = node.controller.sent_at
        assert second - first >= 0.05
        assert third - second >= 0.05
        await node.controller.answers(0)
        assert partition.image.isr == (NODE, OTHER)

    run(body)


def test_one_request_is_on_its_way_and_what_is_proposed_meanwhile_goes_with_the_next() -> None:
    async def body(node: Proposing) -> None:
        partitions = [node.partition(index) for index in range(3)]
        for partition in partitions:
            await node.propose(partition)
        assert len(node.controller.requests) == 1
        await node.controller.answers(0)
        _, request = node.controller.requests
        assert [part.partition_index for part in request.topics[0].partitions] == [1, 2]
        await node.controller.answers(0)
        assert all(partition.image.isr == (NODE, OTHER) for partition in partitions)

    run(body)


def test_each_partition_of_a_response_counts_for_itself() -> None:
    async def body(node: Proposing) -> None:
        first = node.partition(0)
        await node.propose(first)
        made, refused, again = partitions = [node.partition(index) for index in (1, 2, 3)]
        changes = [await node.propose(partition) for partition in partitions]
        await node.controller.answers(0)
        response = answer_all(node.controller.requests[1])
        for result, code in zip(
            response.topics[0].partitions, (0, INELIGIBLE_REPLICA, NOT_CONTROLLER), strict=True
        ):
            result.error_code = code
        await node.controller.answers(response)
        assert (made.image.isr, made.pending) == ((NODE, OTHER), None)
        assert (refused.image.isr, refused.pending) == ((NODE,), None)
        assert again.pending is changes[2]
        await asyncio.sleep(0.06)
        _, _, request = node.controller.requests
        assert [part.partition_index for part in request.topics[0].partitions] == [3]

    run(body)


def test_what_was_given_up_meanwhile_is_not_sent_and_its_response_changes_nothing() -> None:
    async def body(node: Proposing) -> None:
        partition, another = node.partition(), node.partition(1)
        await node.propose(partition)
        await node.propose(another)
        for each in (partition, another):
            each.become(PartitionImage((NODE, OTHER, THIRD), (NODE, THIRD), NODE, 5, 11))
        await node.controller.answers(0)
        assert partition.image.isr == (NODE, THIRD)
        assert node.committed == []
        await asyncio.sleep(1)
        assert len(node.controller.requests) == 1
        await node.propose(partition)
        assert len(node.controller.requests) == 2

    run(body)


def test_a_later_proposal_takes_the_place_of_one_that_is_tried_again() -> None:
    async def body(node: Proposing) -> None:
        partition = node.partition()
        await node.propose(partition)
        partition.become(PartitionImage((NODE, OTHER, THIRD), (NODE,), NODE, 5, 11))
        await node.propose(partition, THIRD)
        await node.controller.answers(NOT_CONTROLLER)
        await asyncio.sleep(0.06)
        _, request = node.controller.requests
        (part,) = request.topics[0].partitions
        assert [member.broker_id for member in part.new_isr_with_epochs] == [NODE, THIRD]

    run(body)


def test_nothing_is_proposed_any_more_after_the_end_of_the_node() -> None:
    async def body(node: Proposing) -> None:
        partition = node.partition()
        await node.propose(partition)
        await node.changes.close()
        await node.propose(node.partition(1))
        await asyncio.sleep(1)
        assert len(node.controller.requests) == 1
        assert partition.image.isr == (NODE,)

    run(body)
