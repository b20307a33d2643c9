"""Headers as numbers, and the walk over the batches of a file, however the file is cut into parts."""

from __future__ import annotations

from ottla._native.record_batch import read_header
from ottla.broker.log.batch import contiguous, find, find_last, walk, walk_headers
from ottla.broker.log.fs import MemoryFile
from ottla.wire.batches import batch_headers
from tests.broker.log.support import make_batch, patched


class Crumbs(MemoryFile):
    """A file that is read in parts of a few bytes, as another implementation might."""

    def read(self, position: int, length: int) -> list[memoryview]:
        whole = b"".join(super().read(position, length))
        return [memoryview(whole[at : at + 7]) for at in range(0, len(whole), 7)]


def test_a_header_is_the_same_as_the_wire_layer_reads() -> None:
    data = make_batch(3, producer=(7, 2, 2**31 - 2), transactional=True, codec=1)
    (expected,) = batch_headers(data)
    batch = read_header(data)
    for name in (
        *("size", "base_offset", "last_offset", "next_offset", "leader_epoch", "crc", "attributes", "magic"),
        *("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence"),
        *("last_sequence", "codec", "is_transactional", "is_control"),
    ):
        assert getattr(batch, name) == getattr(expected, name), name
    assert batch.record_count == expected.count
    assert not batch.has_append_time


def test_a_walk_finds_every_batch() -> None:
    for file in (MemoryFile(), Crumbs()):
        sizes = [len(make_batch(count)) for count in (1, 900, 2)]
        for base, count in ((0, 1), (1, 900), (901, 2)):
            file.append(patched(make_batch(count), ">q", 0, base))
        places = list(walk(file, 0, file.size))
        assert [place.size for place in places] == sizes
        assert [(place.base_offset, place.last_offset) for place in places] == [(0, 0), (1, 900), (901, 902)]
        assert places[1].end == places[2].position
        assert [batch.record_count for _, batch in walk_headers(file, places[1].position, file.size)] == [
            900,
            2,
        ]


def test_a_batch_is_found_by_an_offset_and_by_the_end_of_a_range() -> None:
    for file in (MemoryFile(), Crumbs()):
        base = 0
        # Some lie within one read of the file, one is longer than that.
        for count in (1, 3, 900, 1, 1):
            file.append(patched(make_batch(count, value=b"v" * 30), ">q", 0, base))
            base += count
        places = list(walk(file, 0, file.size))
        for place in places:
            for offset in (place.base_offset, place.last_offset):
                assert find(file, 0, file.size, offset) == place
                assert find(file, place.position, file.size, offset) == place
            assert find_last(file, 0, place.end) == find_last(file, place.position, place.end + 60) == place
        assert find(file, 0, file.size, base) is None
        assert find(file, 0, places[2].end - 1, 5) is None
        assert find_last(file, 0, places[0].end - 1) is None
        assert find_last(file, 0, 0) is None


def test_a_walk_ends_before_a_batch_that_is_not_whole() -> None:
    file = MemoryFile()
    data = make_batch()
    file.append(data)
    file.append(data[:-1])
    assert [place.position for place in walk(file, 0, file.size)] == [0]
    assert list(walk(file, 0, len(data) - 1)) == []


def test_a_walk_ends_at_bytes_that_are_no_batch() -> None:
    file = MemoryFile()
    file.append(make_batch())
    file.append(bytes(100))
    assert [place.position for place in walk(file, 0, file.size)] == [0]


def test_memory_in_one_piece_is_not_copied() -> None:
    file = MemoryFile()
    file.append(b"a" * 400)
    file.append(b"b" * 400)
    assert contiguous(file, 0, 400).obj is file.read(0, 400)[0].obj
    assert contiguous(file, 390, 20) == b"a" * 10 + b"b" * 10
