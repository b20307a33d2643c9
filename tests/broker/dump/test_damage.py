"""Whatever is damaged, the dump shows it or names it: it fails in no other way, and memory stays bounded."""

from __future__ import annotations

import struct
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla._native import crc32c
from tests.broker.dump.support import dump_json, written_log

_SMALL = {
    "leader-epoch-checkpoint": b"0\n2\n0 0\n1 24\n",
    "replication-offset-checkpoint": b"0\n1\norders 0 78\n",
    "partition.metadata": b"version: 0\ntopic_id: YZw7Wl4VTlGRB3Fg1lzO9A",
    "meta.properties": b"version=1\nnode.id=1\ncluster.id=c\n",
    ".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":14}',
    "quorum-state": b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":1}',
}
_PATIENT = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
_BOUND = 32 << 20

damages = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "put", "double"]), st.floats(0, 1), st.binary(min_size=1, max_size=12)
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def files() -> Iterator[dict[str, bytes]]:
    """The content of every file of a log, and of the small ones beside it."""
    with tempfile.TemporaryDirectory() as folder:
        log = written_log(Path(folder))
        yield {path.name: path.read_bytes() for path in sorted(log.iterdir())} | _SMALL


def damaged(content: bytes, changes: list[tuple[str, float, bytes]]) -> bytes:
    for kind, where, data in changes:
        at = int(where * len(content))
        if kind == "flip":
            content = content[:at] + data[: len(content) - at] + content[at + len(data) :]
        elif kind == "cut":
            content = content[:at]
        elif kind == "put":
            content = content[:at] + data + content[at:]
        else:
            content = content[:at] + content
    return content


def with_checksums(content: bytes) -> bytes:
    """As if every batch that lies there by its length had been written so."""
    mended = bytearray(content)
    position = 0
    while len(mended) - position >= 61:
        (length,) = struct.unpack_from(">i", mended, position + 8)
        if length < 49 or position + 12 + length > len(mended):
            break
        end = position + 12 + length
        mended[position + 16] = 2
        struct.pack_into(">I", mended, position + 17, crc32c(memoryview(mended)[position + 21 : end]))
        position = end
    return bytes(mended)


def check(folder: Path, files: dict[str, bytes], name: str, content: bytes) -> None:
    for each, original in files.items():
        if each.partition(".")[0] == name.partition(".")[0]:
            (folder / each).write_bytes(original)
    (folder / name).write_bytes(content)
    tracemalloc.start()
    try:
        for path in (folder / name, folder):
            for options in ([], ["--print-data-log"], ["--offsets-decoder"], ["--verify-index-only"]):
                done = dump_json(path, *options)
                assert done.code == (2 if done.complaints else 1 if _is_damaged(done.objects) else 0)
        assert tracemalloc.get_traced_memory()[1] < _BOUND
    finally:
        tracemalloc.stop()


def _is_damaged(objects: list[dict[str, object]]) -> bool:
    return any(each["kind"] == "problem" or "undecoded" in each for each in objects)


@_PATIENT
@given(pick=st.integers(0, 1000), changes=damages)
def test_random_damage_of_any_file_is_shown_or_named(
    files: dict[str, bytes], pick: int, changes: list[tuple[str, float, bytes]]
) -> None:
    name = sorted(files)[pick % len(files)]
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "orders-0"
        folder.mkdir()
        check(folder, files, name, damaged(files[name], changes))


@_PATIENT
@given(pick=st.integers(0, 1000), changes=damages)
def test_damage_with_the_right_checksums_is_shown_or_named(
    files: dict[str, bytes], pick: int, changes: list[tuple[str, float, bytes]]
) -> None:
    names = [name for name in sorted(files) if name.endswith(".log")]
    name = names[pick % len(names)]
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "orders-0"
        folder.mkdir()
        check(folder, files, name, with_checksums(damaged(files[name], changes)))


@_PATIENT
@given(
    name=st.sampled_from(
        [f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")]
        + [*_SMALL, "bootstrap.checkpoint"]
    ),
    content=st.binary(max_size=300),
)
def test_any_bytes_under_any_name_are_shown_or_named(name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "orders-0"
        folder.mkdir()
        check(folder, {}, name, content)
