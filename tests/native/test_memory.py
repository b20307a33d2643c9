"""Pooled memory: used again, bounded, and never while somebody still looks at it."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ottla._native import memory
from ottla._native.memory import Memory, joined

DEFAULT = 256 << 20
DEFAULT_BLOCK = 1 << 16


@pytest.fixture(autouse=True)
def empty_pool() -> Iterator[None]:
    gc.collect()
    memory.keep_at_most(0)
    memory.keep_at_most(DEFAULT)
    yield
    memory.keep_at_most(DEFAULT)


def kept() -> int:
    return memory.statistics()["kept"]


def test_a_block_comes_back_when_nobody_needs_it() -> None:
    block = Memory(100_000)
    assert (len(block), block.size) == (100_000, 100_000)
    view = memoryview(block)
    view[:3] = b"abc"
    del block
    assert kept() == 0
    assert bytes(view[:3]) == b"abc"
    view.release()
    assert kept() == 131_072


def test_blocks_are_used_again() -> None:
    first = memory.statistics()
    for _ in range(10):
        Memory(50_000)
    after = memory.statistics()
    assert (after["taken"] - first["taken"], after["reused"] - first["reused"]) == (10, 9)
    assert after["in_use"] == first["in_use"]


def test_what_is_kept_is_bounded_and_the_latest_stays() -> None:
    memory.keep_at_most(1 << 20)
    small = [Memory(65_536) for _ in range(32)]
    del small
    assert kept() == 1 << 20
    large = Memory(1 << 20)
    del large
    # The blocks that rested longest made room for the one that was used last.
    assert kept() == 1 << 20
    before = memory.statistics()["reused"]
    Memory(1 << 20)
    assert memory.statistics()["reused"] == before + 1


def test_nothing_is_kept_where_nothing_may_be() -> None:
    memory.keep_at_most(0)
    Memory(10_000)
    assert kept() == 0


def test_poison_shows_use_after_return() -> None:
    memory._poison(True)
    try:
        memoryview(Memory(5000))[:] = b"x" * 5000
        # The first bytes link the blocks that wait.
        assert set(bytes(memoryview(Memory(5000))[8:])) == {0xDB}
    finally:
        memory._poison(False)


def test_a_size_that_no_machine_has_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="no memory for a buffer of"):
        Memory(1 << 60)


_THREADS = """
import threading
from ottla._native import memory

def work(number):
    for size in range(1, 2000):
        view = memoryview(memory.Memory(size * 50))
        view[0] = view[-1] = number
        assert (view[0], view[-1]) == (number, number)

threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(memory.statistics()["in_use"])
"""


def test_threads_share_the_pool() -> None:
    # In a process of its own: in this one, clusters of other tests use the pool too, whenever they like.
    done = subprocess.run([sys.executable, "-c", _THREADS], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_two_views_that_touch_in_one_block_are_one_view() -> None:
    block = Memory(100)
    whole = memoryview(block)
    whole[:6] = b"abcdef"
    view = joined(whole[1:3].toreadonly(), whole[3:6].toreadonly())
    assert view is not None
    assert (bytes(view), view.readonly, view.obj is block) == (b"bcdef", True, True)
    empty = joined(whole[2:2], whole[2:4])
    assert empty is not None
    assert bytes(empty) == b"cd"


def test_views_that_do_not_touch_or_are_of_other_memory_are_not_joined() -> None:
    whole, other = memoryview(Memory(100)), memoryview(Memory(100))
    assert joined(whole[0:3], whole[4:6]) is None
    assert joined(whole[3:6], whole[0:3]) is None
    assert joined(whole[0:3], whole[2:6]) is None
    assert joined(whole[0:3], other[3:6]) is None
    plain = memoryview(b"abcdef")
    assert joined(plain[:3], plain[3:]) is None


def test_a_joined_view_keeps_its_block() -> None:
    whole = memoryview(Memory(DEFAULT_BLOCK))
    view = joined(whole[:10], whole[10:20])
    del whole
    gc.collect()
    in_use = memory.statistics()["in_use"]
    del view
    gc.collect()
    assert memory.statistics()["in_use"] < in_use
