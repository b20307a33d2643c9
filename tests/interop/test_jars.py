"""The cache of jars trusts nothing but checksums. No network: the fetch is injected."""

import hashlib
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.interop import jars

CONTENT = {"org.example:one:1.0": b"the first jar", "org.example:two:2.0": b"the second jar"}
ONE, TWO = "org.example.one-1.0.jar", "org.example.two-2.0.jar"


class Registry:
    """Serves CONTENT and counts what was asked of it."""

    def __init__(self) -> None:
        self.content = dict(CONTENT)
        self.fetched: list[str] = []

    def fetch(self, coordinate: str, target: Path) -> None:
        self.fetched.append(coordinate)
        target.write_bytes(self.content[coordinate])


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def lock_file(tmp_path: Path) -> Path:
    path = tmp_path / "example.jars"
    lines = (f"{name} {hashlib.sha256(content).hexdigest()}\n" for name, content in CONTENT.items())
    path.write_text("".join(lines))
    return path


@pytest.fixture
def folder(tmp_path: Path, lock_file: Path, registry: Registry) -> Path:
    """A filled cache."""
    folder = tmp_path / "cache"
    jars.ensure(lock_file, folder, registry.fetch)
    assert sorted(registry.fetched) == sorted(CONTENT)
    registry.fetched.clear()
    return folder


def test_a_full_cache_is_neither_fetched_nor_hashed_again(
    lock_file: Path, folder: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Path] = []
    sha256 = jars._sha256

    def counting(path: Path) -> str:
        hashed.append(path)
        return sha256(path)

    monkeypatch.setattr(jars, "_sha256", counting)
    assert jars.ensure(lock_file, folder, registry.fetch) == [folder / ONE, folder / TWO]
    assert (registry.fetched, hashed) == ([], [lock_file])


def test_a_truncated_jar_is_fetched_again(lock_file: Path, folder: Path, registry: Registry) -> None:
    (folder / ONE).write_bytes(b"the fir")
    jars.ensure(lock_file, folder, registry.fetch)
    assert registry.fetched == ["org.example:one:1.0"]
    assert (folder / ONE).read_bytes() == b"the first jar"


def test_a_jar_of_the_right_size_but_other_content_is_fetched_again(
    lock_file: Path, folder: Path, registry: Registry
) -> None:
    (folder / ONE).write_bytes(b"the worst jar")
    jars.ensure(lock_file, folder, registry.fetch)
    assert (folder / ONE).read_bytes() == b"the first jar"


def test_a_missing_jar_is_fetched_again(lock_file: Path, folder: Path, registry: Registry) -> None:
    (folder / TWO).unlink()
    jars.ensure(lock_file, folder, registry.fetch)
    assert registry.fetched == ["org.example:two:2.0"]


def test_a_damaged_marker_costs_a_check_and_no_fetch(
    lock_file: Path, folder: Path, registry: Registry
) -> None:
    (folder / "complete.json").write_text('{"lock": "')
    jars.ensure(lock_file, folder, registry.fetch)
    assert registry.fetched == []


def test_a_wrong_checksum_is_an_error_that_names_the_jar_and_leaves_none(
    lock_file: Path, tmp_path: Path, registry: Registry
) -> None:
    registry.content["org.example:two:2.0"] = b"something else"
    with pytest.raises(jars.ChecksumError, match=r"org\.example:two:2\.0"):
        jars.ensure(lock_file, tmp_path / "cache", registry.fetch)
    assert not list((tmp_path / "cache").glob(f"{TWO}*"))


def test_a_fetch_that_breaks_off_leaves_nothing_that_is_trusted(
    lock_file: Path, tmp_path: Path, registry: Registry
) -> None:
    def break_off(coordinate: str, target: Path) -> None:
        target.write_bytes(b"the ")
        raise ConnectionError("connection reset")

    with pytest.raises(ConnectionError):
        jars.ensure(lock_file, tmp_path / "cache", break_off)
    paths = jars.ensure(lock_file, tmp_path / "cache", registry.fetch)
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())


def test_two_at_once_fetch_each_jar_once(lock_file: Path, tmp_path: Path, registry: Registry) -> None:
    # flock excludes by open file, so threads stand for processes here.
    together = threading.Barrier(2)

    def ensure() -> list[Path]:
        together.wait(timeout=60)
        return jars.ensure(lock_file, tmp_path / "cache", registry.fetch)

    with ThreadPoolExecutor(2) as pool:
        first, second = (future.result(timeout=60) for future in [pool.submit(ensure), pool.submit(ensure)])
    assert first == second
    assert sorted(registry.fetched) == sorted(CONTENT)


def test_the_lock_file_holds_every_root_and_one_line_per_jar() -> None:
    lines = jars.LOCK_FILE.read_text().splitlines()
    assert all(re.fullmatch(r"[\w.-]+:[\w.-]+:[\w.-]+ [0-9a-f]{64}", line) for line in lines)
    assert {jar.coordinate for jar in jars.read_lock()} >= set(jars.ROOTS)
    assert len({jar.file_name for jar in jars.read_lock()}) == len(lines)


def test_every_kafka_module_in_the_lock_file_has_the_same_version() -> None:
    # A resolver that mixes up managed versions puts an older client library under the broker.
    kafka = [jar.coordinate for jar in jars.read_lock() if jar.coordinate.startswith("org.apache.kafka:")]
    assert {coordinate.rsplit(":")[-1] for coordinate in kafka} == {jars.VERSION}
