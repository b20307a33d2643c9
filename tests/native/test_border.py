"""Where Python objects meet C: what is accepted, what is refused, and what is given back."""

from __future__ import annotations

import array
import ast
import inspect
import mmap
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla._native import checksums
from ottla._native.checksums import _crc32c_software, crc32c, murmur2

HashFunction = Callable[..., int]
each = pytest.mark.parametrize("function", [crc32c, _crc32c_software, murmur2], ids=lambda f: f.__name__)


@each
def test_anything_contiguous_is_taken_as_bytes(function: HashFunction) -> None:
    data = bytes(range(24))
    expected = function(data)
    assert function(bytearray(data)) == expected
    assert function(memoryview(data)) == expected
    assert function(memoryview(data).cast("B", (2, 3, 4))) == expected
    assert function(array.array("i", data)) == expected
    with mmap.mmap(-1, 24) as mapped:
        mapped[:] = data
        assert function(mapped) == expected


@each
@pytest.mark.parametrize("data", ["text", 5, None, [1, 2]], ids=lambda data: type(data).__name__)
def test_what_is_not_bytes_is_refused_by_name(function: HashFunction, data: object) -> None:
    with pytest.raises(TypeError, match=f"^data must be a bytes-like object, not {type(data).__name__}$"):
        function(data)


@each
def test_memory_with_gaps_is_refused(function: HashFunction) -> None:
    with pytest.raises(BufferError):
        function(memoryview(b"abcdef")[::2])


@each
@pytest.mark.parametrize("size", [10, 1_000_000])
def test_the_buffer_is_given_back(function: HashFunction, size: int) -> None:
    data = bytearray(size)
    function(data)
    data.append(0)  # raises BufferError while somebody holds the buffer


def test_the_buffer_is_given_back_when_another_argument_is_wrong() -> None:
    data = bytearray(10)
    with pytest.raises(ValueError, match="value"):
        crc32c(data, -1)
    data.append(0)


def another_thread_ran(work: Callable[[], object]) -> bool:
    """Whether a thread that wants the GIL got it while `work` was called again and again.

    With a switch interval of minutes nobody takes the GIL away: the thread runs only if `work` lets go.
    """
    gate = threading.Lock()
    ran = threading.Event()

    def wait_for_the_gate() -> None:
        with gate:
            ran.set()

    gate.acquire()
    thread = threading.Thread(target=wait_for_the_gate)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(600)
    try:
        gate.release()
        for _ in range(1000):
            work()
            if ran.is_set():
                break
        return ran.is_set()
    finally:
        sys.setswitchinterval(interval)
        thread.join()


needs_gil = pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="this Python runs without the GIL"
)


@needs_gil
@each
def test_others_can_run_while_a_large_input_is_read(function: HashFunction) -> None:
    data = bytes(4_000_000)
    assert another_thread_ran(lambda: function(data))


@needs_gil
@each
def test_the_gil_is_kept_for_a_small_input(function: HashFunction) -> None:
    data = bytes(10_000)
    assert not another_thread_ran(lambda: function(data))


def test_the_stub_names_what_the_module_has() -> None:
    stub = ast.parse(Path(checksums.__file__).with_name("checksums.pyi").read_text())
    promised = {
        node.name: [argument.arg for argument in node.args.args]
        for node in stub.body
        if isinstance(node, ast.FunctionDef)
    }
    present = {
        name: list(inspect.signature(value).parameters)
        for name, value in vars(checksums).items()
        if callable(value) and not inspect.isclass(value) and not name.startswith("__")
    }
    assert promised == present
