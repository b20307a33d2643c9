"""The controller learns where replicas lie, again until it has answered."""

from __future__ import annotations

import asyncio

from ottla.broker.replication.directory_assignments import DirectoryAssignments
from ottla.errors import RequestTimedOutError
from ottla.runtime import MovableClock
from ottla.wire import Uuid
from ottla.wire.messages import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

NODE = 1
TOPIC, A, B = (Uuid(letter * 16) for letter in (b"t", b"a", b"b"))
STALE_BROKER_EPOCH = 77

Places = dict[Uuid, list[int]]


class FakeController:
    """Answers with what it is given, and then with success."""

    broker_epoch = 7

    def __init__(self, *answers: AssignReplicasToDirsResponse | Exception) -> None:
        self.requests: asyncio.Queue[AssignReplicasToDirsRequest] = asyncio.Queue()
        self._answers = list(answers)

    async def assign_replicas(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        self.requests.put_nowait(request)
        answer = self._answers.pop(0) if self._answers else AssignReplicasToDirsResponse()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def log_dir_failed(self, directory_id: Uuid) -> None:
        raise AssertionError(directory_id)

    async def told(self) -> Places:
        """What the next request says: partitions of the topic by directory."""
        request = await self.requests.get()
        assert (request.broker_id, request.broker_epoch) == (NODE, 7)
        return {
            directory.id: [partition.partition_index for partition in directory.topics[0].partitions]
            for directory in request.directories
        }


def fail(what: str, error: Exception) -> None:
    raise AssertionError(what) from error


def test_what_is_said_at_once_goes_in_one_request() -> None:
    async def main() -> None:
        controller = FakeController()
        assignments = DirectoryAssignments(NODE, controller, MovableClock(), fail)
        for index, directory in ((0, A), (1, B), (2, A)):
            assignments.assign(TOPIC, index, directory)
        assert await controller.told() == {A: [0, 2], B: [1]}
        await assignments.close()

    asyncio.run(main())


def test_what_cannot_be_said_is_said_again() -> None:
    async def main() -> None:
        clock = MovableClock()
        controller = FakeController(
            RequestTimedOutError(), AssignReplicasToDirsResponse(error_code=STALE_BROKER_EPOCH)
        )
        assignments = DirectoryAssignments(NODE, controller, clock, fail)
        assignments.assign(TOPIC, 0, A)
        for _ in range(2):
            assert await controller.told() == {A: [0]}
            await asyncio.sleep(0)
            clock.advance(1)
        assert await controller.told() == {A: [0]}
        await assignments.close()
        assert controller.requests.empty()

    asyncio.run(main())


def test_the_last_word_about_a_replica_counts() -> None:
    async def main() -> None:
        clock = MovableClock()
        controller = FakeController(RequestTimedOutError())
        assignments = DirectoryAssignments(NODE, controller, clock, fail)
        assignments.assign(TOPIC, 0, A)
        assert await controller.told() == {A: [0]}
        assignments.assign(TOPIC, 0, B)
        await asyncio.sleep(0)
        clock.advance(1)
        assert await controller.told() == {B: [0]}
        await assignments.close()

    asyncio.run(main())
