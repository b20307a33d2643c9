"""The Runtime: clock, randomness, network and threads, for everything that must also run without them.

Client and broker get time, random numbers, connections and executors from a Runtime and from nowhere else. Here
are the interface and the default, `SystemRuntime`, which passes on what the system has. A simulation brings its
own (ottla/sim/runtime.py), and then a whole cluster replays from one seed.

Invariant: this is the only file below `sim` that touches `time`, `random` and the socket calls of the event loop.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import math
import select
import selectors
import socket
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random, SystemRandom
from typing import Any, Final, NamedTuple, Protocol, TypeVar

__all__ = [
    "Buffers",
    "Clock",
    "Listener",
    "MessagePath",
    "MovableClock",
    "PreciseSelector",
    "ProtocolFactory",
    "Random",
    "Runtime",
    "SystemClock",
    "SystemRuntime",
    "Timer",
    "new_loop",
    "this_thread",
]

_T = TypeVar("_T")

this_thread = threading.get_ident
"""A number for the calling thread."""

ProtocolFactory = Callable[[], asyncio.BaseProtocol]

_LAST_SECOND: Final = 253_402_300_799.0
"""9999-12-31T23:59:59Z, where datetime ends as well."""
_SHORT_S: Final = 0.002
_MOST_OF_SELECT: Final = 1024
"""Descriptors from this on cannot be given to select()."""
_BACKLOG: Final = 1024
"""Connections that wait to be accepted: a thousand clients may well start in the same moment."""


class Timer(Protocol):
    """A call that is still to come."""

    def cancel(self) -> None:
        """Does nothing after the call."""


class Clock(ABC):
    """Two times, and calls that happen when one of them has come."""

    @abstractmethod
    def monotonic(self) -> float:
        """Seconds since some moment: for intervals and deadlines."""

    @abstractmethod
    def time(self) -> float:
        """Seconds since 1970: for timestamps."""

    @abstractmethod
    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Calls `callback` on the running loop after `delay` seconds."""

    async def sleep(self, delay: float) -> None:
        awake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay, _wake, awake)
        try:
            await awake
        finally:
            timer.cancel()


class SystemClock(Clock):
    """The system's clocks; timers are those of the running event loop."""

    # The system's own functions, for they are called several times per request. Not the loop's time: uvloop's is in
    # milliseconds, as of when it last went round, and needs a loop.
    monotonic = staticmethod(time.monotonic)
    time = staticmethod(time.time)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        return asyncio.get_running_loop().call_later(delay, callback, *args)


class MovableClock(Clock):
    """Another clock plus an offset that a test can increase: minutes pass in no time, also mid-run.

    Both times move. To everything that runs, `advance` looks like a pause of the whole process: what fell due
    in between happens afterwards, at once and in order.
    """

    def __init__(self, base: Clock | None = None) -> None:
        self._base = base or SystemClock()
        self._offset = 0.0
        # Timers in the order in which they were made; a dict, because they leave in any order.
        self._timers: dict[_MovableTimer, None] = {}

    def monotonic(self) -> float:
        return self._base.monotonic() + self._offset

    def time(self) -> float:
        return self._base.time() + self._offset

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        timer = _MovableTimer(self._timers, self.monotonic() + delay, callback, args)
        timer.base = self._base.call_later(delay, timer.run)
        return timer

    def advance(self, seconds: float) -> None:
        """Moves time forward; from the loop's own thread.

        The calls that are due now are made by the loop right after what is already waiting to run, in the order
        of their deadlines, and of their making where those are equal.
        """
        self._check(seconds)
        self._offset += seconds
        now = self.monotonic()
        loop = asyncio.get_running_loop()
        # A stable sort: the dict has them in the order of their making.
        for timer in sorted(self._timers, key=lambda timer: timer.deadline):
            timer.base.cancel()
            if timer.deadline <= now:
                timer.base = loop.call_soon(timer.run)
            else:
                timer.base = self._base.call_later(timer.deadline - now, timer.run)

    def _check(self, seconds: float) -> None:
        """A clock that shows no time any more could not be moved back, and every timer would be lost."""
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise TypeError(f"advance({seconds!r}): seconds are meant, as a number")
        if not math.isfinite(seconds):
            raise ValueError(f"advance({seconds!r}): a finite number of seconds is meant")
        if seconds < 0:
            raise ValueError(f"advance({seconds!r}): time goes forward only, by 0 seconds or more")
        if self.time() + seconds > _LAST_SECOND:
            raise ValueError(f"advance({seconds!r}): the clock would be past the year 9999")


class _MovableTimer:
    """A timer of a MovableClock: the timer of the clock below is exchanged whenever time is moved."""

    __slots__ = ("_args", "_callback", "_live", "base", "deadline")

    base: Timer

    def __init__(
        self,
        live: dict[_MovableTimer, None],
        deadline: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
    ) -> None:
        self.deadline = deadline
        self._live = live
        self._callback = callback
        self._args = args
        live[self] = None

    def cancel(self) -> None:
        if self._live.pop(self, self) is None:
            self.base.cancel()
            self._let_go()

    def run(self) -> None:
        del self._live[self]
        callback, args = self._callback, self._args
        self._let_go()
        callback(*args)

    def _let_go(self) -> None:
        """What is called may hold its timer: such a ring, and all that hangs on it, only the collector would find."""
        del self.base, self._callback, self._args


class Buffers(NamedTuple):
    """The sizes of a socket's buffers in bytes; -1 leaves one to the system, which adapts it to the connection."""

    send: int = -1
    receive: int = -1


_SYSTEMS_OWN: Final = Buffers()


class Listener(Protocol):
    """An address at which connections are accepted."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int:
        """The real one, where the caller gave 0."""

    async def close(self) -> None:
        """Accepts no more; the connections that are there stay, and all that were accepted have their protocols."""


class MessagePath(Protocol):
    """One direction between two machines, for messages that stay objects because both are in this process."""

    def carry(self, name: str, arrive: Callable[..., object], *args: Any) -> None:
        """Calls `arrive` on the loop, later and behind all that was carried before; `name` is for a trace."""


class Runtime(Protocol):
    """What the world looks like from inside: everything that could differ between two runs."""

    @property
    def clock(self) -> Clock: ...

    @property
    def random(self) -> Random: ...

    def at(self, machine: str) -> Runtime:
        """The same world as seen from another machine, whose links to others can fail in a simulation."""

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory, buffers: Buffers = _SYSTEMS_OWN
    ) -> asyncio.BaseProtocol:
        """Connects, and returns the protocol that `factory` made; an OSError where nothing listens."""

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener:
        """Accepts connections, with one protocol from `factory` for each; port 0 takes any that is free."""

    def path_to(self, machine: str) -> MessagePath:
        """The way of messages from this machine to another."""

    async def run(self, function: Callable[..., _T], *args: Any) -> _T:
        """Runs what takes long or blocks, off the loop."""


class SystemRuntime:
    """The Runtime outside of simulations."""

    def __init__(self, clock: Clock | None = None, random: Random | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.random: Random = random or SystemRandom()

    def at(self, machine: str) -> Runtime:
        """There is one machine only."""
        return self

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory, buffers: Buffers = _SYSTEMS_OWN
    ) -> asyncio.BaseProtocol:
        transport, protocol = await asyncio.get_running_loop().create_connection(factory, host, port)
        for option, size in ((socket.SO_SNDBUF, buffers.send), (socket.SO_RCVBUF, buffers.receive)):
            if size >= 0:
                transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, option, size)
        return protocol

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(factory, host, port, backlog=_BACKLOG, start_serving=False)
        try:
            await server.start_serving()
        except BaseException:
            server.close()  # asyncio leaves it open where the caller is cancelled
            raise
        return _SystemListener(server, host)

    def path_to(self, machine: str) -> MessagePath:
        return _SoonPath()

    async def run(self, function: Callable[..., _T], *args: Any) -> _T:
        return await asyncio.get_running_loop().run_in_executor(None, function, *args)


class _SoonPath:
    def carry(self, name: str, arrive: Callable[..., object], *args: Any) -> None:
        asyncio.get_running_loop().call_soon(arrive, *args)


class _SystemListener:
    def __init__(self, server: asyncio.Server, host: str) -> None:
        self._server = server
        self.host = host
        self.port: int = server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        # asyncio accepts a connection in one iteration of the loop, makes its transport in the next and calls the
        # protocol in the third. A server that closes in between leaves the socket to the garbage collector: so it
        # accepts no more, and is closed when those that were accepted have their transports.
        loop = asyncio.get_running_loop()
        for each in self._server.sockets:
            loop.remove_reader(each.fileno())
        try:
            await asyncio.sleep(0)
        finally:
            # Not wait_closed(): since Python 3.12 it waits for the connections as well.
            self._server.close()
        await asyncio.sleep(0)


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


if sys.platform == "linux":

    class PreciseSelector(selectors.EpollSelector):
        """epoll, with timers that ring in the millisecond that they are set to.

        epoll_wait() counts in milliseconds and rounds up. select() does not, and can wait for the epoll itself.
        """

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if timeout is not None and 0 < timeout < _SHORT_S and self.fileno() < _MOST_OF_SELECT:
                select.select((self.fileno(),), (), (), timeout)
                timeout = 0
            return super().select(timeout)

else:
    PreciseSelector = selectors.DefaultSelector


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop of our own may be the fast one: uvloop's where it is installed."""
    if importlib.util.find_spec("uvloop") is not None:
        loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
        return loop
    return asyncio.new_event_loop()
