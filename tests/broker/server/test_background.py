"""What goes on by itself does not end unheard."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from ottla.broker.server.background import BackgroundTasks, reason, timed, unending
from ottla.errors import RequestTimedOutError
from tests.broker.worlds import Body, World, batch

Run = Callable[[Body], object]


def planted() -> None:
    raise LookupError("planted")


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_the_owner_of_a_timer_or_a_loop_that_fails_learns_what_cannot_go_on() -> None:
    failures: list[str] = []

    def fail(what: str, error: Exception) -> None:
        failures.append(reason(what, error))

    async def loop() -> None:
        planted()

    timed(planted, "it cannot count", fail)()
    asyncio.run(unending(loop, "it cannot beat", fail))
    assert failures == ["it cannot count: LookupError: planted", "it cannot beat: LookupError: planted"]
    timed(lambda: None, "it cannot rest", fail)()
    assert len(failures) == 2


def test_a_loop_that_is_cancelled_has_not_failed() -> None:
    async def main() -> None:
        failures: list[str] = []
        task = asyncio.ensure_future(
            unending(asyncio.Event().wait, "it waits", lambda what, _: failures.append(what))  # type: ignore[arg-type]
        )
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not failures

    asyncio.run(main())


def test_what_goes_on_beside_the_requests_ends_with_its_owner() -> None:
    async def main() -> None:
        tasks, ended = BackgroundTasks("node 1"), list[str]()

        async def work(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(name)

        for name in ("first", "second"):
            tasks.spawn(work(name))
        await asyncio.sleep(0)
        await tasks.close()
        assert ended == ["first", "second"]

    asyncio.run(main())


def test_an_error_of_kafka_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise RequestTimedOutError("the controller cannot be reached")

    async def main() -> None:
        tasks = BackgroundTasks("node 1")
        tasks.spawn(work())
        await asyncio.sleep(0)
        await tasks.close()

    asyncio.run(main())
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("node 1: ")


def test_what_goes_on_beside_a_request_fails_aloud(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        planted()

    async def body(world: World) -> None:
        async with world.cluster(1, topics=["orders"]) as cluster:
            cluster.node(1).background.spawn(work())
            await cluster.wait_for(lambda: bool(errors(caplog)), "a word in the log")
            assert "node 1" in errors(caplog)[0]
            client = await world.client(cluster)
            assert (await client.produce("orders", batch(b"1"))).error_code == 0

    run(body)
