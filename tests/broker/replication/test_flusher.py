"""Logs are flushed beside the loop, each once at a time."""

from __future__ import annotations

import asyncio
import errno
import threading

from ottla.broker.log.log import Log, LogConfig
from ottla.broker.replication.flusher import LogFlusher
from ottla.runtime import SystemRuntime
from tests.broker.log.support import NOW, append, make_batch, open_log
from tests.broker.replication.slow_disks import HeldRuntime


def never(log: Log, error: OSError) -> None:
    raise AssertionError(error)


def filled() -> Log:
    log = open_log()
    for _ in range(10):
        append(log, make_batch())
    return log


def test_a_thread_flushes_and_the_loop_goes_on() -> None:
    async def main() -> None:
        threads: list[int] = []
        log = filled()
        segment = log.segments[0]
        flush = segment.flush

        def noted() -> None:
            threads.append(threading.get_ident())
            flush()

        segment.flush = noted  # type: ignore[method-assign]
        flusher = LogFlusher(SystemRuntime(), never)
        flusher.flush(log, NOW + 5)
        assert log.recovery_point == 0
        await flusher.close()
        assert (log.recovery_point, log.last_flush_ms) == (10, NOW + 5)
        assert threads
        assert threads[0] != threading.get_ident()

    asyncio.run(main())


def test_only_what_has_rolled_is_flushed_when_it_rolls() -> None:
    async def main() -> None:
        log = open_log(config=LogConfig(segment_bytes=300))
        flusher = LogFlusher(SystemRuntime(), never)
        log.on_rolled = flusher.flush_rolled
        for _ in range(10):
            append(log, make_batch())
        assert log.recovery_point == 0
        await flusher.close()
        assert 0 < log.recovery_point <= log.segments[-1].base_offset

    asyncio.run(main())


def test_a_log_that_wants_more_while_it_is_flushed_is_flushed_again() -> None:
    async def main() -> None:
        runtime = HeldRuntime()
        log = filled()
        flusher = LogFlusher(runtime, never)
        flusher.flush(log, NOW)
        await runtime.begun()
        append(log, make_batch())
        flusher.flush(log, NOW + 1)
        flusher.flush(log, NOW + 2)
        runtime.held[0].set_result(None)
        await runtime.begun()
        assert log.recovery_point == 10
        runtime.held[1].set_result(None)
        await flusher.close()
        assert (log.recovery_point, log.last_flush_ms, len(runtime.held)) == (11, NOW + 2, 2)

    asyncio.run(main())


def test_a_log_that_is_closed_meanwhile_reports_no_failure() -> None:
    async def main() -> None:
        runtime = HeldRuntime()
        log = filled()
        flusher = LogFlusher(runtime, never)
        flusher.flush(log, NOW)
        await runtime.begun()
        log.close()
        runtime.failure = OSError(errno.EBADF, "planted")
        runtime.held[0].set_result(None)
        await flusher.close()

    asyncio.run(main())


def test_a_failure_is_reported() -> None:
    async def main() -> None:
        failures: list[tuple[Log, OSError]] = []
        runtime = HeldRuntime()
        runtime.failure = OSError(errno.EIO, "planted")
        log = filled()
        flusher = LogFlusher(runtime, lambda *failure: failures.append(failure))
        flusher.flush(log, NOW)
        await runtime.begun()
        runtime.held[0].set_result(None)
        await flusher.close()
        assert failures == [(log, runtime.failure)]
        assert log.recovery_point == 0

    asyncio.run(main())
