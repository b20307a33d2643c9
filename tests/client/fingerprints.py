"""Whether two states of a driver's world are the same: then whatever can follow the one can follow the other.

A state is what the rest of a run depends on: where each thread stands, with its local variables, and every object
that can be reached from there. Objects have no names, so each is numbered in the order in which it is met, and
described by its contents. An object of a kind that is not known here is an error: it could hide a difference.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextvars
import functools
import types
from collections.abc import Callable
from typing import Any, Final

_ATOMS: Final = (int, float, str, bytes, type(None), type(NotImplemented), type, types.ModuleType)
# Frames of the world itself say nothing that `Thread.step` does not say.
_OF_THE_WORLD: Final = ("driver_world.py", "fingerprints.py", "threading.py")


def fingerprint(world: Any) -> int:
    """Equal for equal states."""
    about = _Describer()
    stacks = [(thread.name, about.stack(thread.frame)) for thread in world.threads if not thread.is_over]
    return hash((tuple(stacks), about(world)))


class _Describer:
    """Turns objects into tuples of atoms."""

    def __init__(self) -> None:
        # Each with itself: an object that is gone could hand its address on to another.
        self._met: dict[int, tuple[int, object]] = {}

    def __call__(self, thing: Any) -> Any:
        if isinstance(thing, _ATOMS):
            return thing
        if id(thing) in self._met:
            return ("again", self._met[id(thing)][0])
        self._met[id(thing)] = (len(self._met), thing)
        for kind, describe in _KINDS.items():
            if isinstance(thing, kind):
                return (type(thing).__name__, describe(self, thing))
        if type(thing).__name__ == "TaskStepMethWrapper":
            return ("step", self(thing.__self__))
        if type(thing).__name__ == "FutureIter":
            return "the future that its task waits for"
        if _is_ours(type(thing)):
            return (type(thing).__name__, self._fields(thing))
        raise TypeError(f"it is not known what makes two of {type(thing)} the same")

    def stack(self, frame: types.FrameType | None) -> tuple[Any, ...]:
        described = []
        while frame is not None:
            if not frame.f_code.co_filename.endswith(_OF_THE_WORLD):
                described.append(self._frame(frame))
            frame = frame.f_back
        return tuple(described)

    def _frame(self, frame: types.FrameType | None) -> Any:
        if frame is None:
            return None
        local = {name: value for name, value in frame.f_locals.items() if not name.startswith("old_agen")}
        return (frame.f_code.co_qualname, frame.f_lasti, self._dict(local))

    def _fields(self, thing: Any) -> Any:
        hidden = getattr(thing, "not_of_the_state", ())
        fields = {name: value for name, value in getattr(thing, "__dict__", {}).items() if name not in hidden}
        for base in type(thing).__mro__:
            for name in base.__dict__.get("__slots__", ()):
                if hasattr(thing, name):
                    fields[name] = getattr(thing, name)
        return self._dict(fields)

    def _dict(self, given: Any) -> Any:
        return tuple((self(key), self(value)) for key, value in given.items())

    def _each(self, given: Any) -> Any:
        return tuple(map(self, given))

    def _function(self, function: types.FunctionType) -> Any:
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_full(cell)]
        return (function.__qualname__, self._each(cells), self._each(function.__defaults__ or ()))

    def _coroutine(self, work: Any) -> Any:
        return (work.__qualname__, self._frame(work.cr_frame), self(work.cr_await))

    def _handle(self, handle: Any) -> Any:
        when = handle.when() if isinstance(handle, asyncio.TimerHandle) else None
        return (handle.cancelled(), when, self(handle._callback), self(handle._args))

    def _future(self, future: Any) -> Any:
        told = (future._state, self(future._result), self(future._exception), self(future._callbacks))
        if isinstance(future, asyncio.Task):
            waits = (self(future.get_coro()), self(future._fut_waiter))  # type: ignore[attr-defined]
            return (*told, *waits, future.cancelling(), future._must_cancel)  # type: ignore[attr-defined]
        return told

    def _thread_future(self, future: Any) -> Any:
        return (future._state, self(future._result), self(future._exception), self(future._done_callbacks))

    def _loop(self, loop: Any) -> Any:
        flags = (loop.is_woken, loop._stopping, loop.is_closed(), loop._now, self(loop.runner))
        return (flags, self._each(loop._ready), self._each(loop._scheduled))


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("ottla", "tests", "asyncio")


# The first that fits.
_KINDS: Final[dict[Any, Callable[[_Describer, Any], Any]]] = {
    (list, tuple, collections.deque): _Describer._each,
    dict: _Describer._dict,
    (asyncio.Future,): _Describer._future,
    concurrent.futures.Future: _Describer._thread_future,
    asyncio.Handle: _Describer._handle,
    asyncio.BaseEventLoop: _Describer._loop,
    functools.partial: lambda describe, each: describe([each.func, each.args, each.keywords]),
    types.FunctionType: _Describer._function,
    (types.MethodType, types.BuiltinMethodType): lambda describe, each: (
        each.__qualname__,
        describe(each.__self__),
    ),
    types.CoroutineType: _Describer._coroutine,
    types.GeneratorType: lambda describe, each: (describe._frame(each.gi_frame), describe(each.gi_yieldfrom)),
    contextvars.Context: lambda describe, each: describe(list(each)),
    BaseException: lambda describe, each: describe(list(each.args)),
}
