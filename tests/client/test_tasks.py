"""The tasks of a client: none forgotten, none crashing in silence, all ended in order."""

from __future__ import annotations

import asyncio
import logging

import pytest

from ottla.client.tasks import Tasks
from ottla.errors import ClientClosedError


async def fail() -> None:
    raise ValueError("broken")


def test_a_crash_is_logged_with_its_traceback_and_handed_on(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        tasks = Tasks()
        crashed: asyncio.Future[tuple[str, BaseException]] = asyncio.get_running_loop().create_future()
        tasks.on_crash = lambda name, error: crashed.set_result((name, error))
        tasks.spawn(fail(), "metadata")
        name, error = await crashed
        assert (name, str(error)) == ("metadata", "broken")
        await tasks.close()

    with caplog.at_level(logging.ERROR, "ottla.client"):
        asyncio.run(main())
    assert "the task metadata crashed" in caplog.text
    assert 'raise ValueError("broken")' in caplog.text


def test_a_task_that_finds_the_client_closed_has_not_crashed(caplog: pytest.LogCaptureFixture) -> None:
    async def find_it_closed() -> None:
        raise ClientClosedError

    async def main() -> None:
        tasks = Tasks()
        tasks.on_crash = lambda name, error: pytest.fail(f"{name} crashed")
        with pytest.raises(ClientClosedError):
            await tasks.spawn(find_it_closed(), "late")
        await tasks.close()

    asyncio.run(main())
    assert caplog.records == []


def test_tasks_end_in_the_order_of_their_making_and_each_before_the_next() -> None:
    ended: list[str] = []

    async def work(name: str, started: asyncio.Event) -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            ended.append(f"{name} is cancelled")
            await asyncio.sleep(0)
            ended.append(f"{name} is over")

    async def main() -> None:
        tasks = Tasks()
        for name in ("first", "second"):
            started = asyncio.Event()
            tasks.spawn(work(name, started), name)
            await started.wait()
        await tasks.close()

    asyncio.run(main())
    assert ended == ["first is cancelled", "first is over", "second is cancelled", "second is over"]


def test_a_task_that_is_done_is_let_go_and_its_result_is_there() -> None:
    async def main() -> None:
        tasks = Tasks()
        assert await tasks.spawn(asyncio.sleep(0, 7), "seven") == 7
        await asyncio.sleep(0)
        assert not tasks._tasks
        await tasks.close()

    asyncio.run(main())


def test_after_the_end_nothing_begins() -> None:
    async def main() -> None:
        tasks = Tasks()
        await tasks.close()
        with pytest.raises(ClientClosedError):
            tasks.spawn(fail(), "late")

    asyncio.run(main())


def test_a_task_may_close_the_tasks_it_belongs_to() -> None:
    async def main() -> None:
        tasks = Tasks()
        other = tasks.spawn(asyncio.Event().wait(), "other")
        await tasks.spawn(tasks.close(), "closing")
        assert other.cancelled()

    asyncio.run(main())
